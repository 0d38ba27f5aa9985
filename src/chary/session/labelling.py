"""Labels from votes: every one paid, only unclear ones paid, or only those that a guess got wrong.

All of them choose an option with a chance proportional to `exp(epsilon votes / 2)`. One voter moves one vote from one
option to another, so the factor 2 is needed: where the second option has nearly all of the law, its loss changes the
sum as well, and the first becomes e^epsilon times as likely (no smaller epsilon holds). What does hold is that the
log-likelihood ratio lies in an interval of length epsilon. Then `K(a) = ln E_P1 (P0/P1)^a` has `K'' <= epsilon^2 / 4`,
the largest variance in such an interval, and is 0 at 0 and 1, so `K(a) <= a (a-1) epsilon^2 / 8`: the choice is
(epsilon^2 / 8)-zCDP, a quarter of what an epsilon-DP release costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from chary.accounting import Event, NarrowChoice, Pure, Targeted
from chary.data import Ballots, Poll, Query, Rows
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import BOUNDARY, Boundary, Exponential, Laplace, PermuteAndFlip, ThresholdTest
from chary.mechanisms.additive import Integers
from chary.mechanisms.boundary import Outcome
from chary.numbers import Number, positive, whole
from chary.session.choosing import bounded_range_price
from chary.session.door import Door
from chary.session.interaction import Interaction, Json, Ran, Touched

Option = str | int
State = Literal["label", "low", "boundary"]
Level = Literal["high", "low"]


@dataclass(frozen=True)
class Label:
    """What the voters' label of one question is: `option`, or None with the reason in `state`.

    "low": no option has many votes; "boundary": it is not clear what to answer. `charged` tells whether it was paid; a
    call of a size for which the filter has no price of hits is paid in any case.
    """

    state: State
    option: Option | None
    charged: bool


@dataclass(frozen=True)
class _Polled(Interaction):
    """One poll of the voters."""

    poll: Poll
    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.event  # noqa: B018 - refuses an epsilon out of range

    def body(self) -> Json:
        return {"query": self.poll.body(), "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.poll]


@dataclass(frozen=True)
class _Vote(_Polled):
    """A choice among the options of a poll and, with `low`, the candidate "no option has that many votes"."""

    low: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is not None and whole(self.low, "low", least=0) >= 2**62:
            raise InvalidParameter("low is a number of votes, below 2**62")

    def body(self) -> Json:
        return super().body() | ({} if self.low is None else {"low": self.low})

    def utilities(self, touched: Touched) -> Integers:
        """The votes, and the bar as those of a candidate more."""
        votes = touched.integers()
        return votes if self.low is None else np.append(votes, self.low)

    def ran(self, outcome: Outcome, touched: Touched, *, hit: bool) -> Ran:
        """What comes of the boundary, or of a candidate's number."""
        named: Json = {"state": BOUNDARY if outcome == BOUNDARY else "low"}
        if outcome not in (BOUNDARY, len(self.poll.options)):
            named = {"state": "label", "option": self.poll.options[int(outcome)]}
        return Ran(named | {"charged": hit or not touched.price.free_miss}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Label:
        return Label(answer["state"], answer.get("option"), answer["charged"])


@dataclass(frozen=True)
class Choose(_Vote):
    """A label in any case. Without a `guess` all are paid, with one only labels that differ from it.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower (permute-and-flip: `Pure`
    alone); with a guess a `NarrowChoice` whose hit is another label than the guess (permute-and-flip: any epsilon-DP
    call with this NotPrior target).
    """

    guess: Option | None = None
    flip: bool = False
    kind = "label"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guess is not None and position(self.poll, self.guess) is None:
            raise InvalidParameter("the guess is none of the options that were voted on")

    @cached_property
    def mechanism(self) -> Exponential:
        """The exact choice."""
        return (PermuteAndFlip if self.flip else Exponential)(self.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> Event:
        if self.guess is None:
            return Pure(self.epsilon)
        return Targeted(self.epsilon) if self.flip else NarrowChoice(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        if self.flip or self.guess is not None:
            return filter_.price(self.event)
        return bounded_range_price(filter_, self.epsilon)

    def body(self) -> Json:
        return super().body() | {"guess": self.guess, "flip": self.flip}

    def run(self, touched: Touched) -> Ran:
        outcome = self.mechanism.step(self.utilities(touched), touched.source)
        return self.ran(outcome, touched, hit=self.guess is None or outcome != position(self.poll, self.guess))


@dataclass(frozen=True)
class ChooseClear(_Vote):
    """A label, free, or "boundary", paid, when the vote is not clear. Guarantee: `BoundaryCall(epsilon)`."""

    kind = "label_clear"

    @cached_property
    def mechanism(self) -> Boundary[Any]:
        """The exponential mechanism inside the boundary wrapper."""
        return Boundary(Exponential(self.epsilon, sensitivity=1))

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def run(self, touched: Touched) -> Ran:
        outcome = self.mechanism.step(self.utilities(touched), touched.source)
        return self.ran(outcome, touched, hit=outcome == BOUNDARY)


@dataclass(frozen=True)
class Agree(_Polled):
    """Whether the most votes and discrete Laplace noise reach a bar: "high" or "low"; the expected one is free.

    Guarantee: one epsilon-DP call with the NotPrior target "not as expected": moving a vote changes the most votes of
    an option by one at most.
    """

    above: int
    expect: Level = "high"
    kind = "agreement"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.above, "above", least=0)
        if self.expect not in ("high", "low"):
            raise InvalidParameter("expect must be 'high' or 'low'")
        self.mechanism  # noqa: B018 - refuses noise out of range

    @cached_property
    def mechanism(self) -> ThresholdTest:
        """The test on the largest count."""
        return ThresholdTest(Laplace.for_epsilon(self.epsilon, sensitivity=1), self.above)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def body(self) -> Json:
        return super().body() | {"above": self.above, "expect": self.expect}

    def run(self, touched: Touched) -> Ran:
        high = self.mechanism.step(int(touched.integers().max()), touched.source)
        found = "high" if high else "low"
        return Ran({"found": found}, hits=int(found != self.expect), tests=1)

    def present(self, answer: Json, call: int) -> bool:
        return bool(answer["found"] == "high")


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


class Labelling(Door):
    """Labels of public questions from secret votes; for sessions on `chary.data.Ballots`."""

    def label(
        self,
        question: str | int,
        *,
        epsilon: Number,
        guess: Option | None = None,
        low: int | None = None,
        flip: bool = False,
        request: str | None = None,
    ) -> Label:
        """The voters' label. With `guess`, say what a model predicts, it is free unless another label comes out.

        Guarantee: the exponential mechanism on the counts of votes, epsilon-DP when one voter votes differently; with
        a guess, which may depend on everything published before, a call with a NotPrior target. `low` adds the
        candidate "no option has so many votes", for which no label is released. `flip` chooses by permute-and-flip,
        which is more accurate, and dearer under a Renyi filter where every label is paid.

        Errors: `InvalidQuery` when the session does not ask votes; `InvalidParameter` for a guess that is no option.
        """
        made = Choose(polled(self.spine.rows, question), epsilon, low, guess, flip)
        answer: Label = self.spine.perform(made, request)
        return answer

    def label_clear(
        self, question: str | int, *, epsilon: Number, low: int | None = None, request: str | None = None
    ) -> Label:
        """The voters' label, free, where it is clear; "boundary", which is charged, where it is not.

        Guarantee: the exponential mechanism on the counts of votes inside the boundary wrapper,
        `BoundaryCall(epsilon)` ([TCT] Algorithm 4). With `low`, both a clear label and a clear "low" are free.
        Errors as for `label`.
        """
        answer: Label = self.spine.perform(ChooseClear(polled(self.spine.rows, question), epsilon, low), request)
        return answer

    def agreement(
        self,
        question: str | int,
        *,
        above: int,
        epsilon: Number,
        expect: Level = "high",
        request: str | None = None,
    ) -> bool:
        """Whether some option has at least `above` votes, up to noise; the expected outcome is free.

        Guarantee: a noisy epsilon-DP test of the largest count with a NotPrior target. Errors as for `label`.
        """
        answer: bool = self.spine.perform(Agree(polled(self.spine.rows, question), epsilon, above, expect), request)
        return answer
