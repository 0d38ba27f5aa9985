"""Sparse vectors over growing data: rounds, questions, results and state."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

from chary.accounting import Event, Publication, Pure
from chary.accounting.sparse_vector import Form, GrowingRounds, growing_error_up, published_growing_error, round_noise
from chary.answers import Answer
from chary.calls import answers, fields, prepaid_tests
from chary.calls import sharpness as sharp
from chary.calls.call import call
from chary.calls.run import AskedKind, Opening, RunKind, opening
from chary.core.forecast import Forecast, error_bar
from chary.core.plan import PREPAID, Data, Json, PerHit, Plan, Question, Result, check_question, reading, steps_at_least
from chary.core.quote import Quote
from chary.core.transaction import ATTEMPTS, Spine
from chary.data import Count, Mean, NeighborRelation, Query, Reading, Rows, Statistic
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current
from chary.data.series import public_size
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, LedgerLocked
from chary.mechanisms import HiddenThreshold, SparseVectorMachine
from chary.mechanisms.additive import SecretState
from chary.mechanisms.threshold_tests import SharpTests
from chary.numbers import Number, exact, plain, whole

# The answers of sparse vectors on growing tables.


@dataclass(frozen=True)
class GrowingTest(answers.AboveOrNot):
    """Whether one average over rows was above the threshold; its value where values are published, else None.

    `size` is the number of rows at which it was asked, `round` the number of the round, which a yes ends. Nothing is
    charged, it was paid when the round began.
    """

    size: int
    round: int


class OpenRound(NamedTuple):
    """A round that is open: its number, counted from 1, the public size at which it began, and its epsilon."""

    number: int
    size: int
    epsilon: Fraction


@dataclass(frozen=True)
class GrowingRound(Answer):
    """A round that began: its number, counted from 1, the public size at that time, and the epsilon that is charged."""

    number: int
    size: int
    epsilon: Fraction

    @property
    def value(self) -> OpenRound:
        """The round as in `state.open_round`."""
        return OpenRound(self.number, self.size, self.epsilon)


@dataclass(frozen=True)
class GrowingAccuracy:
    """The accuracy of `tests` tests, in `rounds` rounds, from `size` rows on.

    With probability `confidence` all tests are right for averages that are more than `error` away from the threshold,
    and all published values are within `error`. `published` is the bound of [GROW] Theorems 26, 28 and 31, None for
    the tuned form.
    """

    tests: int
    rounds: int
    size: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


# The rounds of a sparse vector on a growing table: their state, and the sparse vector that each of them is.


class RoundMoved(LedgerLocked):
    """Another process began a round, or ended one by a hit, since the state was looked at."""


class NoRoundOpen(RoundMoved):
    """A question needs a round, and none is open."""


@dataclass(frozen=True, repr=False)
class GrowingRoundState(SecretState):
    """The latest round: its number (0 before the first), the size at which it began, its epsilon; all are public.

    `shift` is the noise of its threshold, which is secret; None where no round is open.
    """

    number: int = 0
    size: int = 0
    epsilon: Fraction = Fraction(0)
    shift: int | None = None
    secret = ("shift",)

    @property
    def open(self) -> bool:
        """Whether questions are free, which is public."""
        return self.shift is not None

    def ended(self) -> "GrowingRoundState":
        """After a hit: the noise is forgotten."""
        return replace(self, shift=None)


# The terms of rounds and of optimal threshold tests, by the public size at which they are asked.


@dataclass(frozen=True)
class RoundsLaw:
    """The terms of all rounds with a hidden threshold; `size` is that of the opening."""

    call: "GrowingTests"
    neighbor_relation: NeighborRelation
    size: int

    @cached_property
    def terms(self) -> GrowingRounds:
        """The epsilons of rounds, by the size at which they begin."""
        asked = self.call
        return GrowingRounds(self.size, asked.epsilon or 0, asked.exponent, asked.values, asked.mechanism)

    def round(self, epsilon: Fraction) -> prepaid_tests.SparseLaw:
        """A round of this epsilon as a sparse vector with one hit. Each question brings its own threshold.

        The published form has the noise of [GROW] where values are published.
        """
        asked = self.call
        said: Json = {"mechanism": asked.mechanism, "monotone": False, "values": asked.values}
        said |= {"sensitivity": asked.sensitivity, "grid": asked.grid}
        law = prepaid_tests.SparseVector(above=0, hits=1, epsilon=epsilon, **said).law(self.neighbor_relation)
        noise = round_noise(epsilon, values=asked.values, form=asked.mechanism)
        return replace(law, machine=SparseVectorMachine(noise, law.machine.sensitivity))

    @property
    def event(self) -> Event:
        """The event of a round that begins at the size of the opening."""
        return Pure(self.terms.epsilon)

    def next_epsilon(self, size: int) -> Fraction:
        """The epsilon of a round that begins at this size."""
        return self.terms.epsilon_down(size)

    def next_event(self, size: int) -> Event:
        """The event of a round that begins at this size."""
        return self.round(self.next_epsilon(size)).event

    def accuracy(
        self, now: GrowingRoundState, size: int, tests: int, rounds: int, confidence: Number
    ) -> GrowingAccuracy:
        """How far off this many tests may be, in the open round or the next one, and in those after it."""
        begun, epsilon = (now.size, now.epsilon) if now.open else (size, self.next_epsilon(size))
        given: dict[str, Any] = {"size": size, "tests": tests, "number": rounds, "begun": begun}
        sensitivity, published = self.round(epsilon).machine.sensitivity, None
        error = growing_error_up(self.terms, **given, sensitivity=sensitivity, confidence=confidence)
        if self.call.mechanism == "published":
            single = published_growing_error(self.terms, **given, confidence=confidence)
            published = single * float(self.call.sensitivity)
        unit = float(Fraction(self.call.grid))
        return GrowingAccuracy(tests, rounds, size, float(confidence), error * unit, published)


@dataclass(frozen=True)
class HitsLaw:
    """The terms of all optimal tests; `hit` are those at `size`, the size of the opening."""

    call: "GrowingTests"
    neighbor_relation: NeighborRelation
    size: int
    hit: sharp.HitTerms

    def at(self, size: int) -> sharp.HitTerms:
        """The terms of a test at this size."""
        speeds = GrowingRounds(self.size, 1, self.call.exponent)
        return self.hit.slower(speeds.epsilon_down(max(self.size, sharp.coarse_down(size))))

    @property
    def event(self) -> Event:
        """The event of a hit at the size of the opening."""
        return self.hit.event

    def next_epsilon(self, size: int) -> None:
        """Optimal tests have none."""

    def next_event(self, size: int) -> Event:
        """The event of a hit at this size."""
        return self.at(size).event

    def accuracy(
        self, now: GrowingRoundState, size: int, tests: int, rounds: int, confidence: Number
    ) -> GrowingAccuracy:
        """How far off this many tests at this size may be, and the values of `rounds` hits, for questions of the
        sensitivity that was given."""
        grid = Fraction(self.call.grid)
        steps = math.ceil(Fraction(self.call.sensitivity) / grid)
        terms, wrong = self.at(size), 1 - exact(confidence, "confidence")
        error = terms.sharpness(steps, grid).within(tests, 1 - wrong / 2 if terms.share else confidence).error
        if terms.share:
            bar = terms.noise(steps).error_bar(float(1 - wrong / 2 / whole(rounds, "rounds")))
            error = max(error, float(bar * grid))
        return GrowingAccuracy(tests, rounds, size, float(confidence), error / size, None)


def check_average(query: Query, neighbor_relation: NeighborRelation, above: Fraction) -> None:
    """Refuse a threshold outside the range of the average: the answer would be known, and yet charged."""
    if isinstance(query, Statistic):
        raise InvalidQuery("averages over all rows are of counts and sums: a statistic has no part of each row")
    row = query.contribution(neighbor_relation)
    low, high = row.low * query.grid, row.high * query.grid
    if not low <= above <= high:
        told = f"above is an average over all rows, from {plain(low)} to {plain(high)} here"
        if isinstance(query, Count):
            told = "above is a proportion of the rows, from 0 to 1: 0.3 is 30 %"
        raise InvalidParameter(f"{told}; got {plain(above)}")


# What is public of a sparse vector on a growing table, how accurate it is, and what it is asked.


class GrowingState:
    """What is public of a sparse vector on a growing table: its rounds, and how accurate it is."""

    def __init__(self, spine: Spine, now: Callable[[], GrowingRoundState], law: RoundsLaw | HitsLaw) -> None:
        self._spine, self._now, self._law = spine, now, law

    @property
    def rounds(self) -> int:
        """The number of rounds that have begun; of optimal tests, the number of hits so far."""
        return self._now().number

    @property
    def open_round(self) -> OpenRound | None:
        """The round in which questions are free now; None if the next question begins one, and for optimal tests."""
        now = self._now()
        return OpenRound(now.number, now.size, now.epsilon) if now.open else None

    @property
    def next_epsilon(self) -> Fraction | None:
        """The epsilon of a round that begins at the present size; None for optimal tests."""
        return self._law.next_epsilon(self._size)

    @property
    def left(self) -> int | None:
        """How many rounds (of optimal tests: hits) may still come, by `rounds=` and by what is left of the budget.

        Costs are those at the present size. None if neither sets an end.
        """
        price, most = self._spine.filter.price(self._law.next_event(self._size)), self._law.call.rounds
        ends = [price.hit.copies_in(self._spine.left()), None if most is None else most - self.rounds]
        return min((end for end in ends if end is not None), default=None)

    def accuracy(self, *, tests: int, rounds: int = 1, confidence: Number = "0.95") -> GrowingAccuracy:
        """The error per row of this many tests from now on, in the open round or the next one, and in those after it.

        Of optimal tests it is that of tests at the present size, and of the values of `rounds` hits. Nothing is read
        but the public size.
        """
        return self._law.accuracy(self._now(), self._size, tests, rounds, confidence)

    @property
    def _size(self) -> int:
        return public_size(self._spine.rows)


# Sparse vectors on growing tables: asking one, and opening it.


class GrowingRun(RunKind[GrowingTest, GrowingState]):
    """`run.ask(query)`: is its average over all rows at or above the threshold, up to noise? A yes ends a round.

    Optimal threshold tests are free except for a yes. Otherwise questions are free while a round is open. If none is,
    the next one begins at the current size, and is charged; `run.ask()` without a query begins it now. `above` moves
    the threshold for this question. Errors: `BudgetExceeded` when no round is open and no further one fits or may
    begin. `InvalidQuery` for beginning one while another is open, for a mean or groups, and in a round for another grid
    or a larger sensitivity. `InvalidParameter` for a threshold that no average can have (for a count, a proportion from
    0 to 1) and for a round of optimal threshold tests. A question that cannot be asked begins no round.
    """

    kind = "growing_sparse_vector"
    names = "growing_sparse_vector"
    keeps = "rounds"
    questions = (AskedKind("growing_sparse_round"), AskedKind("growing_sparse_test", publishes=True))

    @cached_property
    def law(self) -> RoundsLaw | HitsLaw:
        """The terms with which it was opened; the threshold is not validated again."""
        told, terms = self._opening(), current(self._terms, self.kind)
        given = {name: value for name, value in terms.items() if name != "epsilon_per_round"}
        opening = GrowingTests(epsilon=terms.get("epsilon_per_round"), **given)
        neighbor_relation, size = self._spine.rows.neighbor_relation, told["size"]
        if opening.epsilon is not None:
            return RoundsLaw(opening, neighbor_relation, size)
        filter_ = self._spine.filter.for_sharp_tests("start another one with epsilon=")
        hit = sharp.HitTerms(filter_, Fraction(told["price"]), opening.value_share, opening.wanted(size).chance)
        return HitsLaw(opening, neighbor_relation, size, hit)

    @property
    def state(self) -> GrowingState:
        return GrowingState(self._spine, self._round, self.law)

    def _round(self) -> GrowingRoundState:
        return GrowingRoundState.load(self._secret())

    def plan(self, query: Question | EllipsisType = ..., *, above: Number | None = None) -> Plan[Any]:
        size = public_size(self._spine.rows)
        if query is not ...:
            return self._at(size, query, above)
        if above is not None:
            raise InvalidParameter("above moves the threshold of a question: ask(query, above=...)")
        return self._begin(size)

    def recorded(self, body: Json) -> Plan[Any]:
        """The stored answer contains the size, so a repeated question needs no rows."""
        if "query" not in body:
            return self._begin(self.law.size)
        return self._at(self.law.size, query_of(current(body["query"])), body["above"])

    def _at(self, size: int, query: Question, above: Number | None) -> Plan[Any]:
        """The plan of a question at this size."""
        law, bar = self.law, exact(self.law.call.above if above is None else above, "above")
        if isinstance(law, RoundsLaw):
            return self._in_round(law, size, query, bar)
        return self._sharply(law, size, query, bar)

    def _begin(self, size: int) -> Plan[GrowingRound]:
        """Draw the hidden threshold of the next round, at this size; nothing is read.

        Where another process began it meanwhile, that is noticed before anything is stored, and the reservation given
        back.
        """
        law = self.law
        if isinstance(law, HitsLaw):
            raise InvalidParameter("optimal tests have no round to begin: ask(query), and a yes is charged")
        # Refuses a table that shrank and noise out of range.
        begun = law.round(law.terms.epsilon_down(size))
        epsilon = Fraction(begun.call.epsilon)

        def check(held: bytes) -> None:
            now = GrowingRoundState.load(held)
            if now.open:
                raise RoundMoved(f"round {now.number} of call {self.call} is open, and goes on to its first hit")
            self._refuse_ended(now, "epsilon")

        def run(data: Data) -> Result:
            number = GrowingRoundState.load(data.secret or b"").number + 1
            hidden = begun.machine.start(data.source)
            answer = {"round": number, "size": size, "epsilon": str(epsilon)}
            after = GrowingRoundState(number, size, epsilon, hidden.shift)
            return Result(answer, hits=0, tests=0, secrets={self.call: after.dump()})

        def present(answer: Json, number: int) -> GrowingRound:
            return GrowingRound(number, answer["round"], answer["size"], Fraction(answer["epsilon"]))

        return self._plan(
            "growing_sparse_round", {}, begun.event, run, present, cost=PerHit(adds_up=False), check=check
        )

    def _refuse_ended(self, now: GrowingRoundState, way: str) -> None:
        most = self.law.call.rounds
        if most is not None and now.number >= most:
            raise BudgetExceeded(
                f"all {most} rounds of the growing sparse vector of call {self.call} have ended; another is opened "
                f"by session.start(GrowingTests(above=..., {way}=..., rounds=...))"
            )

    def _in_round(self, law: RoundsLaw, size: int, query: Question, above: Fraction) -> Plan[GrowingTest]:
        """One question against the hidden threshold of the open round, as an average over the rows there are.

        Nothing is charged, it was paid when the round began. An outcome against a round that moved meanwhile is thrown
        away by the transaction, unseen. Rows that another thread appends after `size` was read may be counted already:
        that costs accuracy, in proportion to their number, and nothing else.
        """
        if isinstance(query, Query) and query.keys is not None:
            raise InvalidQuery("ask one group at a time, as a condition of its own: ask(count(\"ward = 'a'\"))")
        law.round(Fraction(law.terms.epsilon)).check(query)
        asked = cast("Query", query)
        check_average(asked, law.neighbor_relation, above)

        def check(held: bytes) -> None:
            if not GrowingRoundState.load(held).open:
                raise NoRoundOpen(f"no round of call {self.call} is open: ask again")

        def run(data: Data) -> Result:
            state = GrowingRoundState.load(data.secret or b"")
            now = law.round(state.epsilon)
            _, found = now.step(HiddenThreshold(state.shift or 0), asked, above * size, data)
            hit, values, bar = bool(found.positions), found.values, now.error_bar
            answer: Json = {"above": hit, "value": values[0] if values else None, "size": size}
            answer |= {"round": state.number, "error_bar": None if bar is None else bar / size}
            after = state.ended() if hit else state
            return Result(answer, int(hit), found.tested, secrets={self.call: after.dump()})

        def present(answer: Json, number: int) -> GrowingTest:
            rows, steps = answer["size"], answer["value"]
            value = None if steps is None else float(steps * Fraction(law.call.grid) / rows)
            return GrowingTest(number, answer["above"], value, answer["error_bar"], rows, answer["round"])

        return self._test(asked, above, law.event, run, present, check=check)

    def _sharply(self, law: HitsLaw, size: int, query: Question, above: Fraction) -> Plan[GrowingTest]:
        """One question as an average over the rows there are, charged if it is above its threshold.

        Guarantee: `SharpTest` of the count or sum against the threshold times the public size. How many yeses there
        were is kept next to the opening, and changes in the transaction that stores one.
        """
        check_question(query)
        if isinstance(query, Mean) or query.keys is not None:
            raise InvalidQuery(
                "averages are of a count or a sum, one group at a time, as a condition of its own: "
                "ask(count(\"ward = 'a'\"))"
            )
        asked, neighbor_relation = query, law.neighbor_relation
        check_average(asked, neighbor_relation, above)
        change, own = asked.sensitivity(neighbor_relation), law.at(size)
        # Refuses what has no table.
        test, noise = own.sharpness(change, asked.grid), own.noise(change) if own.share else None
        bar = None if noise is None else error_bar((noise, asked.grid))

        def run(data: Data) -> Result:
            state = GrowingRoundState.load(data.secret or b"")
            steps = steps_at_least(above * size, asked.grid) - test.bar
            found = SharpTests(test.sampler, steps, noise).step(data.integers(), data.source)
            hit, number = bool(found.positions), state.number + 1
            answer = {
                "above": hit,
                "value": found.noisy[0] if found.noisy else None,
                "size": size,
                "round": number,
                "error_bar": None if bar is None else bar / size,
                "price": str(own.price),
            }
            after = GrowingRoundState(number, size) if hit else state
            return Result(answer, int(hit), 1, secrets={self.call: after.dump()})

        def present(answer: Json, number: int) -> GrowingTest:
            rows, steps = answer["size"], answer["value"]
            value = None if steps is None else float(steps * asked.grid / rows)
            told = (answer["error_bar"], rows, answer["round"])
            return GrowingTest(number, answer["above"], value, *told, publication=_published(law, asked, above, answer))

        return self._test(
            asked,
            above,
            own.event,
            run,
            present,
            cost=PerHit(adds_up=False),
            forecast=lambda: Forecast(error_bar=bar, step=asked.grid, wrong=test.wrong_call, within=test.within),
            check=lambda held: self._refuse_ended(GrowingRoundState.load(held), "hits"),
        )

    def _test(self, query: Query, above: Fraction, *carried: Any, **options: Any) -> Plan[GrowingTest]:
        asked = {"query": query.body(), "above": str(above)}
        return self._plan("growing_sparse_test", asked, *carried, reads=reading(query), **options)

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        """With `begins=1` it begins at most one round, with 0 none, so that the charge is what was quoted. Otherwise it
        begins another one if the hit of another question ended the first: each hit is paid by a round of its own."""
        return self._asked(asked, options, request, options.pop("begins", ATTEMPTS), ATTEMPTS)

    def _asked(
        self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None, begins: int, left: int
    ) -> Answer:
        question = self.plan(*asked, **options)
        try:
            answer: Answer = self._spine.perform(question, request)
            return answer
        except NoRoundOpen:
            if not (begins and left):
                raise
            question.reads(self._spine.rows)
            begins -= self._begun(request)
        except RoundMoved as moved:
            if not (asked or options):
                raise InvalidQuery(str(moved)) from None
            if not left:
                raise
        return self._asked(asked, options, request, begins, left - 1)

    def _begun(self, request: str | None) -> bool:
        """Begin the next round for a question; False if another process began it meanwhile.

        Its idempotency key is made of the question's, so that a repeated request begins no second round.
        """
        key = None if request is None else f"{request}/round {self.state.rounds + 1} of {self.call}"
        try:
            self._spine.perform(self.plan(), key)
        except RoundMoved:
            return False
        return True

    def quote(self, *asked: Any, **options: Any) -> Quote:
        """Where no round is open, the quote of a question has the cost of the round that it begins."""
        told, state = super().quote(*asked, **options), self.state
        if not (asked or options) or state.next_epsilon is None or state.open_round is not None:
            return told
        begun = super().quote()
        prices = ("epsilon", "price_if_hit", "price_if_miss", "most_charged", "most", "fits", "left", "left_after")
        return replace(told, hits_left=state.left, **{name: getattr(begun, name) for name in prices})

    if TYPE_CHECKING:
        # The type of the answer depends on whether a query is given.
        @overload  # type: ignore[override]
        def ask(self, *, request: str | None = None) -> GrowingRound: ...

        @overload
        def ask(self, query: Query, *, above: Number | None = None, request: str | None = None) -> GrowingTest: ...

        def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
            """As for any run."""


_TOLD: Final = (
    "hits=20 (for the whole budget), price=, within= with tests=, or epsilon= for rounds with a hidden threshold"
)


@call("growing_sparse_vector", subject="growing")
class GrowingTests(Opening[GrowingRun]):
    """Test averages over a growing table against a noisy threshold, in rounds of any number of misses and one hit.

    Guarantee: with `epsilon`, a round is `epsilon (s/n)^(exponent - 1)`-DP, where n is the size now and s that at which
    it begins. That is charged when its first question comes. Every further question until its hit is free, however the
    table grows. With `hits`, `price` or `within` nothing is hidden and no round is paid beforehand. Each question is a
    `SharpTest` (see `ThresholdTest`), free unless it hits. A hit at s rows costs `(s/n)^(2 exponent - 2)` of what it
    costs now. `within` is an average, and holds for the current sizes. Opening is free.

    `above` is an average over all rows (for a count, a proportion). `values` publishes a noisy average with each hit,
    for which part of the cost is kept: `value` of that of an optimal threshold test (a quarter). `rounds` is the number
    of hits after which it ends. 1 is ATG of [GROW] Appendix C, or NATG with `values`; without it, it is NSG, to the end
    of the budget. `exponent` lies between 1, where all rounds cost the same, and 0, where all have the same noise per
    row and later ones cost less. With `epsilon` it may be up to 4: above 1 later rounds cost more, and have less noise
    even in counts.
    `sensitivity` is the largest change of a question by one row, and `grid` the questions' common step. Both are those
    of counts and sums, before they are divided by the size. Optimal threshold tests take any question, and only
    `within` needs them.

    Errors: `InvalidQuery` where the number of rows is secret (open with `neighbors="replace"`, `privacy_unit=None`) or
    there are none. `InvalidParameter` for a threshold that no average can have. `NotPriced` for optimal threshold tests
    under any but the Renyi filter."""

    _: KW_ONLY
    above: fields.Exact
    epsilon: fields.Positive | None = None
    values: fields.Flag = False
    rounds: fields.Whole | None = None
    exponent: fields.Exact = 1
    mechanism: Form = "tuned"
    sensitivity: fields.Positive = 1
    grid: fields.Positive = 1
    hits: fields.Whole | None = None
    price: fields.Probability | None = None
    within: fields.Positive | None = None
    tests: fields.Whole | None = None
    confidence: fields.Probability | None = None
    value: fields.Probability | None = None

    def __post_init__(self) -> None:
        sharp.check_one_way(self, ("epsilon", "hits", "price", "within"), _TOLD)
        sharp.check_tests(self)
        if Fraction(self.exponent) > 1 and self.epsilon is None:
            raise InvalidParameter("an exponent above 1, where later hits cost more, is for rounds: give epsilon=")
        if self.value is not None and not self.values:
            raise InvalidParameter("value= is the part of a hit's cost for its value: give values=True with it")

    def plan(self, spine: Spine) -> Plan[Any]:
        self._check_average()
        neighbor_relation, size = spine.rows.neighbor_relation, public_size(spine.rows)
        check_averages(neighbor_relation, size)
        told: Json = {"size": size}
        body = self.question_body()
        law: RoundsLaw | HitsLaw
        if self.epsilon is None:
            filter_ = spine.filter.for_sharp_tests("start it with epsilon=")
            hit = sharp.HitTerms.found(self.wanted(size), filter_, Fraction(self.sensitivity), self.value_share)
            hit.sharpness()  # refuses what has no table
            # The cost of a hit was found in floats, so it is stored and never computed again.
            told, law = told | {"price": str(hit.price)}, HitsLaw(self, neighbor_relation, size, hit)
        else:
            body = {"epsilon_per_round": body.pop("epsilon"), "rounds": self.rounds} | body
            law = RoundsLaw(self, neighbor_relation, size)
            law.round(Fraction(law.terms.epsilon))  # refuses noise out of range
        start = GrowingRoundState().dump()
        return opening(self, spine, law.event, lambda data: start, body=body, answer=told, cost=PREPAID, reads=_sized)

    def wanted(self, size: int) -> sharp.Wanted:
        """The accuracy that is wanted, at this size."""
        within = None if self.within is None else Fraction(self.within) * size
        return sharp.Wanted.said(self, within=within)

    @property
    def value_share(self) -> Fraction:
        """The part of a hit's cost that its value takes; 0 without values."""
        return sharp.value_part(self.value) if self.values else Fraction(0)

    def _check_average(self) -> None:
        """Refuse a threshold that no question can have: values of a row, 0 among them, lie within the sensitivity."""
        asked, most = Fraction(self.above), Fraction(self.sensitivity)
        if abs(asked) > most:
            raise InvalidParameter(
                "above is an average over all rows, which lies within plus and minus the sensitivity, here "
                f"{plain(most)} (for a count it is a proportion: 0.3 is 30 %), not {plain(asked)}"
            )


def _sized(rows: Rows) -> Sequence[Reading]:
    public_size(rows)
    return ()


def check_averages(neighbor_relation: NeighborRelation, size: int) -> None:
    """Refuse a dataset whose number of rows is secret, and one without rows."""
    if not neighbor_relation.public_units or neighbor_relation.unit is not None:
        raise InvalidQuery('averages are over rows of a table: open with privacy_unit=None, neighbors="replace"')
    if size < 1:
        raise InvalidQuery("an average over rows needs rows: append some first")


def _published(law: HitsLaw, query: Query, above: Fraction, answer: Json) -> Publication | None:
    """The publication of a hit's average, with noise of its own; None without a value or with an unknown cost.

    Its steps are those of the sum over the rows there were.
    """
    own, neighbor_relation, size = law.at(answer["size"]), law.neighbor_relation, answer["size"]
    if answer["value"] is None or str(own.price) != answer.get("price"):
        return None
    noise = own.noise(query.sensitivity(neighbor_relation))
    floor, ceiling = (None if end is None else Fraction(end, size) for end in query.known_range(neighbor_relation))
    bar = steps_at_least(above * size, query.grid)
    return Publication(noise.law(), grid=query.grid / size, floor=floor, ceiling=ceiling, bar=bar)
