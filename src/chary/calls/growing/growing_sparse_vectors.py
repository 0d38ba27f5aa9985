"""Sparse vectors on growing tables: opening one, and asking it."""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from types import EllipsisType
from typing import Any, cast

from chary.accounting import Event, Pure
from chary.accounting.growing.growing_rounds import GrowingRounds
from chary.accounting.sparse.noise_split import Form
from chary.answer import Answer
from chary.calls.call import call
from chary.calls.fields import Exact, Flag, Positive, Whole
from chary.calls.growing.growing_questions import AskGrowingSparse, BeginRound
from chary.calls.growing.growing_states import GrowingRun, GrowingState
from chary.calls.growing.open_rounds import GrowingRoundState, NoRoundOpen, OneRound, RoundMoved
from chary.calls.openings import FreeOpening
from chary.calls.run import Kept, Opening, keeps
from chary.data import Query, Reading, Relation, Rows
from chary.data.size import public_size
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.numbers import Number, exact, plain
from chary.spine.interaction import Json, Question, Ran, Touched
from chary.spine.spine import ATTEMPTS, Spine


@call("growing_sparse_vector", subject="growing")
class GrowingSparse(Opening[GrowingRun]):
    """Test averages over a growing table against a hidden threshold, in rounds of any number of misses and one hit.

    Guarantee: a round is `epsilon (s/n)^(exponent - 1)`-DP, where n is the size now and s that at which it begins;
    that is charged when its first question comes, and every further question until its hit is free, however the
    table grows. Opening is free. `above` is an average over all rows (for a count, a share). `values` publishes a
    noisy average with each hit, for which part of epsilon is kept. `rounds` ends it after so many: 1 is ATG of
    [GROW] Appendix C, or NATG with `values`; left out, it is NSG, to the end of the budget. `exponent` lies between
    1, where all rounds cost the same, and 0, where all have the same noise per row and later ones cost less.
    `sensitivity` is how far one row may move a question, `grid` the questions' common step, both as counts and
    totals have them, before they are divided by the size.

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`, `privacy_unit=None`) or
    there are none, `InvalidParameter` for a threshold that no average can have.
    """

    _: KW_ONLY
    above: Exact
    epsilon: Positive
    values: Flag = False
    rounds: Whole | None = None
    exponent: Exact = 1
    form: Form = "tuned"
    sensitivity: Positive = 1
    grid: Positive = 1

    def bind(self, spine: Spine) -> "OpenGrowingSparse":
        self._check_average()
        return OpenGrowingSparse(self, spine.rows.neighbouring, public_size(spine.rows))

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
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery('averages are over rows of a table: open with privacy_unit=None, relation="replace"')
        if self.size < 1:
            raise InvalidQuery("an average over rows needs rows: append some first")
        self.round(Fraction(self.terms.epsilon))

    @cached_property
    def terms(self) -> GrowingRounds:
        """What rounds cost, by the size at which they begin."""
        asked = self.call
        return GrowingRounds(self.size, asked.epsilon, asked.exponent, asked.values, asked.form)

    def round(self, epsilon: Fraction) -> OneRound:
        """The sparse vector that a round of this epsilon is; the threshold comes with each question."""
        asked = self.call
        sizes = (asked.sensitivity, asked.grid)
        return OneRound(self.neighbouring, 0, 1, epsilon, 0, asked.form, False, asked.values, *sizes)

    @cached_property
    def event(self) -> Event:
        return Pure(self.terms.epsilon)

    def body(self) -> Json:
        told = super().body()
        return {"epsilon_per_round": told.pop("epsilon"), "rounds": self.call.rounds} | told

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({"size": self.size}, hits=0, tests=0, secret=GrowingRoundState().dump())


@keeps
class KeptGrowing(Kept[Any, GrowingState]):
    """`run.ask(query)`: is its average over all rows at or above the threshold, up to noise? A yes ends a round.

    Free while a round is open. Otherwise the next round begins at the size of now, and is charged; `run.ask()`
    without a query begins it now. `above` moves the threshold for this question. Errors: `BudgetRefused` when no
    round is open and no further one fits or may begin, `LedgerBusy` for beginning one while another is open,
    `InvalidQuery` for a mean, keys, another grid or a larger sensitivity, `InvalidParameter` for a threshold that no
    average can have (for a count, a share from 0 to 1); a question that cannot be asked begins no round.
    """

    kind = GrowingSparse.kind
    names = "growing_sparse_vector"

    @cached_property
    def started(self) -> OpenGrowingSparse:
        """The opening."""
        answer = self.spine.ledger.call(self.number).answer
        if answer is None:
            told = "it was interrupted; open a new growing sparse vector"
            raise UnknownHeld(f"call {self.number} keeps no rounds: {told}")
        given = {name: value for name, value in self.terms.items() if name != "epsilon_per_round"}
        opening = GrowingSparse(epsilon=self.terms["epsilon_per_round"], **given)
        return OpenGrowingSparse(opening, self.spine.rows.neighbouring, json.loads(answer)["size"])

    def opened(self) -> GrowingRun:
        return GrowingRun(self)

    @property
    def state(self) -> GrowingState:
        return GrowingState(self.spine, self.number, self.started)

    def question(
        self, query: Question | EllipsisType = ..., *, above: Number | None = None
    ) -> AskGrowingSparse | BeginRound:
        size = public_size(self.spine.rows)
        if query is ...:
            if above is not None:
                raise InvalidParameter("above moves the threshold of a question: ask(query, above=...)")
            return BeginRound(self.number, self.started, size)
        bar = exact(self.started.call.above if above is None else above, "above")
        return AskGrowingSparse(self.number, self.started, cast("Query", query), bar, size)

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._asked(self.question(*asked, **options), request)
            except RoundMoved:
                if not (asked or options):
                    raise
        return self._asked(self.question(*asked, **options), request)

    def _asked(self, question: AskGrowingSparse | BeginRound, request: str | None) -> Answer:
        try:
            answer: Answer = self.spine.perform(question, request)
        except NoRoundOpen:
            question.prepare(self.spine.rows)
            self.spine.perform(self.question())
            answer = self.spine.perform(question, request)
        return answer
