"""Robust streaming: estimators that stay right although the stream depends on their answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from chary.accounting import Targeted
from chary.answers import Spending
from chary.core import charges
from chary.core.plan import ENCODER, Data, Json, Plan, Result, Size, reading
from chary.data import Votes
from chary.data.votes import Poll
from chary.errors import BudgetExceeded, InvalidParameter
from chary.filters import Budget, largest_call
from chary.mechanisms import CountSketch, Estimator, Exponential, Grid, SecondMoment, new_key, rank_utilities
from chary.mechanisms.sketches import Element, canonical, checked_key
from chary.noise import OperatingSystem, Source
from chary.numbers import Number, exact, float_or_nan, positive, probability, whole
from chary.session import open_votes

__all__ = ["ItemFrequency", "RobustAnswer", "RobustStream", "cancelling"]

# The private median of many copies, published when it has changed.


def changed_median(poll: Poll, epsilon: Number, last: int, band: int) -> Plan[tuple[int, bool]]:
    """A cell by the exponential mechanism on rank utilities, if it is more than `band` cells from the last one.

    The cell of 0 is within no other cell's band. Guarantee: one epsilon-DP call, for the votes of one copy, with the
    NotPrior target "changed". Utilities are integers that one copy changes by at most 1, and every cell within the band
    is published as the same outcome.
    """
    choice = Exponential(epsilon, sensitivity=1)

    def run(data: Data) -> Result:
        cell = choice.step(rank_utilities(data.integers()), data.source)
        changed = abs(cell - last) > band or (cell == 0) != (last == 0)
        return Result({"cell": cell if changed else last, "changed": changed}, hits=int(changed), tests=1)

    def present(answer: Json, number: int) -> tuple[int, bool]:
        return answer["cell"], answer["changed"]

    body = {"answer": poll.question, "last": last, "band": band, "epsilon": str(epsilon)}
    size = Size(Fraction(exact(epsilon, "epsilon")), lambda other: changed_median(poll, other, last, band))
    text, event = ENCODER.encode(body), Targeted(epsilon)
    return Plan("robust_answer", text, event, run, present, reading(poll), size=size)


# Many copies of one estimator that see the same stream, each with its own key.

Floats = NDArray[np.float64]
Make = Callable[[str], Estimator]

# As many as a digest has bits: one hash an item for each copy.
_SIGNS: Final = 256


class Bank(Protocol):
    """The copies together. What one copy says depends on the stream and its own key only."""

    def update(self, item: Element) -> None:
        """One more item for all copies."""
        ...

    def estimates(self) -> Floats:
        """What each copy says now; NaN for a copy that failed."""
        ...


class Copies:
    """Copies of any estimator. One that raises is NaN from then on, since a failure would say about its key.

    >>> bank = Copies(SecondMoment, ["0" * 64, "1" * 64])
    >>> bank.update("a")
    >>> bank.estimates()
    array([1., 1.])
    """

    def __init__(self, make: Make, keys: Sequence[str]) -> None:
        self._copies: list[Estimator | None] = [make(key) for key in keys]

    def update(self, item: Element) -> None:
        for number, copy in enumerate(self._copies):
            self._try(number, lambda copy=copy: copy and copy.update(item))  # type: ignore[misc]

    def estimates(self) -> Floats:
        said = [self._try(n, copy.estimate) if copy else math.nan for n, copy in enumerate(self._copies)]
        return np.array([float_or_nan(value) for value in said])

    def _try(self, number: int, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception:
            self._copies[number] = None
            return math.nan


class SecondMoments:
    """Copies of `SecondMoment`, all updated at once.

    >>> bank = SecondMoments(["0" * 64, "1" * 64])
    >>> bank.update("a")
    >>> bank.estimates()
    array([1., 1.])
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._starts = [sha256(checked_key(key).encode()) for key in keys]
        self._sums = np.zeros((len(keys), _SIGNS))

    def update(self, item: Element) -> None:
        bits = np.unpackbits(np.frombuffer(self._digests(canonical(item)), dtype=np.uint8)).reshape(self._sums.shape)
        self._sums += bits
        self._sums += bits
        # Twice the bits less 1 is the sign: three passes in place, without an array for the signs.
        self._sums -= 1

    def estimates(self) -> Floats:
        found: Floats = np.einsum("ij,ij->i", self._sums, self._sums) / _SIGNS
        return found

    def _digests(self, text: bytes) -> bytes:
        digests = []
        for start in self._starts:
            hashed = start.copy()
            hashed.update(text)
            digests.append(hashed.digest())
        return b"".join(digests)


def bank_of(make: Make, keys: Sequence[str]) -> Bank:
    """The copies, updated at once where that is known how."""
    return SecondMoments(keys) if make is SecondMoment else Copies(make, keys)


# Answers about a stream that may depend on the answers ("robust streaming"), by a private median of many copies.
#
# Source: Hassidim, Kaplan, Mansour, Matias and Stemmer (2020); here a test and its median are one target-charged call.

# The median is missed by a quarter of the copies at most, 99 times in 100: else an answer says little of any copy.
DOUBT = Fraction(1, 100)
# A hundred cells either way are no answer any more, whatever the step.
MOST_BAND = 100


@dataclass(frozen=True)
class RobustAnswer:
    """The answer of that number, counted from 1, and whether it is another one than before, which was charged."""

    number: int
    value: float
    changed: bool


class RobustStream:
    """Answers about a growing stream whose items may be chosen by those who see the answers.

    What is protected is the coins of the copies: all answers together are (epsilon, delta)-DP, by the budget, for the
    key of any one copy. So no stream that was chosen by the answers can be much worse for a copy than a stream fixed
    beforehand (`risk` says how much; docs/theory/growing.md). Items are public, and nothing protects them.

    An answer within the last one's band is free; a change is charged. Once no further change could be paid, `answer`
    raises `BudgetExceeded` for good while `last` and `update` continue.

    - `make_estimator(key)`: an `Estimator`, such as `SecondMoment` or `lambda key: FlajoletMartin(key, 256)`.
    - `step`, `largest`: answers are 0 or powers of `1 + step` up to the first that reaches `largest`, a public bound.
    - `band`: an answer stays while it is at most this many cells from the median, and 0 while that is 0.
    - `hits`: how many changes to pay for, or `epsilon`: the size of each call.

    Errors: `InvalidParameter` for a step that is not positive, and for both or neither of hits and epsilon. The same
    for copies too few for calls of that size to find the median. The same for a budget under which answers that stay
    are charged: one without delta, or one for which epsilon is too large. Not safe to use from several threads.

    >>> from chary.mechanisms import SecondMoment
    >>> stream = RobustStream(
    ...     SecondMoment, copies=400, step=1, largest=10**6, budget=Budget(epsilon=9, delta=1e-9), hits=10)
    >>> for _ in range(1000):
    ...     stream.update("a")
    >>> stream.answer()
    RobustAnswer(number=1, value=1048576.0, changed=True)
    >>> stream.changes, stream.answer().changed
    (1, False)
    """

    def __init__(
        self,
        make_estimator: Make,
        *,
        copies: int,
        step: Number,
        largest: int,
        budget: Budget,
        band: int = 1,
        hits: int | None = None,
        epsilon: Number | None = None,
        unsafe_noise: Source | None = None,
    ) -> None:
        self._grid, self._band = Grid(step, largest), whole(band, "band")
        if self._band > MOST_BAND:
            raise InvalidParameter(f"band is a number of cells, at most {MOST_BAND}")
        self._epsilon = _call_size(budget, hits, epsilon)
        self.copies = whole(copies, "copies", least=2)
        self._check_copies()
        source = unsafe_noise or OperatingSystem()
        self._bank = bank_of(make_estimator, [new_key(source) for _ in range(self.copies)])
        self._votes = Votes(lambda answer: self._grid.votes(self._bank.estimates().tolist()), self._cells, voter="copy")
        self._session = open_votes(
            self._votes,
            dataset="copies",
            ledger=":memory:",
            budget=budget,
            grain=self._epsilon,
            unsafe_noise=unsafe_noise,
        )
        self._check_misses()
        self._answers = self._changes = self._last = 0
        self._exhausted = False

    def update(self, item: Element) -> None:
        """One more item of the stream; `InvalidParameter`, and no copy sees it, if it is no element."""
        canonical(item)
        self._bank.update(item)

    def answer(self) -> RobustAnswer:
        """The number for the stream so far. `BudgetExceeded` once no further change could be paid."""
        spine, poll = self._session.spine, self._votes.poll(self._answers + 1)
        median = changed_median(poll, self._epsilon, self._last, self._band)
        # One more change would fit beside the epsilons of all calls, but then answers that stay are charged as well.
        if charges.ends_free_misses(median, spine.filter, spine.accounts()):
            raise self._used_up()
        try:
            cell, changed = spine.perform(median)
        except BudgetExceeded:
            raise self._used_up() from None
        self._answers += 1
        self._last, self._changes = cell, self._changes + changed
        return RobustAnswer(self._answers, self.last, changed)

    @property
    def last(self) -> float:
        """The last answer, 0 before the first."""
        return self._grid.values[self._last]

    @property
    def changes(self) -> int:
        """How often the answer changed."""
        return self._changes

    @property
    def exhausted(self) -> bool:
        """Whether an answer was refused since no further change could be paid."""
        return self._exhausted

    @property
    def spent(self) -> Spending:
        """What is spent of the budget."""
        return self._session.spent

    @property
    def factor(self) -> float:
        """An answer is right if it is between the number divided by this factor and the number times it, where each
        copy that is right is exact. The copies' own relative error comes on top. Numbers above `largest` are
        excepted."""
        return float((1 + Fraction(self._grid.step)) ** self._band) * math.sqrt(1 + float(self._grid.step))

    def risk(self, *, wrong: Number, answers: int = 1) -> float:
        """The probability that one of this many answers is wrong, at most.

        `wrong` is the probability that one copy errs by more than its tolerance on a fixed stream. An answer is wrong
        if it lies more than a band and half a cell outside of what the copies within their tolerance say.

        >>> from chary.mechanisms import SecondMoment
        >>> stream = RobustStream(
        ...     SecondMoment, copies=2000, step=1, largest=10**6, budget=Budget(epsilon=3, delta=1e-12), hits=16)
        >>> stream.risk(wrong=1e-4, answers=1000) < 0.01
        True
        """
        p, times = float(probability(wrong, "wrong")), whole(answers, "answers")
        return min(1.0, times * min(self._risk(p, most) for most in range(1, self.copies // 2)))

    def _risk(self, wrong: float, most: int) -> float:
        """That more than `most` copies are wrong, or that the mechanism leaves the range of the others."""
        short = (self.copies + 1) // 2 - most
        left = len(self._cells) * math.exp(-float(self._epsilon) * short / 2)
        return left + _many_wrong(self._session.spine.filter.budget, self.copies, most + 1, wrong)

    def _check_copies(self) -> None:
        needed = 4 * Exponential(self._epsilon, sensitivity=1).shortfall(len(self._cells), DOUBT)
        if self.copies < needed:
            raise InvalidParameter(
                f"{self.copies} copies are too few for calls of epsilon {float(self._epsilon):.3g}: take "
                f"{math.ceil(needed)}, or fewer hits, a larger budget or a larger step"
            )

    def _check_misses(self) -> None:
        if not self._session.spine.filter.price(Targeted(self._epsilon)).free_miss:
            raise InvalidParameter(
                f"calls of epsilon {float(self._epsilon):.3g} would be charged for answers that stay: give the budget "
                "a delta, or hits= instead of epsilon="
            )

    def _used_up(self) -> BudgetExceeded:
        self._exhausted = True
        return BudgetExceeded(
            f"all {self._changes} changes that the budget pays for are exhausted; the last answer may be out of date"
        )

    @property
    def _cells(self) -> tuple[int, ...]:
        return tuple(range(len(self._grid.values)))

    def __repr__(self) -> str:
        return f"RobustStream({self.copies} copies, {self._answers} answers, {self._changes} changes)"


def _call_size(budget: Budget, hits: int | None, epsilon: Number | None) -> Fraction:
    if (hits is None) == (epsilon is None):
        raise InvalidParameter("give one of hits= (changes to pay for) and epsilon= (the size of each call)")
    if not isinstance(budget, Budget):
        raise InvalidParameter("budget must be a Budget, such as chary.Budget(epsilon=4, delta=1e-9)")
    if epsilon is not None:
        return positive(epsilon, "epsilon")
    return largest_call(budget, whole(hits or 0, "hits"), "renyi" if budget.exact[1] else "pure")


def _many_wrong(budget: Budget, copies: int, many: int, wrong: float) -> float:
    """The probability that this many copies are wrong. It is the least over m of `C(copies, m) / C(many, m)` times the
    probability that m given copies are, at most `(e^epsilon wrong)^m` and what delta adds for a group of m."""
    epsilon, delta = (float(part) for part in budget.exact)
    best, sets, failing = 1.0, 1.0, 0.0
    for m in range(1, many + 1):
        sets *= (copies - m + 1) / (many - m + 1)
        failing += math.exp(min(700.0, epsilon * (m - 1))) * delta
        best = min(best, sets * (math.exp(m * (epsilon + math.log(wrong))) + failing) if m * epsilon < 600 else 1.0)
    return best


# One number about a stream, from a sketch that can say many.


class ItemFrequency(Estimator):
    """How often one public item occurred, from a `CountSketch`; negative estimates are 0.

    >>> seen = ItemFrequency("0" * 64, "b", width=64, depth=5)
    >>> for item in "abracadabra":
    ...     seen.update(item)
    >>> seen.estimate()
    2.0
    """

    def __init__(self, key: str, item: Element, *, width: int, depth: int) -> None:
        self._sketch, self._item = CountSketch(key, width=width, depth=depth), item

    def update(self, item: Element) -> None:
        self._sketch.update(item)

    def estimate(self) -> float:
        return max(0.0, self._sketch.estimate(self._item))


# An analyst who fools a streaming estimator by its own answers: what robust streams are for, and tested against.


def cancelling(ask: Callable[[int], float], *, items: int, heavy: int = 150) -> list[int]:
    """The stream of an analyst who makes its number seem small; `ask(item)` feeds one item and returns the answer.

    Item 0 arrives `heavy` times first. Then the items 1, 2, ... below `items`: where the answer falls, the item's
    random sign opposes what is stored, and it arrives again as long as the answer keeps falling. Only answers are
    seen, and items only arrive, so the true number never falls.

    >>> from chary.mechanisms import SecondMoment
    >>> plain = SecondMoment("0" * 64)
    >>> def ask(item):
    ...     plain.update(item)
    ...     return plain.estimate()
    >>> stream = cancelling(ask, items=500)
    >>> truth = sum(stream.count(item) ** 2 for item in set(stream))
    >>> plain.estimate() < truth / 3
    True
    """
    stream = [0] * heavy
    before = [ask(item) for item in stream][-1]
    for item in range(1, items):
        falling = True
        while falling:
            after = ask(item)
            stream.append(item)
            before, falling = after, after < before
    return stream
