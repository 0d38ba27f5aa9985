"""Sparse vectors on growing tables: opening one, and asking it."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from types import EllipsisType
from typing import Final, cast

from chary.accounting import Event, Pure
from chary.accounting.growing_rounds import GrowingRounds
from chary.accounting.sparse_vector import Form
from chary.calls.call import call
from chary.calls.fields import Exact, Flag, Positive, Probability, Whole
from chary.calls.growing.asked_in_rounds import AskedInRounds
from chary.calls.growing.growing_hits import AskGrowingHit, OpenGrowingHits
from chary.calls.growing.growing_questions import AskGrowingSparse, BeginRound
from chary.calls.growing.growing_states import GrowingRoundsState, GrowingRun, GrowingState
from chary.calls.growing.open_rounds import GrowingRoundState, OneRound
from chary.calls.openings import FreeOpening
from chary.calls.run import Opening, keeps
from chary.calls.thresholds.hit_terms import HitTerms
from chary.calls.thresholds.how_sharply import check_one_way, check_tests, value_part
from chary.calls.thresholds.sharpness import Wanted, priced_by
from chary.core.plan import Interaction, Json, Question, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Neighbouring, Query, Reading, Relation, Rows
from chary.data.queries.bodies import query_of
from chary.data.size import public_size
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.numbers import Number, exact, plain

_TOLD: Final = "hits=20 (so many fit), price=, within= with tests=, or epsilon= for rounds with a hidden threshold"


@call("growing_sparse_vector", subject="growing")
class GrowingSparse(Opening[GrowingRun]):
    """Test averages over a growing table against a hidden threshold, in rounds of any number of misses and one hit.

    Guarantee: with `epsilon`, a round is `epsilon (s/n)^(exponent - 1)`-DP, where n is the size now and s that at which
    it begins; that is charged when its first question comes, and every further question until its hit is free, however
    the table grows. With `hits`, `price` or `within` nothing is hidden and no round is paid beforehand: each question
    is a `SharpTest` (see `Test`), free unless it hits, and what a hit costs at s rows is `(s/n)^(2 exponent - 2)` of
    what it costs now. `within` is an average, and holds for the sizes of now. Opening is free.

    `above` is an average over all rows (for a count, a share). `values` publishes a noisy average with each hit, for
    which part of the price is kept: `value` of that of a sharp test (a quarter). `rounds` ends it after so many hits: 1
    is ATG of [GROW] Appendix C, or NATG with `values`; left out, it is NSG, to the end of the budget. `exponent` lies
    between 1, where all rounds cost the same, and 0, where all have the same noise per row and later ones cost less;
    with `epsilon` up to 4: above 1 later rounds cost more, and have less noise even in counts.
    `sensitivity` is how far one row may move a question, `grid` the questions' common step, both as counts and totals
    have them, before they are divided by the size; sharp tests take any question, and only `within` needs them.

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`, `privacy_unit=None`) or
    there are none, `InvalidParameter` for a threshold that no average can have, `NoPrice` for sharp tests under any but
    the Renyi filter.
    """

    _: KW_ONLY
    above: Exact
    epsilon: Positive | None = None
    values: Flag = False
    rounds: Whole | None = None
    exponent: Exact = 1
    form: Form = "tuned"
    sensitivity: Positive = 1
    grid: Positive = 1
    hits: Whole | None = None
    price: Probability | None = None
    within: Positive | None = None
    tests: Whole | None = None
    sure: Probability | None = None
    value: Probability | None = None

    def __post_init__(self) -> None:
        check_one_way(self, ("epsilon", "hits", "price", "within"), _TOLD)
        check_tests(self)
        if Fraction(self.exponent) > 1 and self.epsilon is None:
            raise InvalidParameter("an exponent above 1, where later hits cost more, is for rounds: give epsilon=")
        if self.value is not None and not self.values:
            raise InvalidParameter("value= is the part of a price for published values: give values=True with it")

    def bind(self, spine: Spine) -> "OpenGrowingSparse | OpenGrowingHits":
        self._check_average()
        neighbouring, size = spine.rows.neighbouring, public_size(spine.rows)
        check_averages(neighbouring, size)
        if self.epsilon is not None:
            return OpenGrowingSparse(self, neighbouring, size)
        filter_ = priced_by(spine.filter, "start it with epsilon=")
        hit = HitTerms.found(self.wanted(size), filter_, Fraction(self.sensitivity), self.value_share)
        return OpenGrowingHits(self, neighbouring, size, hit)

    def wanted(self, size: int) -> Wanted:
        """How sharply, at this size."""
        within = None if self.within is None else Fraction(self.within) * size
        return Wanted.said(self, within=within)

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hit of sharp tests that its value takes."""
        return value_part(self.value) if self.values else Fraction(0)

    def _check_average(self) -> None:
        """Refuse a threshold that no question can have: values of a row, 0 among them, lie within the sensitivity."""
        asked, most = Fraction(self.above), Fraction(self.sensitivity)
        if abs(asked) > most:
            raise InvalidParameter(
                "above is an average over all rows, which lies within plus and minus the sensitivity, here "
                f"{plain(most)}; for a count it is a share: 0.3 is 30 %; got {plain(asked)}"
            )


@dataclass(frozen=True)
class OpenGrowingSparse(FreeOpening[GrowingSparse]):
    """The terms of all rounds, where `epsilon` is that of a round that begins at `size`, the size of the opening.

    Nothing is read but the public size, and nothing is charged. Ledgers may hold one with any threshold, and it goes
    on.
    """

    size: int = field(compare=False)

    def __post_init__(self) -> None:
        self.round(Fraction(self.terms.epsilon))  # refuses noise out of range

    @cached_property
    def terms(self) -> GrowingRounds:
        """What rounds cost, by the size at which they begin."""
        asked = self.call
        return GrowingRounds(self.size, asked.epsilon or 0, asked.exponent, asked.values, asked.form)

    def round(self, epsilon: Fraction) -> OneRound:
        """The sparse vector that a round of this epsilon is; the threshold comes with each question."""
        asked = self.call
        sizes = (asked.sensitivity, asked.grid)
        return OneRound(self.neighbouring, 0, 1, epsilon, 0, asked.form, False, asked.values, *sizes)

    @cached_property
    def event(self) -> Event:
        return Pure(self.terms.epsilon)

    def begin(self, opened: int, size: int) -> BeginRound:
        """The next round, at this size."""
        return BeginRound(opened, self, size)

    def asked(self, opened: int, query: Query, above: Fraction, size: int) -> AskGrowingSparse:
        """A question at this size."""
        return AskGrowingSparse(opened, self, query, above, size)

    def state(self, spine: Spine, opened: int) -> GrowingState:
        """What is public of it now."""
        return GrowingRoundsState(spine, opened, self)

    def body(self) -> Json:
        told = super().body()
        return {"epsilon_per_round": told.pop("epsilon"), "rounds": self.call.rounds} | told

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({"size": self.size}, hits=0, tests=0, secret=GrowingRoundState().dump())


def check_averages(neighbouring: Neighbouring, size: int) -> None:
    """Refuse a dataset without a public number of rows, and one without rows."""
    if neighbouring.relation is not Relation.REPLACE or neighbouring.unit is not None:
        raise InvalidQuery('averages are over rows of a table: open with privacy_unit=None, relation="replace"')
    if size < 1:
        raise InvalidQuery("an average over rows needs rows: append some first")


@keeps
class KeptGrowing(AskedInRounds):
    """`run.ask(query)`: is its average over all rows at or above the threshold, up to noise? A yes ends a round.

    Sharp tests are free but for a yes. Otherwise, free while a round is open; if none is, the next one begins at the
    size of now, and is charged; `run.ask()` without a query begins it now. `above` moves the threshold for
    this question. Errors: `BudgetRefused` when no round is open and no further one fits or may begin, `InvalidQuery`
    for beginning one while another is open, a mean, keys, and in a round another grid or a larger
    sensitivity, `InvalidParameter` for a threshold that no average can have (for a count, a share from 0 to 1) and for
    a round of sharp tests; a question that cannot be asked begins no round.
    """

    kind = GrowingSparse.kind
    names = "growing_sparse_vector"

    @cached_property
    def started(self) -> OpenGrowingSparse | OpenGrowingHits:
        """The opening."""
        answer = self.spine.ledger.call(self.number).answer
        if answer is None:
            told = "it was interrupted; open a new growing sparse vector"
            raise UnknownHeld(f"call {self.number} keeps no rounds: {told}")
        given = {name: value for name, value in self.terms.items() if name != "epsilon_per_round"}
        opening, told = GrowingSparse(epsilon=self.terms.get("epsilon_per_round"), **given), json.loads(answer)
        neighbouring, size = self.spine.rows.neighbouring, told["size"]
        if opening.epsilon is not None:
            return OpenGrowingSparse(opening, neighbouring, size)
        filter_ = priced_by(self.spine.filter, "start another one with epsilon=")
        hit = HitTerms(filter_, Fraction(told["price"]), opening.value_share, opening.wanted(size).chance)
        return OpenGrowingHits(opening, neighbouring, size, hit)

    def opened(self) -> GrowingRun:
        return GrowingRun(self)

    @property
    def state(self) -> GrowingState:
        return self.started.state(self.spine, self.number)

    def question(
        self, query: Question | EllipsisType = ..., *, above: Number | None = None
    ) -> "AskGrowingSparse | BeginRound | AskGrowingHit":
        size, started = public_size(self.spine.rows), self.started
        if query is ...:
            if above is not None:
                raise InvalidParameter("above moves the threshold of a question: ask(query, above=...)")
            return started.begin(self.number, size)
        return self._at(size, cast("Query", query), above)

    def _at(self, size: int, query: Query, above: Number | None) -> "AskGrowingSparse | AskGrowingHit":
        """A question at this size."""
        bar = exact(self.started.call.above if above is None else above, "above")
        return self.started.asked(self.number, query, bar, size)

    def recorded(self, body: Json) -> Interaction:
        """What was answered tells the size at which it was: a question needs no rows to be told again."""
        size = self.started.size
        if "query" not in body:
            return self.started.begin(self.number, size)
        return self._at(size, cast("Query", query_of(body["query"])), body["above"])
