"""Sparse vectors on growing tables: opening one, asking it, and how accurate it is."""

import json
from fractions import Fraction
from typing import Any

from chary.accounting.growing_sparse import growing_error_up, published_growing_error
from chary.accounting.sparse_vector import Form
from chary.data.size import public_size
from chary.errors import InvalidParameter, UnknownHeld
from chary.ledger import State
from chary.numbers import Number, exact, plain, positive
from chary.session.door import Door
from chary.session.growing_sparse import AskGrowingSparse, BeginRound, OpenGrowingSparse
from chary.session.growing_sparse_results import GrowingAccuracy, GrowingRound, GrowingTest
from chary.session.growing_sparse_rounds import NoRoundOpen, RoundMoved, RoundState
from chary.session.interaction import Question
from chary.session.spine import ATTEMPTS, Spine


class GrowingSparseVector:
    """Questions about averages over a growing table, in rounds that end with a hit; by `Session.growing_sparse_vector`.

    Guarantee: each round is epsilon-DP for all its answers, however many and however the table grows meanwhile, charged
    when it begins. `call` is the number that opens it again after a restart, in the middle of a round too.
    """

    def __init__(self, spine: Spine, call: int, started: OpenGrowingSparse) -> None:
        """Use `Session.growing_sparse_vector`."""
        self.call = call
        self._spine, self._started = spine, started

    def test(self, query: Question, *, above: Number | None = None, request: str | None = None) -> GrowingTest:
        """Whether the average of the query over all rows is at or above the threshold, up to noise; a yes ends a round.

        Free while a round is open. Otherwise the next round begins at the size of now, and is charged. `above` moves
        the threshold for this question. Errors: `BudgetRefused` when no round is open and no further one fits or may
        begin, `InvalidQuery` for a mean, keys, another grid or a larger sensitivity, `InvalidParameter` for a threshold
        that no average can have (for a count, a share from 0 to 1); a question that cannot be asked begins no round.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return self._tested(query, above, request)
            except RoundMoved:
                continue
        return self._tested(query, above, request)

    def begin(self, *, request: str | None = None) -> GrowingRound:
        """Begin the next round now, and charge it, rather than at its first question.

        Errors: `BudgetRefused` as for `test`, `LedgerBusy` if a round is open.
        """
        begun: GrowingRound = self._spine.perform(BeginRound(self.call, self._started, self._size), request)
        return begun

    @property
    def rounds(self) -> int:
        """How many rounds have begun."""
        return self._now().number

    @property
    def open_round(self) -> GrowingRound | None:
        """The round in which questions are free now; None if the next question begins one."""
        now = self._now()
        return GrowingRound(now.number, now.size, now.epsilon) if now.open else None

    @property
    def next_epsilon(self) -> Fraction:
        """What a round costs that begins at the size of now."""
        return self._started.terms.epsilon_down(self._size)

    @property
    def left(self) -> int | None:
        """How many rounds may still begin, by `rounds=` and by what is left of the budget at the size of now.

        None if neither sets an end.
        """
        most, filter_ = self._started.most, self._spine.filter
        event = self._started.round(self.next_epsilon).event
        ends = [filter_.price(event).hit.copies_in(self._spine.left()), None if most is None else most - self.rounds]
        return min((end for end in ends if end is not None), default=None)

    def accuracy(self, *, tests: int, rounds: int = 1, confidence: Number = "0.95") -> GrowingAccuracy:
        """How far off so many tests from now on may be, per row, in the open round or the next, and those after it.

        Nothing is read but the public size.
        """
        started, now, size = self._started, self._now(), self._size
        begun = now.size if now.open else size
        sensitivity = started.round(now.epsilon if now.open else self.next_epsilon).mechanism.sensitivity
        given: dict[str, Any] = {"size": size, "tests": tests, "number": rounds, "begun": begun}
        error = growing_error_up(started.terms, **given, sensitivity=sensitivity, confidence=confidence)
        published = None
        if started.form == "published":
            single = published_growing_error(started.terms, **given, confidence=confidence)
            published = single * float(started.sensitivity)
        unit = float(Fraction(started.grid))
        return GrowingAccuracy(tests, rounds, size, float(confidence), error * unit, published)

    def _tested(self, query: Question, above: Number | None, request: str | None) -> GrowingTest:
        given: Any = query
        asked = AskGrowingSparse(
            self.call, self._started, given, self._started.above if above is None else above, self._size
        )
        try:
            answer: GrowingTest = self._spine.perform(asked, request)
        except NoRoundOpen:
            asked.prepare(self._spine.rows)
            self.begin()
            answer = self._spine.perform(asked, request)
        return answer

    @property
    def _size(self) -> int:
        return public_size(self._spine.rows)

    def _now(self) -> RoundState:
        return RoundState.load(self._spine.ledger.secret(self.call), self.call)

    def __repr__(self) -> str:
        above, epsilon = (plain(Fraction(number)) for number in (self._started.above, self._started.epsilon))
        return f"GrowingSparseVector(call={self.call}, above={above}, epsilon={epsilon} a round)"


class GrowingSparse(Door):
    """Sparse vectors on growing tables."""

    def growing_sparse_vector(
        self,
        *,
        above: Number | None = None,
        epsilon: Number | None = None,
        values: bool = False,
        rounds: int | None = None,
        exponent: Number = 1,
        form: Form = "tuned",
        sensitivity: Number = 1,
        grid: Number = 1,
        call: int | None = None,
        request: str | None = None,
    ) -> GrowingSparseVector:
        """Test averages over a growing table against a hidden threshold, in rounds of any number of misses and one hit.

        Guarantee: a round is `epsilon (s/n)^(exponent - 1)`-DP, where n is the size now and s that at which it begins;
        that is charged when its first question comes, and every further question until its hit is free, however the
        table grows. Opening is free. `above` is an average over all rows (for a count, a share). `values` publishes a
        noisy average with each hit, for which part of epsilon is kept. `rounds` ends it after so many: 1 is ATG of
        [GROW] Appendix C, or NATG with `values`; left out, it is NSG, to the end of the budget. `exponent` lies between
        1, where all rounds cost the same, and 0, where all have the same noise per row and later ones cost less.
        `sensitivity` is how far one row may move a question, `grid` the questions' common step, both as counts and
        totals have them, before they are divided by the size.

        `call=` goes on with an earlier one instead, also after a restart. Errors: `InvalidQuery` where the number of
        rows is secret (open with `relation="replace"`, `privacy_unit=None`) or there are none, `InvalidParameter`.
        """
        if call is not None:
            given = (above, epsilon, values, rounds, exponent, form, sensitivity, grid, request)
            if given != (None, None, False, None, 1, "tuned", 1, 1, None):
                raise InvalidParameter("give call= alone: an open sparse vector keeps what it was opened with")
            return self._growing_sparse(call)
        if above is None or epsilon is None:
            raise InvalidParameter("open it with both, such as growing_sparse_vector(above='0.2', epsilon='0.1')")
        _check_average(above, sensitivity)
        neighbouring, size = self.spine.rows.neighbouring, public_size(self.spine.rows)
        made = OpenGrowingSparse(neighbouring, above, epsilon, size, exponent, rounds, values, form, sensitivity, grid)
        return self._growing_sparse(self.spine.perform(made, request)[0])

    @property
    def growing_sparse_vectors(self) -> list[GrowingSparseVector]:
        """Every one of the dataset that was opened and not interrupted, oldest first."""
        calls = self.spine.ledger.calls(self.spine.dataset)
        opened = [call for call in calls if call.kind == OpenGrowingSparse.kind and call.state == State.SETTLED]
        return [self._growing_sparse(call.number) for call in opened]

    def _growing_sparse(self, call: int) -> GrowingSparseVector:
        body = self.earlier(call, OpenGrowingSparse.kind, "an opening of a growing sparse vector")
        answer = self.spine.ledger.call(call).answer
        if answer is None:
            raise UnknownHeld(f"call {call} keeps no rounds: it was interrupted; open a new growing sparse vector")
        size = json.loads(answer)["size"]
        return GrowingSparseVector(
            self.spine, call, OpenGrowingSparse.of_body(body, self.spine.rows.neighbouring, size)
        )


def _check_average(above: Number, sensitivity: Number) -> None:
    """Refuse a threshold that no question can have: values of a row, 0 among them, lie within the sensitivity.

    Not in the opening itself: ledgers may hold one that was opened with any threshold, and goes on.
    """
    asked, most = exact(above, "above"), positive(sensitivity, "sensitivity")
    if abs(asked) > most:
        raise InvalidParameter(
            f"above is an average over all rows, which lies within plus and minus the sensitivity, here {plain(most)}; "
            f"for a count it is a share: 0.3 is 30 %; got {plain(asked)}"
        )
