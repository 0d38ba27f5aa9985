"""Bit flips, truncations and losses of a ledger's files: found out, or harmless; never a budget given back."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chary.errors import LedgerError
from chary.ledger import Amount, CallRecord, Ledger, Terms, open_ledger
from tests.soak.children import Child, Tell
from tests.soak.figures import Figures, Until

NAME = "soak.ledger"
# Shared memory that SQLite makes anew whenever nobody has the file open; nothing is kept in it.
REBUILT = ("-shm",)
DAMAGES_OF_ONE = 150
SILENT_SECONDS, WRITER_SECONDS = 60.0, 0.05
CAPACITY = Amount(10**6, 10**6)
Open = Callable[[Path], Ledger]


@dataclass
class Victim:
    """The files of a ledger as a crash or a close left them, and what was committed by then.

    `charged` are the calls that the writer was told were charged, with the amounts; `answers` what was stored.
    """

    files: dict[str, bytes]
    charged: dict[int, int]
    answers: dict[int, str]
    keys: dict[int, str]


def damage(until: Until, random: Random, opened: Open = open_ledger) -> Figures:
    """The attack; `opened` opens a ledger, to see that one that trusts its file is caught."""
    figures, victim = Figures(), None
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for number in until:
            if number % DAMAGES_OF_ONE == 0:
                victim = _victim(Path(folder) / f"victim {number}", random)
                figures.count("ledgers")
                as_it_was = _kept(victim, Path(folder) / "kept", opened)
                figures.expect(as_it_was == "harmless", f"a copy of {sorted(victim.files)}: {as_it_was}")
            place = Path(folder) / "damaged"
            done = _harm(victim, place, random)
            figures.count(done.split(":")[0])
            outcome = judge(opened, place / NAME, victim)
            figures.count(outcome if outcome in ("found", "harmless") else "missed")
            figures.expect(
                outcome in ("found", "harmless"),
                f"{done}, of {sorted(victim.files)}: {outcome}",
                done.split()[-1] + outcome,
            )
            shutil.rmtree(place)
    return figures


def _victim(folder: Path, random: Random) -> Victim:
    """A ledger that was closed, or one whose writer was killed, with a journal beside it if one can be had."""
    folder.mkdir()
    path = folder / NAME
    ledger = open_ledger(path)
    ledger.open(Terms("data", "ab12", '{"unit":"patient"}', CAPACITY))
    ledger.set_quota("data", "bob", Amount(10**5, 10**5))
    ledger.close()
    killed, told = random.random() < 0.75, {}
    for _ in range(20 if killed else 1):
        # Each writer goes on with whatever the one before left; what is told last of a call counts.
        told |= {line[0]: line for line in _written(path, random, killed)}
        if len(os.listdir(folder)) > 1 and any(file.stat().st_size for file in _beside(path)):
            break
    files = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith(REBUILT)}
    shutil.rmtree(folder)
    charged = {call: price for call, price, *_ in told.values()}
    settled = [line for line in told.values() if line[2] is not None]
    return Victim(files, charged, {line[0]: line[2] for line in settled}, {line[0]: line[3] for line in settled})


def _beside(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if file != path and not file.name.endswith(REBUILT)]


def _written(path: Path, random: Random, killed: bool) -> list[list]:
    """What a writer told before it was killed or was done."""
    seed = random.getrandbits(32)
    writer = Child(lambda tell: _write(path, Random(seed), tell, 10**6 if killed else 12))
    if killed:
        writer.wait_for(random.randint(1, 60), SILENT_SECONDS)
        time.sleep(random.uniform(0, WRITER_SECONDS))
        writer.kill()
    lines, _ = writer.told()
    return lines


def _write(path: Path, random: Random, tell: Tell, rounds: int) -> None:
    """The writer: it tells of each charge once it is committed."""
    ledger = open_ledger(path)
    for number in range(rounds):
        analyst, key = random.choice(["ann", "bob"]), f"{os.getpid()} {number}"
        worst = random.randint(1, 9)
        call = ledger.reserve("data", analyst, "count", '{"where":"age"}', Amount(worst, 1), request=key)
        tell(call.call, worst, None, key)
        if random.random() < 0.15:
            continue
        answer, price = json.dumps({"value": random.randint(0, 999)}), random.randint(0, worst)
        # From here on the call may cost less; that it does is told only afterwards.
        tell(call.call, price, None, key)
        secret = random.randbytes(40) if random.random() < 0.5 else None
        ledger.settle(call, Amount(price, 1), 1, 1, answer, secret=secret)
        tell(call.call, price, answer, key)
    ledger.close()


def _kept(victim: Victim, place: Path, opened: Open) -> str:
    """What is said of the files without any harm."""
    _lay_out(victim, place)
    outcome = judge(opened, place / NAME, victim)
    shutil.rmtree(place)
    return outcome


def _lay_out(victim: Victim, place: Path) -> None:
    place.mkdir()
    for name, content in victim.files.items():
        (place / name).write_bytes(content)
        (place / name).chmod(0o600)


def _harm(victim: Victim, place: Path, random: Random) -> str:
    """Write the files, one of them harmed; what was done, in words.

    The main file is never emptied or removed: that is how a ledger begins, and only a checkpoint elsewhere can tell.
    """
    _lay_out(victim, place)
    name = random.choice([name for name in sorted(victim.files) if victim.files[name]])
    content = bytearray(victim.files[name])
    act = random.choice(["flip"] * 6 + ["truncation"] * 2 + (["loss"] if name != NAME else []))
    if act == "loss":
        (place / name).unlink()
        return f"losses: of {name}"
    if act == "truncation":
        size = random.randint(1 if name == NAME else 0, len(content) - 1)
        (place / name).write_bytes(content[:size])
        return f"truncations: to {size} of {len(content)} bytes of {name}"
    bit = random.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    (place / name).write_bytes(content)
    return f"flips: bit {bit} of {name}"


def judge(opened: Open, path: Path, victim: Victim) -> str:
    """ "found" by a refusal or by `verify`, "harmless" if all that was committed is still there, else what is wrong."""
    try:
        ledger = opened(path)
    except LedgerError:
        return "found"
    except Exception as error:
        return f"opening raised {type(error).__name__}"
    try:
        return _judged(ledger, victim)
    except LedgerError as error:
        return f"verify was fine, and then: {error}"
    except Exception as error:
        return f"it raised {type(error).__name__}"
    finally:
        ledger.close()


def _judged(ledger: Ledger, victim: Victim) -> str:
    if not _verified(ledger):
        return "found"
    if "data" not in {terms.name for terms in ledger.datasets()}:
        return "the dataset is gone, and with it every charge" if victim.charged else "harmless"
    calls = {call.number: call for call in ledger.calls("data")}
    if not victim.charged.keys() <= calls.keys():
        return "charges are gone and verify is fine"
    if ledger.balance("data").spent.main < sum(victim.charged.values()):
        return "less is spent than was charged and verify is fine"
    if any(calls[number].answer != answer for number, answer in victim.answers.items()):
        return "answers changed and verify is fine"
    if not all(_finds(ledger, calls[number], key) for number, key in victim.keys.items()):
        return "a request key no longer finds its answer and verify is fine"
    return "harmless"


def _verified(ledger: Ledger) -> bool:
    try:
        return ledger.verify().ok
    except LedgerError:
        return False


def _finds(ledger: Ledger, call: CallRecord, key: str) -> bool:
    found = ledger.replay("data", call.analyst, key, call.kind, call.body)
    return found is not None and found.number == call.number
