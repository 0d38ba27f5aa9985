"""Labels from votes: every one paid, only unclear ones paid, or only those that a guess got wrong.

All of them choose an option with a chance proportional to `exp(epsilon votes / 2)`. One voter moves one vote from one
option to another, so the factor 2 is needed: where the second option has nearly all of the law, its loss changes the
sum as well, and the first becomes e^epsilon times as likely (no smaller epsilon holds). What does hold is that the
log-likelihood ratio lies in an interval of length epsilon. Then `K(a) = ln E_P1 (P0/P1)^a` has `K'' <= epsilon^2 / 4`,
the largest variance in such an interval, and is 0 at 0 and 1, so `K(a) <= a (a-1) epsilon^2 / 8`: the choice is
(epsilon^2 / 8)-zCDP, a quarter of what an epsilon-DP release costs.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, Literal

import numpy as np

from chary.accounting import Event, NarrowChoice, Pure, Targeted
from chary.answers import Answer
from chary.calls.answers import YesOrNo
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import Flag, Positive, Whole, Word
from chary.calls.selection.choices import bounded_range_price
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Ballots, Poll, Query, Rows
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import BOUNDARY, BoundaryWrapper, Exponential, Laplace, PermuteAndFlip, ThresholdTest
from chary.mechanisms.additive import Integers
from chary.mechanisms.boundaries import InnerOutcome

Option = str | int
State = Literal["label", "low", "boundary"]
Level = Literal["high", "low"]
# Votes are counted in 64 bits, and a bar stands among them with room for one more.
_MOST_VOTES: Final = 2**62


@dataclass(frozen=True)
class Labelled(Answer):
    """What the voters' label of one question is: `option`, or None with the reason in `state`.

    "low": no option has many votes; "boundary": it is not clear what to answer. `paid` tells whether it was charged; a
    call of a size for which the filter has no price of hits is charged in any case. `agreed` is the call that asked
    for agreement first, if one did.
    """

    state: State
    option: Option | None
    paid: bool
    agreed: int | None = field(default=None, kw_only=True)

    @property
    def value(self) -> Option | None:
        """The label."""
        return self.option

    @property
    def hit(self) -> bool:
        return self.paid

    def _numbers(self) -> Sequence[int]:
        return [number for number in dict.fromkeys((self.agreed, self.call)) if number is not None]


@call("label", subject="votes")
class Label(Call[Labelled]):
    """The voters' label. With `guess`, say what a model predicts, it is free unless another label comes out.

    Guarantee: the exponential mechanism on the counts of votes when one voter votes differently: `Pure(epsilon)` and
    (epsilon^2/8)-zCDP, whichever the filter prices lower; with a guess, which may depend on everything published
    before, a `NarrowChoice` whose hit is another label than the guess. `low` adds the candidate "no option has so many
    votes", for which no label is released. `flip` chooses by permute-and-flip, which is more accurate, and dearer under
    a Renyi filter where every label is paid: it is `Pure` alone, and with a guess any epsilon-DP call with that
    NotPrior target.

    Errors: `InvalidQuery` when the session does not ask votes; `InvalidParameter` for a guess that is no option.
    """

    question: Word
    _: KW_ONLY
    epsilon: Positive
    guess: Word | None = None
    low: Whole | None = None
    flip: Flag = False

    def bind(self, spine: Spine) -> "AskLabel":
        poll = polled(spine.rows, self.question)
        if self.guess is not None and position(poll, self.guess) is None:
            raise InvalidParameter("the guess is none of the options that were voted on")
        return AskLabel(self, spine.rows.neighbouring, poll, countable(self.low))


@dataclass(frozen=True)
class _Polled(Bound[CallT], Generic[CallT]):
    """One poll of the voters."""

    poll: Poll

    def body(self) -> Json:
        return {"query": self.poll.body()} | {n: v for n, v in super().body().items() if n != "question"}

    def queries(self) -> Sequence[Query]:
        return [self.poll]


@dataclass(frozen=True)
class _Vote(_Polled[CallT], Generic[CallT]):
    """A choice among the options of a poll and, with `low`, the candidate "no option has that many votes"."""

    low: int | None

    def utilities(self, touched: Touched) -> Integers:
        """The votes, and the bar as those of a candidate more."""
        votes = touched.integers()
        return votes if self.low is None else np.append(votes, self.low)

    def ran(self, outcome: InnerOutcome, touched: Touched, *, hit: bool) -> Ran:
        """What comes of the boundary, or of a candidate's number."""
        named: Json = {"state": BOUNDARY if outcome == BOUNDARY else "low"}
        if outcome not in (BOUNDARY, len(self.poll.options)):
            named = {"state": "label", "option": self.poll.options[int(outcome)]}
        return Ran(named | {"charged": hit or not touched.price.free_miss}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Labelled:
        return Labelled(call, answer["state"], answer.get("option"), answer["charged"])


@dataclass(frozen=True)
class AskLabel(_Vote[Label]):
    """The label, as it is chosen."""

    @cached_property
    def mechanism(self) -> Exponential:
        """The exact choice; refuses an epsilon out of range."""
        return (PermuteAndFlip if self.call.flip else Exponential)(self.call.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> Event:
        epsilon = self.mechanism.epsilon
        if self.call.guess is None:
            return Pure(epsilon)
        return Targeted(epsilon) if self.call.flip else NarrowChoice(epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        if self.call.flip or self.call.guess is not None:
            return filter_.price(self.event)
        return bounded_range_price(filter_, self.call.epsilon)

    def body(self) -> Json:
        return super().body() | {"guess": self.call.guess}

    def run(self, touched: Touched) -> Ran:
        outcome, guess = self.mechanism.step(self.utilities(touched), touched.source), self.call.guess
        return self.ran(outcome, touched, hit=guess is None or outcome != position(self.poll, guess))


@call("label_clear", subject="votes")
class ClearLabel(Call[Labelled]):
    """The voters' label, free, where it is clear; "boundary", which is charged, where it is not.

    Guarantee: the exponential mechanism on the counts of votes inside the boundary wrapper,
    `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `low`, both a clear label and a clear "low" are free.
    Errors as for `Label`.
    """

    question: Word
    _: KW_ONLY
    epsilon: Positive
    low: Whole | None = None

    def bind(self, spine: Spine) -> "AskClearLabel":
        return AskClearLabel(self, spine.rows.neighbouring, polled(spine.rows, self.question), countable(self.low))


@dataclass(frozen=True)
class AskClearLabel(_Vote[ClearLabel]):
    """The clear label, as it is chosen."""

    @cached_property
    def mechanism(self) -> BoundaryWrapper[Any]:
        """The exponential mechanism inside the boundary wrapper."""
        return BoundaryWrapper(Exponential(self.call.epsilon, sensitivity=1))

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def run(self, touched: Touched) -> Ran:
        outcome = self.mechanism.step(self.utilities(touched), touched.source)
        return self.ran(outcome, touched, hit=outcome == BOUNDARY)


@dataclass(frozen=True)
class Agreed(YesOrNo):
    """Whether some option has so many votes, up to noise; `surprising` if that was not expected, which is a hit."""

    surprising: bool

    @property
    def hit(self) -> bool:
        return self.surprising


@call("agreement", subject="votes")
class Agreement(Call[Agreed]):
    """Whether some option has at least `above` votes, up to noise; the expected outcome is free.

    Guarantee: the largest count, which moving a vote changes by one at most, is tested with discrete Laplace noise: one
    epsilon-DP call with the NotPrior target "not as expected". Errors as for `Label`.
    """

    question: Word
    _: KW_ONLY
    above: Whole
    epsilon: Positive
    expect: Level = "high"

    def bind(self, spine: Spine) -> "AskAgreement":
        return AskAgreement(self, spine.rows.neighbouring, polled(spine.rows, self.question))


@dataclass(frozen=True)
class AskAgreement(_Polled[Agreement]):
    """The test of agreement, as it is run."""

    @cached_property
    def mechanism(self) -> ThresholdTest:
        """The test on the largest count; refuses noise out of range."""
        return ThresholdTest(Laplace.for_epsilon(self.call.epsilon, sensitivity=1), self.call.above)

    @cached_property
    def event(self) -> Event:
        self.mechanism  # noqa: B018 - refuses noise out of range
        return Targeted(self.call.epsilon)

    def run(self, touched: Touched) -> Ran:
        high = self.mechanism.step(int(touched.integers().max()), touched.source)
        found = "high" if high else "low"
        return Ran({"found": found}, hits=int(found != self.call.expect), tests=1)

    def present(self, answer: Json, call: int) -> Agreed:
        return Agreed(call, answer["found"] == "high", surprising=answer["found"] != self.call.expect)


def position(poll: Poll, option: Option | None) -> int | None:
    """The number of an option, told apart by type as well (1 is not True); None if it is none of them."""
    found = [k for k, known in enumerate(poll.options) if known == option and type(known) is type(option)]
    return found[0] if found else None


def polled(rows: Rows, question: str | int) -> Poll:
    """The question as it is put to voters; `InvalidQuery` when there are none, or none that it can be put to."""
    if not isinstance(rows, Ballots):
        raise InvalidQuery("labels come from votes: open chary.data.Ballots by chary.session.open_rows")
    if isinstance(question, bool) or not isinstance(question, (str, int)):
        raise InvalidQuery("a question put to voters is a string or a whole number")
    return rows.poll(question)


def countable(low: int | None) -> int | None:
    """The bar, if votes can be counted up to it; otherwise `InvalidParameter`."""
    if low is not None and low >= _MOST_VOTES:
        raise InvalidParameter("low is a number of votes, below 2**62")
    return low
