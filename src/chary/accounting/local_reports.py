"""What a collector learns from reports that people randomize themselves: shares, their errors, and how many people.

A *channel* is what a form of reports is for one value. A report speaks for the value with probability `held` where it
is the respondent's own, and with probability `other` where it is not. Let m of n people hold the value. The number of
reports that speak for it is the sum of two binomials, Bin(m, held) + Bin(n - m, other). With each person drawn from a
population in which a proportion t holds it, it is one, Bin(n, other + t (held - other)).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from chary.accounting.numerics import least
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# By Hoeffding 7 sqrt(n) is passed with 2 exp(-98).
_SPREADS: Final = 7
# Relative error of sums of up to 90,000 probabilities, and of quantiles of beta distributions.
_SLACK: Final = 1e-9
_MOST_PEOPLE: Final = 2**50
# The variance of hashing is flat around e^epsilon + 1 groups; beyond that many a table of groups says nothing more.
_MOST_GROUPS: Final = 2**15


@dataclass(frozen=True)
class Channel:
    """The two probabilities with which a report speaks for a value.

    >>> channel = Channel(0.5, 0.25)
    >>> channel.share(500, 1000), channel.variance(0)
    (1.0, 3.0)
    """

    held: float
    other: float

    def __post_init__(self) -> None:
        if not 0 <= self.other < self.held <= 1:
            raise InvalidParameter("a report speaks for the value that is held more often than for others")

    def chance(self, share: float) -> float:
        """That a report speaks for a value which this share of people holds."""
        return self.other + share * (self.held - self.other)

    def share(self, count: int, people: int) -> float:
        """The unbiased estimate; it may lie outside [0, 1]."""
        return (count / people - self.other) / (self.held - self.other)

    def variance(self, share: float) -> float:
        """Of the estimate, times the number of people, over the randomization alone."""
        held, other = self.held * (1 - self.held), self.other * (1 - self.other)
        return (share * held + (1 - share) * other) / (self.held - self.other) ** 2

    def drawn_variance(self, share: float) -> float:
        """The same over the randomization and over which people of a population answered."""
        chance = self.chance(share)
        return chance * (1 - chance) / (self.held - self.other) ** 2

    def squared_error(self, values: int) -> float:
        """The expected squared error of the proportions of all values together, times the number of people.

        One of them is each person's own, so it is the same whatever their proportions are.
        """
        return self.variance(1) + (values - 1) * self.variance(0)

    def respondents(self, count: int, people: int, beta: Number) -> tuple[float, float]:
        """Encloses the proportion among the people who answered, with 1 - beta, by the exact distribution for every
        number of them.

        It keeps the proportions under which neither that many reports nor so few have a probability of beta/2 at most.
        """
        level = float(probability(beta, "beta")) / 2 * (1 - _SLACK)
        low = least(lambda own: 1 - self._at_most(count - 1, own, people) > level, -1, people + 1)
        high = least(lambda own: self._at_most(count, own, people) <= level, -1, people + 1) - 1
        ends = sorted((min(low, people), max(high, 0)))
        return ends[0] / people, ends[1] / people

    def population(self, count: int, people: int, beta: Number) -> tuple[float, float]:
        """Encloses the proportion in the population that the people were drawn from independently, with 1 - beta.

        The interval of Clopper and Pearson for the probability of a report, which is exact, in terms of the proportion.
        """
        level = float(probability(beta, "beta")) / 2 * (1 - _SLACK)
        low = float(scipy.stats.beta.ppf(level, count, people - count + 1)) if count else 0.0
        high = float(scipy.stats.beta.isf(level, count + 1, people - count)) if count < people else 1.0
        return self._clipped(low * (1 - _SLACK)), self._clipped(high * (1 + _SLACK))

    def width(self, share: float, people: int, beta: Number) -> float:
        """Half of how wide the interval about the population is where reports are as many as expected."""
        count = round(people * self.chance(share))
        low = float(scipy.stats.beta.ppf(float(beta) / 2, max(count, 1), people - count + 1)) if count else 0.0
        high = float(scipy.stats.beta.isf(float(beta) / 2, count + 1, max(people - count, 1)))
        return (high - low) / 2 / (self.held - self.other)

    def _clipped(self, chance: float) -> float:
        return min(1.0, max(0.0, (chance - self.other) / (self.held - self.other)))

    def _at_most(self, count: int, own: int, people: int) -> float:
        """P(count or fewer), where `own` of the people hold it; of those, counts beyond e^-98 are cut off."""
        middle, reach = own * self.held, _SPREADS * math.sqrt(own) + 1
        told = np.arange(max(0, math.floor(middle - reach)), min(own, math.ceil(middle + reach)) + 1)
        masses = scipy.stats.binom.pmf(told, own, self.held)
        return float(masses @ scipy.stats.binom.cdf(count - told, people - own, self.other))


def category_channel(values: int, epsilon: Number) -> Channel:
    """Of randomized response with k values: `e^epsilon / (e^epsilon + k - 1)` for the own one, the rest evenly.

    >>> category_channel(2, 1).held == 1 / (1 + math.exp(-1))
    True
    """
    power, others = math.exp(-float(positive(epsilon, "epsilon"))), whole(values, "values", least=2) - 1
    return Channel(1 / (1 + others * power), power / (1 + others * power))


def symmetric_channel(epsilon: Number) -> Channel:
    """Of one bit a value, each flipped with `1 / (1 + e^(epsilon/2))`."""
    power = math.exp(-float(positive(epsilon, "epsilon")) / 2)
    return Channel(1 / (1 + power), power / (1 + power))


def optimised_channel(epsilon: Number) -> Channel:
    """Of one bit a value: a one is reported truly with 1/2, and a zero wrongly with `1 / (1 + e^epsilon)`."""
    power = math.exp(-float(positive(epsilon, "epsilon")))
    return Channel(0.5, power / (1 + power))


def hashed_channel(groups: int, epsilon: Number) -> Channel:
    """Of randomized response among this many groups, into which everybody sorts the values at random."""
    return Channel(category_channel(groups, epsilon).held, 1 / whole(groups, "groups", least=2))


def best_groups(epsilon: Number) -> int:
    """The prime number of groups whose channel has the least variance for a rare value; near `e^epsilon + 1`.

    >>> best_groups(1), best_groups(3)
    (3, 23)
    """
    middle = min(math.exp(min(float(positive(epsilon, "epsilon")), 40)) + 1, _MOST_GROUPS)
    tried = [groups for groups in range(2, int(2 * middle) + 4) if _is_prime(groups)]
    return min(tried, key=lambda groups: hashed_channel(groups, epsilon).variance(0))


def people_needed(channel: Channel, *, values: int, within: Number, beta: Number, share: Number = 1) -> int:
    """How many people it takes for intervals about the population that reach `within` to either side.

    All `values` hold at once with 1 - beta; as wide as stated where as many reports come in as are expected, for every
    value of at most this `share`. It is the figure of a plan: intervals themselves hold whatever comes in.
    """
    half, most = float(positive(within, "within")), float(share)
    each = float(probability(beta, "beta")) / whole(values, "values", least=2)
    if not 0 < most <= 1:
        raise InvalidParameter("share must be above 0 and at most 1")
    widest = min(most, max(0.0, (0.5 - channel.other) / (channel.held - channel.other)))
    people = 1
    while channel.width(widest, people, each) > half:
        people *= 2
        if people > _MOST_PEOPLE:
            raise InvalidParameter("no number of people below 2**50 is enough: a larger epsilon or within is needed")
    return least(lambda fewer: channel.width(widest, fewer, each) <= half, people // 2, people)


def local_channels(values: int, epsilon: Number) -> dict[str, Channel]:
    """The channel of every form of reports, by name, each epsilon-DP: "category", "symmetric", "optimised", "hashed".

    A rare value is estimated best by "category" up to `3 e^epsilon + 2` values, and by "optimised" beyond.

    >>> forms = local_channels(10, 1)
    >>> min(forms, key=lambda name: forms[name].variance(0))
    'category'
    """
    return {
        "category": category_channel(values, epsilon),
        "symmetric": symmetric_channel(epsilon),
        "optimised": optimised_channel(epsilon),
        "hashed": hashed_channel(best_groups(epsilon), epsilon),
    }


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, math.isqrt(number) + 1))
