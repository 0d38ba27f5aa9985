"""Answers about a stream that may depend on the answers ("robust streaming"), by a private median of many copies.

Source: Hassidim, Kaplan, Mansour, Matias and Stemmer (2020); here a test and its median are one target-charged call.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from chary.accounting import Targeted
from chary.answers import Spending
from chary.core.charges import ends_free_misses
from chary.data import Ballots
from chary.errors import BudgetRefused, InvalidParameter
from chary.filters import Budget, largest_call
from chary.mechanisms import Exponential, Grid, new_key
from chary.mechanisms.sketches import Element, canonical
from chary.noise import OperatingSystem, Source
from chary.numbers import Number, positive, probability, whole
from chary.session import open_rows
from chary.streaming.banks import Make, bank_of
from chary.streaming.medians import ChangedMedian

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
    """Answers about a growing stream whose items may be chosen by whoever sees the answers.

    What is protected is the coins of the copies: all answers together are (epsilon, delta)-DP, by the budget, for the
    key of any one copy. So no stream that was chosen by the answers can be much worse for a copy than a stream fixed
    beforehand (`risk` says how much; docs/sketches.md). Items are public, and nothing protects them.

    An answer within the last one's band is free; a change is charged, and once no further change could be paid,
    `answer` raises `BudgetRefused` for good while `last` and `update` go on.

    - `make_estimator(key)`: an `Estimator`, such as `SecondMoment` or `lambda key: FlajoletMartin(key, 256)`.
    - `step`, `largest`: answers are 0 or powers of `1 + step` up to the first that reaches `largest`, a public bound.
    - `band`: an answer stays while it is at most so many cells from the median, and 0 while that is 0.
    - `hits`: how many changes to pay for, or `epsilon`: the size of each call.

    Errors: `InvalidParameter` for a step that is not positive, both or neither of hits and epsilon, copies too few for
    calls of that size to find the median, or a budget under which answers that stay are charged: one without delta, or
    one for which epsilon is too large. Not safe to use from several threads.

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
        self._ballots = Ballots(
            lambda answer: self._grid.votes(self._bank.estimates().tolist()), self._cells, voter="copy"
        )
        self._session = open_rows(
            self._ballots,
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
        """The number for the stream so far. `BudgetRefused` once no further change could be paid."""
        spine, poll = self._session.spine, self._ballots.poll(self._answers + 1)
        median = ChangedMedian(poll, self._epsilon, self._last, self._band)
        # One more change would fit beside the epsilons of all calls, but then answers that stay are charged as well.
        if ends_free_misses(median, spine.filter, spine.accounts()):
            raise self._used_up()
        try:
            cell, changed = spine.perform(median)
        except BudgetRefused:
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
        copy that is right is exact; the copies' own relative error comes on top. Numbers above `largest` aside."""
        return float((1 + Fraction(self._grid.step)) ** self._band) * math.sqrt(1 + float(self._grid.step))

    def risk(self, *, wrong: Number, answers: int = 1) -> float:
        """The chance that one of so many answers is wrong, at most.

        `wrong` is the chance that one copy errs by more than its tolerance on a fixed stream. An answer is wrong if it
        lies more than a band and half a cell outside of what the copies within their tolerance say.

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

    def _used_up(self) -> BudgetRefused:
        self._exhausted = True
        return BudgetRefused(
            f"all {self._changes} changes that the budget pays for are used up; the last answer may be out of date"
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
    """The chance that so many copies are wrong: the least over m of `C(copies, m) / C(many, m)` times the chance that
    m given copies are, at most `(e^epsilon wrong)^m` and what delta adds for a group of m."""
    epsilon, delta = (float(part) for part in budget.exact)
    best, sets, failing = 1.0, 1.0, 0.0
    for m in range(1, many + 1):
        sets *= (copies - m + 1) / (many - m + 1)
        failing += math.exp(min(700.0, epsilon * (m - 1))) * delta
        best = min(best, sets * (math.exp(m * (epsilon + math.log(wrong))) + failing) if m * epsilon < 600 else 1.0)
    return best
