"""A running count told at step after step: opened and charged once, then free."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.accounting import Event
from chary.data import Count, Neighbouring, Query, Reading, Relation, Rows, count
from chary.data.size import has_public_size
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery, LedgerMismatch, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms.binary_tree import BinaryTree
from chary.mechanisms.continual import Continual
from chary.mechanisms.root_factorisation import RootFactorisation
from chary.numbers import positive, whole
from chary.session.interaction import FREE, Interaction, Json, Ran, Touched

METHODS: Final = ("tree", "root")


class NothingNew(InvalidParameter):
    """No rows arrived since the last step."""


class StepsUsed(BudgetRefused):
    """All steps that were paid for are used."""


@dataclass(frozen=True)
class RunningCount:
    """What one step told: a number for each key (one without keys), each with the same `error_bar`.

    `step` counts from 1. `version` is that of the dataset before its rows were read, and `size` the number of rows
    then where that is public, else None: rows that another thread appends meanwhile may be counted already. Counts are
    unbiased: they may be below 0, and below earlier ones. `error_bar` is the half-width of the 95 % interval.
    """

    call: int
    step: int
    version: int
    size: int | None
    keys: tuple[tuple[Any, ...], ...] | None
    values: tuple[int, ...]
    error_bar: float

    @property
    def value(self) -> int:
        """The count of a query without keys; `InvalidParameter` for one with keys, which has `values`."""
        if self.keys is not None:
            raise InvalidParameter("a count by keys has one value for each: use values or as_dict()")
        return self.values[0]

    def as_dict(self) -> dict[tuple[Any, ...], int]:
        """Key to count."""
        return dict(zip(self.keys or ((),), self.values, strict=True))


@dataclass(frozen=True)
class Terms:
    """What is counted, for how many steps, and how; exactly one of `epsilon` and `rho`, for all steps together.

    Errors: `InvalidQuery` where a unit may have rows in several steps, `InvalidParameter` for anything out of range.
    """

    query: Count
    neighbouring: Neighbouring
    steps: int
    method: str
    epsilon: Fraction | None = None
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        if self.neighbouring.unit is not None or self.neighbouring.relation is Relation.BOUNDED_CHANGE:
            raise InvalidQuery(
                "one row must be in one step: open rows that are units, with privacy_unit=None; a unit with rows in "
                "several steps would be paid for in each"
            )
        if self.method not in METHODS:
            raise InvalidParameter('method is "tree" or "root"')
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("give the budget of all steps together as one of epsilon= and rho=")
        for name in {"epsilon": self.epsilon, "rho": self.rho}:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        whole(self.steps, "steps")
        self.mechanism  # noqa: B018 - refuses what cannot be done with exact noise

    @cached_property
    def mechanism(self) -> Continual:
        """The noise of all steps."""
        size = {"steps": self.steps, "keys": len(self.query.keys or ((),)), "l1": self.query.l1(self.neighbouring)}
        if self.rho is not None:
            rule = BinaryTree if self.method == "tree" else RootFactorisation
            return rule.for_rho(self.rho, **size)
        if self.method == "root" or self.epsilon is None:
            raise InvalidParameter('the root has Gaussian noise: give rho=, or epsilon= with method="tree"')
        return BinaryTree.for_epsilon(self.epsilon, **size)

    def body(self) -> Json:
        """In JSON."""
        sizes = {"epsilon": self.epsilon, "rho": self.rho}
        told = {name: str(size) for name, size in sizes.items() if size is not None}
        return {"query": self.query.body(), "steps": self.steps, "method": self.method} | told

    @classmethod
    def of_body(cls, body: Json, query: Count, neighbouring: Neighbouring) -> "Terms":
        """The terms that a body describes, with the query that was brought again."""
        if body["query"] != query.body():
            raise InvalidParameter("this is another query than the continual count was opened with")
        sizes = {name: Fraction(body[name]) for name in ("epsilon", "rho") if name in body}
        return cls(query, neighbouring, body["steps"], body["method"], **sizes)


@dataclass(frozen=True)
class Progress:
    """How far it is, which is public, and the state of the mechanism, which is secret."""

    step: int = 0
    version: int = -1
    size: int | None = None
    state: bytes = field(default=b"", repr=False)

    def dump(self) -> bytes:
        """In bytes, for the ledger's secret table."""
        public = {name: value for name, value in asdict(self).items() if name != "state"}
        return json.dumps(public).encode() + b"\n" + self.state

    @classmethod
    def load(cls, data: bytes) -> "Progress":
        """What `dump` wrote."""
        public, _, state = data.partition(b"\n")
        return cls(**json.loads(public), state=state)


@dataclass(frozen=True)
class OpenContinual(Interaction):
    """Reserve the budget of all steps of a continual count; nothing is read.

    Guarantee: the event of the mechanism for all steps together, charged at once.
    """

    terms: Terms
    kind = "continual_count"

    @property
    def event(self) -> Event:
        return self.terms.mechanism.event()

    def body(self) -> Json:
        return self.terms.body()

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        rows.prepare(self.terms.query)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=Progress(state=self.terms.mechanism.start()).dump())

    def present(self, answer: Json, call: int) -> int:
        return call


@dataclass(frozen=True)
class StepContinual(Interaction):
    """Tell the running count of the rows there are now.

    Guarantee: nothing is charged, it was paid at the opening. Which step this is, and the noise and state up to it,
    are kept beside the opening; the answer and the new state are stored in one transaction, and only if the state is
    still the one this run began with. So no step is told twice, and an outcome that is not stored was seen by nobody.

    `version` is that of the dataset before the rows are read, and `known` how many rows it has where that is public;
    with `only_new` a step at that version is refused.
    """

    opened: int
    terms: Terms
    version: int
    known: int | None
    only_new: bool = False
    kind = "continual_step"

    @property
    def event(self) -> Event:
        return self.terms.mechanism.event()

    def price(self, filter_: Filter) -> Price:
        return FREE

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        progress = progress_of(secret, self.opened)
        if self.only_new and progress.version >= self.version:
            raise NothingNew("no rows arrived since the last step")
        if progress.step >= self.terms.steps:
            raise StepsUsed(
                f"all {self.terms.steps} steps that were paid for are used; open another with "
                "session.continual_count(..., steps=...), which is charged anew"
            )

    def body(self) -> Json:
        return {"continual_count": self.opened}

    def queries(self) -> Sequence[Query]:
        sized = has_public_size(self.terms.neighbouring)
        return [count(), self.terms.query] if sized else [self.terms.query]

    def run(self, touched: Touched) -> Ran:
        before = progress_of(touched.secret, self.opened)
        size = touched.integer() if len(touched.values) > 1 else None
        if size is not None and size < (most := max(before.size or 0, self.known or 0)):
            raise LedgerMismatch(
                f"there were {most} rows before and these are {size}: a stream never shrinks. What another process "
                "appended to rows in its memory is not here: open the dataset with all its rows"
            )
        step, counts = before.step + 1, touched.integers(-1)
        values, state = self.terms.mechanism.tell(step, before.state, counts, touched.source)
        after = Progress(step, max(self.version, before.version), size, state)
        answer = {"step": step, "version": after.version, "size": size, "values": values}
        return Ran(answer, hits=0, tests=0, secrets={self.opened: after.dump()})

    def present(self, answer: Json, call: int) -> RunningCount:
        bar, keys = float(self.terms.mechanism.error_bar(answer["step"])), self.terms.query.keys
        told = (answer["step"], answer["version"], answer["size"])
        return RunningCount(call, *told, keys, tuple(answer["values"]), bar)


def progress_of(secret: bytes | None, opened: int) -> Progress:
    """What is kept beside the opening; `UnknownHeld` where it was interrupted."""
    if secret is None:
        raise UnknownHeld(f"call {opened} keeps no continual count: it was interrupted; open a new one")
    return Progress.load(secret)
