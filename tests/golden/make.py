"""Writes ledgers with every kind of call, to be kept for ever: `python -m tests.golden.make FOLDER`.

Each ends with a call that a crash left open. Beside them lies what must be found in them again.
"""

import gzip
import json
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from chary.noise import Seeded
from tests.conformance.samples import FIRST
from tests.golden.sources import LEDGERS, LEFT, more_rows, of_table
from tests.session.interruption_kit import Interruption, Stop


def write(opened, kinds, place, *, seed):
    """Ask every kind once, append where rows stay, and leave a call open."""
    stop = Interruption("evaluated", armed=False)
    with opened(place, unsafe_noise=Seeded(seed), on_step=stop) as session:
        for title, kind in kinds.items():
            kind(session, title)(f"monday, {title}")
        if "database" in str(place):
            session.append(more_rows())
        ask = kinds[next(iter(kinds))](session, "lost")
        stop.armed = True
        with suppress(Stop):
            ask("lost")
        return told(session)


def leave(place, folder):
    """A ledger as a crash of the whole machine leaves it: copied with the log beside it, before anything is closed."""
    with of_table(place, unsafe_noise=Seeded(99)) as session:
        for title in LEFT:
            FIRST[title](session, title)(f"monday, {title}")
        for file in place.parent.glob(f"{place.name}*"):
            shutil.copy(file, folder)
        return told(session)


def told(session):
    """What must be found again: the charges, the head of the chain, and each call with its stored answer."""
    calls = [session.spine.ledger.call(entry.call) for entry in session.history]
    spent, lines = session.spent.amount, list(session.spine.ledger.export(session.spine.dataset))
    return {
        "spent": [spent.main, spent.delta],
        "head": lines[-1]["hash"],
        "entries": lines[-1]["number"],
        "calls": [[call.number, call.kind, call.request, str(call.state), call.answer] for call in calls],
    }


def main(folder):
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for seed, (title, (opened, kinds)) in enumerate(LEDGERS.items()):
            found[title] = write(opened, kinds, Path(name) / f"{title}.ledger", seed=seed)
        (Path(name) / "open").mkdir()
        found["left"] = leave(Path(name) / "open" / "left.ledger", Path(name))
        kept = (file for file in Path(name).iterdir() if file.is_file() and not file.name.endswith((".csv", "-shm")))
        for file in sorted(kept):
            with file.open("rb") as plain, gzip.GzipFile(folder / f"{file.name}.gz", "wb", mtime=0) as packed:
                shutil.copyfileobj(plain, packed)
    (folder / "told.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
