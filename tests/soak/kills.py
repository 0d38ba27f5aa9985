"""kill -9 at random moments, over all kinds of calls: what was answered is charged and told again, and no more."""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from chary import BudgetExceeded, Session
from chary.errors import InvalidInput
from chary.ledger import open_ledger
from tests.soak.children import Child, Tell
from tests.soak.counters import counters_differ
from tests.soak.figures import Figures, Until
from tests.soak.replay import Replay
from tests.soak.rooms import BUDGETS, ROOMS

PATIENCE = 15
KILLS_OF_ONE_LEDGER = 40
SILENT_SECONDS = 60.0
# A call takes some 10 milliseconds.
PAUSES = (0.01, 0.1)


def unharmed() -> None:
    """Children run chary as it is."""


@dataclass
class Series:
    """One ledger on its way from one child to the next, with all that its children told before they died."""

    room: str
    options: dict
    folder: Path
    told: list[tuple[str, str, str, str]] = field(default_factory=list)
    kills: int = 0
    spent: bool = False

    @property
    def ledger(self) -> Path:
        return self.folder / "soak.ledger"

    @property
    def over(self) -> bool:
        return self.spent or self.kills >= KILLS_OF_ONE_LEDGER

    def open(self) -> Session:
        return ROOMS[self.room].open(self.folder, ledger=self.ledger, **self.options)


def kills(until: Until, random: Random, sabotage: Callable[[], None] = unharmed) -> Figures:
    """The attack. `sabotage` runs in each child before anything else, to see that a broken chary is caught."""
    figures, series = Figures(), None
    for number in until:
        if series is None or series.over:
            series = _another(series, random)
            figures.count("ledgers")
        _one(figures, series, number, random, sabotage)
    _another(series, random, last=True)
    return figures


def _another(before: Series | None, random: Random, last: bool = False) -> Series | None:
    if before is not None:
        shutil.rmtree(before.folder)
    if last:
        return None
    series = Series(random.choice(sorted(ROOMS)), random.choice(BUDGETS), Path(tempfile.mkdtemp(prefix="soak-")))
    ROOMS[series.room].make(series.folder)
    if before is None:
        # What is imported and compiled here, once, no child has to import and compile again.
        with ROOMS[series.room].open(series.folder, ledger=":memory:", **series.options) as session:
            ROOMS[series.room].prepare(session, ROOMS[series.room].kinds[0], "warm")(None)
    return series


def _one(figures: Figures, series: Series, number: int, random: Random, sabotage: Callable[[], None]) -> None:
    seed = random.getrandbits(32)

    def live(tell: Tell) -> None:
        sabotage()
        session = series.open()
        tell("opened")
        for line in _asked(series, session, number, Random(seed)):
            tell(*line)
        tell("spent")

    child = Child(live)
    # Moments are spread over calls, however busy the machine; without a line to wait for they fall into the opening.
    child.wait_for(random.choice([0, 1, 1, 2, 3, 5, 8]), SILENT_SECONDS)
    time.sleep(random.uniform(0, random.choice(PAUSES)))
    child.kill()
    lines, killed = child.told()
    series.kills += 1
    figures.count("kills" if killed else "ended by themselves")
    where = f"{series.room}, {series.options}, kill {series.kills}"
    for line in lines:
        _hear(figures, series, line, where)
    _check(figures, series, where)


def _asked(series: Series, session: Session, number: int, random: Random) -> Iterator[tuple[str, ...]]:
    room, refused = ROOMS[series.room], 0
    if series.told and random.random() < 0.5:
        kind, name, key, before = random.choice(series.told)
        same = digest(room.prepare(session, kind, name)(key)) == before
        yield ("again", kind, name, key, "same" if same else "another")
    for turn in range(10**6):
        kind = random.choice(room.kinds)
        name = f"{number} {turn} {kind}"
        try:
            answer = room.prepare(session, kind, name)(f"asked {name}")
            refused = 0
            yield ("answer", kind, name, f"asked {name}", digest(answer))
        except BudgetExceeded:
            refused += 1
            yield ("refused", kind)
        except InvalidInput:
            yield ("invalid", kind)
        if refused >= PATIENCE:
            return


def _hear(figures: Figures, series: Series, line: list, where: str) -> None:
    what, *rest = line
    if what == "answer":
        figures.count("answers")
        series.told.append(tuple(rest))
    elif what == "again":
        figures.count("asked again")
        figures.expect(rest[-1] == "same", f"{where}: {rest[:-1]} was answered otherwise")
    elif what == "broken":
        figures.violation(f"{where}: {rest[0]}")
        series.spent = True
    elif what == "spent":
        series.spent = True
    elif what in ("refused", "invalid"):
        figures.count(what)


def _check(figures: Figures, series: Series, where: str) -> None:
    if not series.ledger.exists():
        figures.expect(not series.told, f"{where}: the ledger is gone")
        return
    replay = Replay(series.ledger)
    for problem in replay.problems:
        figures.violation(f"{where}: {problem}")
    for kind, _, key, _ in series.told:
        if kind != "append":
            figures.expect(
                "settled" in replay.state(key), f"{where}: the answer to {key!r} was seen and is not settled"
            )
    ledger = open_ledger(series.ledger)
    for problem in [*ledger.verify().problems, *counters_differ(ledger, replay)]:
        figures.violation(f"{where}: {problem}")
    ledger.close()


def digest(answer: object) -> str:
    """A short word for an answer, the same for the same answer."""
    return hashlib.sha256(repr(answer).encode()).hexdigest()[:16]
