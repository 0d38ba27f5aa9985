"""Sparse vector in a session: an opening that is charged once, whole, and questions that are free afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chary.accounting import Approximate, Event, Pure, sparse_noise
from chary.accounting.events import failing
from chary.accounting.sparse_vector import Form
from chary.data import Neighbouring, Query, Relation
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import HiddenThreshold, SparseVector
from chary.numbers import Number, exact, plain, positive, whole
from chary.session.interaction import FREE, Interaction, Json, Ran, Touched, error_bar, natural, steps_at_least
from chary.session.results import Value
from chary.session.sparse_results import SparseTest, SparseWatch
from chary.session.testing import keyed


@dataclass(frozen=True)
class OpenSparse(Interaction):
    """Draw a hidden threshold against which questions are tested until `hits` of them were above.

    Guarantee: epsilon-DP, or (epsilon, delta)-DP in the published form with a delta, for everything that is answered,
    charged at once. `monotone=None` becomes True where the tuned form asks neighbours that add or remove a unit.
    Nothing is read. `sensitivity` is in the units of the questions, a whole number of steps of `grid`.
    """

    neighbouring: Neighbouring
    above: Number
    hits: int
    epsilon: Number
    delta: Number = 0
    form: Form = "tuned"
    monotone: bool | None = None
    values: bool = False
    sensitivity: Number = 1
    grid: Number = 1
    kind = "sparse_vector"

    def __post_init__(self) -> None:
        for name, check in (("above", exact), ("epsilon", positive), ("delta", exact), ("sensitivity", positive)):
            object.__setattr__(self, name, check(getattr(self, name), name))
        object.__setattr__(self, "grid", positive(self.grid, "grid"))
        whole(self.hits, "hits")
        failing(self.delta)
        if type(self.values) is not bool or type(self.monotone) not in (bool, type(None)):
            raise InvalidParameter("values is True or False, and so is monotone where it is given")
        adds = self.neighbouring.relation is Relation.ADD_REMOVE
        if self.monotone is None:
            object.__setattr__(self, "monotone", adds and self.form == "tuned")
        if self.monotone and not adds:
            raise InvalidParameter("questions are monotone under add/remove only: leave monotone= out")
        self.mechanism  # noqa: B018 - refuses a form without a proof and noise out of range

    @cached_property
    def mechanism(self) -> SparseVector:
        """The state machine, in steps of the grid."""
        steps = Fraction(self.sensitivity) / Fraction(self.grid)
        if steps.denominator != 1:
            raise InvalidParameter("sensitivity must be a whole number of steps of the grid")
        noise = sparse_noise(
            epsilon=self.epsilon,
            hits=self.hits,
            delta=self.delta,
            form=self.form,
            monotone=bool(self.monotone),
            values=self.values,
        )
        return SparseVector(noise, int(steps))

    @cached_property
    def event(self) -> Event:
        return Approximate(self.epsilon, self.delta) if self.delta else Pure(self.epsilon)

    @property
    def error_bar(self) -> float | None:
        """The half-width of the 95 % interval of a published value."""
        answers = self.mechanism.answers
        return None if answers is None else error_bar((answers, Fraction(self.grid)))

    def body(self) -> Json:
        sizes = {name: str(getattr(self, name)) for name in ("above", "epsilon", "delta", "sensitivity", "grid")}
        return sizes | {"hits": self.hits, "form": self.form, "monotone": self.monotone, "values": self.values}

    @classmethod
    def of_body(cls, body: Json, neighbouring: Neighbouring) -> "OpenSparse":
        """The opening that a body describes."""
        return cls(neighbouring, **body)

    def queries(self) -> Sequence[Query]:
        return ()

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=self.mechanism.start(touched.source).dump())

    def present(self, answer: Json, call: int) -> int:
        return call


@dataclass(frozen=True)
class AskSparse(Interaction):
    """One question, or one for each key in order, against the hidden threshold of an open sparse vector.

    Guarantee: nothing is charged, it was paid when the sparse vector was opened. A unit may count in every key: only
    how far it can move each single one matters. The run hands back the state it was based on, hit or miss, so an
    outcome against a threshold that moved meanwhile is never published.
    """

    opened: int
    started: OpenSparse
    query: Query
    above: Number
    kind = "sparse_ask"

    def __post_init__(self) -> None:
        object.__setattr__(self, "above", exact(self.above, "above"))
        if not isinstance(self.query, Query):
            raise InvalidQuery("a sparse vector tests counts, totals and series, such as count('age >= 65')")
        self._check_grid()
        self._check_sensitivity()
        if self.started.monotone and self.query.contribution(self.started.neighbouring).low < 0:
            raise InvalidQuery(
                "this total may move down when a unit is added, so it is not monotone: give it bounds from 0 on, or "
                "open the sparse vector with monotone=False"
            )

    def _check_grid(self) -> None:
        if self._multiple.denominator != 1:
            raise InvalidQuery(
                f"the question has steps of {plain(self.query.grid)}: open the sparse vector with "
                f"grid={plain(self.query.grid)}"
            )

    def _check_sensitivity(self) -> None:
        most = self.query.sensitivity(self.started.neighbouring) * self.query.grid
        if most > Fraction(self.started.sensitivity):
            raise InvalidQuery(
                f"one unit can move this question by {plain(most)}: open the sparse vector with "
                f"sensitivity={plain(most)}, which scales the noise of all its tests"
            )

    @property
    def _multiple(self) -> Fraction:
        return self.query.grid / Fraction(self.started.grid)

    @property
    def event(self) -> Event:
        return self.started.event

    def price(self, filter_: Filter) -> Price:
        return FREE

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.opened} keeps no threshold: it was interrupted; open a new sparse vector")
        hits = self.started.hits
        if HiddenThreshold.load(secret).used >= hits:
            raise BudgetRefused(
                f"all {hits} hits of the sparse vector of call {self.opened} are used up; another is opened, and "
                f"charged, by session.sparse_vector(above=..., hits={hits}, epsilon=...)"
            )

    def body(self) -> Json:
        return {"sparse_vector": self.opened, "query": self.query.body(), "above": str(self.above)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        machine, state = self.started.mechanism, HiddenThreshold.load(touched.secret or b"")
        values, multiple = touched.integers(), int(self._multiple)
        if multiple != 1:
            values = values.astype(object) * multiple
        bar = steps_at_least(self.above, Fraction(self.started.grid))
        after, crossed = machine.step(state, values, bar, touched.source)
        left = self.started.hits - after.used
        answer = {"tested": crossed.tested, "positions": crossed.positions, "values": crossed.values, "left": left}
        return Ran(answer, len(crossed.positions), crossed.tested, secrets={self.opened: after.dump()})

    def _values(self, answer: Json) -> list[Value | None]:
        noisy = answer["values"]
        if noisy is None:
            return [None] * len(answer["positions"])
        return [natural(steps, Fraction(self.started.grid)) for steps in noisy]


class AskSparseOnce(AskSparse):
    """A question with a single answer."""

    kind = "sparse_test"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is tested by watch(query), key after key")

    def present(self, answer: Json, call: int) -> SparseTest:
        values = self._values(answer)
        return SparseTest(call, bool(values), values[0] if values else None, answer["left"], self.started.error_bar)


class AskSparseKeys(AskSparse):
    """A keyed question, in one scan."""

    kind = "sparse_watch"

    def __post_init__(self) -> None:
        keyed(self.query)
        super().__post_init__()

    def present(self, answer: Json, call: int) -> SparseWatch:
        keys = tuple(self.query.keys or ())
        found = [keys[position] for position in answer["positions"]]
        above = dict(zip(found, self._values(answer), strict=True))
        return SparseWatch(call, keys, above, answer["tested"], answer["left"], self.started.error_bar)
