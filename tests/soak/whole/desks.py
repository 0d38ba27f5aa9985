"""A desk: one open session on one of two neighbouring databases, its runs, and what an analyst may do at it."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from chary import Algorithm, Budget, BudgetExceeded, NotPriced, Session, count
from chary.calls import (
    Boundary,
    Choose,
    Classify,
    GaussianAboveThreshold,
    IndividualTests,
    Majority,
    MultiTarget,
    OnChange,
    Quantile,
    Release,
    RunAlgorithm,
    SparseVector,
    ThresholdTest,
    Widen,
)
from chary.data import NeighborRelation, RowTable
from chary.ledger import Ledger
from chary.mechanisms import Laplace
from chary.noise import Source
from chary.session.opening import BudgetChoice, Place, session_of

NEAR = NeighborRelation("add_remove", "unit")
SCHEMA = pa.schema({"unit": pa.string(), "age": pa.int64(), "clinic": pa.string()})
UNITS = [{"unit": f"u{n}", "age": 20 + 10 * n, "clinic": ("north", "south")[n % 2]} for n in range(6)]
ODD = {"unit": "px", "age": 75, "clinic": "north"}
BATCH = [{"unit": "late", "age": 72, "clinic": "south"}, {"unit": "later", "age": 30, "clinic": "north"}]
# Between the counts of the neighbours, where a test tells them apart best.
MIDDLE = len(UNITS) + 1
KEYS = count().by("clinic", ["north", "south"])
FAR = 4
# Sizes of a question that takes all it can get; an exact filter has prices for multiples of its grain.
GRID = [Fraction(step, 20) for step in range(1, 81)]
REFUSALS = ("BudgetExceeded", "NotPriced")
# The usual epsilon of a move.
EACH = Fraction(6, 10)
Symbol = str


def rows_of(side: int, *, grown: bool = False) -> pa.Table:
    """The rows without (0) or with (1) the odd unit, and perhaps the batch."""
    return pa.Table.from_pylist(UNITS + [ODD] * side + BATCH * grown, SCHEMA)


class Read:
    """A plan over rows that nobody appends to: its exact answer is read once, however many sessions ask for it."""

    def __init__(self, plan: object) -> None:
        self._plan, self._answer = plan, None

    def run(self) -> object:
        if self._answer is None:
            self._answer = self._plan.run()
        return self._answer.copy() if isinstance(self._answer, np.ndarray) else self._answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._plan, name)


class ReadOnce(RowTable):
    """A table whose plans read once; noise, prices and ledgers are those of every session anew."""

    def prepare(self, query: object) -> Read:
        return self._once(query, super().prepare)

    def ordered(self, asked: object) -> Read:
        return self._once(asked, super().ordered)

    def _once(self, asked: object, plan: Callable[[object], object]) -> Read:
        known = self.__dict__.setdefault("_read", {})
        if asked not in known:
            known[asked] = Read(plan(asked))
        return known[asked]


@dataclass(frozen=True)
class Promise:
    """What a session is opened under."""

    budget: Budget
    filter: str
    grain: str | None = None

    def open(self, table: RowTable, ledger: Ledger, source: Source | None) -> Session:
        """A session on this ledger; the same ledger again is a restart."""
        choice = BudgetChoice(self.budget, self.filter, self.grain)
        return session_of(table, choice, Place(ledger), ("d", "d"), unsafe_noise=source)


@dataclass
class Desk:
    """What is open; secret is only the table. Noise is that of the operating system unless tests say otherwise."""

    table: RowTable
    promise: Promise
    ledger: Ledger
    source: Source | None = None
    moves: "Menu | None" = None
    session: Session = field(init=False)
    runs: dict[str, object] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    appended: bool = False

    def __post_init__(self) -> None:
        self.session = self.promise.open(self.table, self.ledger, self.source)

    def do(self, move: str) -> Symbol:
        """What the analyst sees of one move, coarsened, with what was charged: refusals are seen too."""
        before = self.session.spent.share
        try:
            told = (self.moves or MOVES)[move](self)
        except (BudgetExceeded, NotPriced) as refusal:
            told = type(refusal).__name__
        return f"{told} {self.session.spent.share - before:.5f}"


def _near(value: float, middle: int = len(UNITS)) -> str:
    """A number as the side of the middle and how far, not above `FAR` steps."""
    return str(int(np.clip(round(float(value)) - middle, -FAR, FAR + 1)))


def _seen(answer: object) -> Symbol:
    """What an answer says: its value, or on which side it was, or that nothing is told."""
    told = answer.above if hasattr(answer, "above") else answer.value
    parts = told if isinstance(told, tuple) else (told,)
    return " ".join(str(part) if isinstance(part, (bool, str, type(None))) else _near(part) for part in parts)


Move = Callable[[Desk], Symbol]
Menu = Mapping[str, Move]


def _asked(make: Callable[[], object]) -> Move:
    return lambda desk: _seen(desk.session.ask(make()))


def _release_if(desk: Desk) -> Symbol:
    answer = desk.session.release_if(count(), above=MIDDLE, epsilon=EACH)
    if answer.value is None:
        desk.held.append(answer.call)
        return "held"
    return _near(answer.value)


def _revise(desk: Desk) -> Symbol:
    if not desk.held:
        return _release_if(desk)
    answer = desk.session.ask(Widen(desk.held.pop(), above=MIDDLE - 2))
    return "held" if answer.value is None else _near(answer.value)


def _watch(desk: Desk) -> Symbol:
    return str(sorted(map(str, desk.session.release_if(KEYS, above=4, epsilon=EACH).above)))


def _of_run(name: str, opening: Callable[[], object], **how: object) -> Move:
    """One test of a run that is opened if need be, and anew after a hit that ends it."""

    def asked(desk: Desk) -> Symbol:
        if name not in desk.runs:
            desk.runs[name] = desk.session.start(opening())
        said = _seen(desk.runs[name].ask(count(), **how))
        if said == "True":
            del desk.runs[name]
        return said

    return asked


def _counting(size: Fraction) -> Algorithm:
    """How many rows there are, with noise for this epsilon."""

    def counted(rows: pa.Table, source: Source) -> int:
        return int(Laplace.for_epsilon(size, sensitivity=1).apply_one(rows.num_rows, source))

    return Algorithm("counted", counted, epsilon=size)


COUNTED = _counting(EACH)


def _bit(size: Fraction, here: bool) -> Move:
    """Whether a noisy count says that the odd unit is there, which at the middle is randomized response; a hit where it
    is, or where it is not. With both, an exact filter's curve is reached (theory 1.3)."""

    def told(rows: pa.Table, source: Source) -> bool:
        return int(Laplace.for_epsilon(size, sensitivity=1).apply_one(rows.num_rows, source)) >= MIDDLE

    asked = Algorithm("bit", told, epsilon=size)
    return _asked(lambda: RunAlgorithm(asked, prior=not here))


def _race(desk: Desk) -> Symbol:
    if "race" not in desk.runs:
        desk.runs["race"] = desk.session.start(MultiTarget(["a", "b"]))
    return _seen(desk.runs["race"].ask(COUNTED, priors={"a": 6, "b": 7}))


def _append(desk: Desk) -> Symbol:
    if not desk.appended:
        desk.session.append(pa.Table.from_pylist(BATCH, SCHEMA))
        desk.appended = True
    return "appended"


def _restart(desk: Desk) -> Symbol:
    """The same ledger is opened anew, with the runs as it has kept them."""
    desk.session = desk.promise.open(desk.table, desk.ledger, desk.source)
    desk.runs = {name: desk.session.resume(run.call) for name, run in desk.runs.items()}
    return "restarted"


# One question of any size each.
SIZED: dict[str, Callable[[Fraction], Move]] = {
    "test": lambda size: _asked(lambda: ThresholdTest(count(), above=MIDDLE, epsilon=size)),
    "release": lambda size: _asked(lambda: Release(count(), epsilon=size)),
    "gauss release": lambda size: _asked(lambda: Release(count(), rho=size / 5)),
    "choose": lambda size: _asked(lambda: Choose(KEYS, epsilon=size)),
    "majority": lambda size: _asked(lambda: Majority("age >= 50", epsilon=size)),
    "between": lambda size: _asked(lambda: Classify(count(), low=MIDDLE - 3, high=MIDDLE + 1, epsilon=size)),
    "decide": lambda size: _asked(lambda: Classify(count(), above=MIDDLE, epsilon=size)),
    "classify": lambda size: _asked(lambda: Classify(KEYS, epsilon=size)),
    "track": lambda size: _asked(lambda: OnChange(count(), step=4, epsilon=size)),
    "compute": lambda size: _asked(lambda: RunAlgorithm(_counting(size), prior=6)),
    "twice": lambda size: _asked(lambda: Boundary(_counting(size), runs=2, publish=True)),
    "quantile": lambda size: _asked(
        lambda: Quantile("age", 0.5, bounds=(0, 100), step=25, max_rows_per_unit=1, epsilon=size)
    ),
    "sparse": lambda size: _of_run("sparse", lambda: SparseVector(above=MIDDLE, hits=1, epsilon=size)),
}
MOVES: dict[str, Move] = {
    **{name: SIZED[name](EACH) for name in SIZED if name not in ("gauss release", "sparse")},
    "small test": SIZED["test"](EACH / 3),
    "large test": SIZED["test"](2 * EACH),
    "far test": _asked(lambda: ThresholdTest(count(), above=MIDDLE + 3, epsilon=EACH)),
    "sharp test": _asked(lambda: ThresholdTest(count(), above=MIDDLE, price="0.1")),
    "gauss release": SIZED["gauss release"](Fraction(1, 2)),
    "release_if": _release_if,
    "revise": _revise,
    "watch": _watch,
    "sparse": SIZED["sparse"](Fraction(1, 2)),
    "gaussian": _of_run(
        "gaussian", lambda: GaussianAboveThreshold(threshold=MIDDLE, threshold_noise=5, low=0, high=20)
    ),
    "individual": _of_run("individual", lambda: IndividualTests(epsilon=EACH, hits=2), above=MIDDLE),
    "race": _race,
    "here": _bit(EACH, here=True),
    "away": _bit(EACH, here=False),
    "append": _append,
    "restart": _restart,
}


def largest(name: str, promise: Promise, table: RowTable, ledger: Callable[[], Ledger]) -> Fraction | None:
    """The largest size of a question that a session of its own answers, by bisection; None where it answers none."""
    sizes = GRID if promise.filter != "exact" else [Fraction(promise.grain) * step for step in range(1, 9)]

    def refused(size: Fraction) -> bool:
        desk = Desk(table, promise, ledger(), moves={name: SIZED[name](size)})
        return desk.do(name).startswith(REFUSALS)

    place = bisect_left(sizes, True, key=refused)
    return sizes[place - 1] if place else None
