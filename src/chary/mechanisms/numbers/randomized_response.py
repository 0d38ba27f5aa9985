"""Randomized response: each bit is told truly with a known chance, so that the share of ones can still be estimated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure, share_interval
from chary.accounting.local_reports import Channel
from chary.errors import InvalidParameter
from chary.mechanisms.local.local_reports import About
from chary.numbers import Number, positive, probability, whole

Bits = NDArray[np.bool_]
# ln 3 = 1.098612288668109691..., rounded up in the 17th digit.
LOG_3_UP: Final = Fraction("1.09861228866810970")


@dataclass(frozen=True)
class ShareEstimate:
    """The share of ones among the `units` who answered, from their randomized answers.

    `share` is unbiased, and so may lie outside [0, 1]; `standard_error` is exactly its standard deviation over the
    randomization; `low` and `high` enclose the true share with at least the chance `confidence`, whatever the bits.
    An estimate about the population says so of the population's share.
    """

    units: int
    share: float
    standard_error: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class RandomizedResponse:
    """Answers every bit truly with probability `e^epsilon / (1 + e^epsilon)`, and otherwise with its opposite.

    Guarantee: `Pure(epsilon)` for each bit, even against whoever collects the answers; if a person has several bits,
    their epsilons add up. The chance is exact. Every answer is drawn afresh: keep it and tell it again instead of
    answering twice. Noise comes from the operating system unless a `source` is given, for tests.

    Errors: `InvalidParameter` for bits that are no Booleans, for an epsilon below 2**-40, and for an estimate
    without answers. Source: theory section 2; Warner 1965.

    >>> import numpy as np
    >>> survey = RandomizedResponse("0.5")
    >>> answers = survey.answers(np.arange(10_000) < 3000)
    >>> found = survey.estimate(answers)
    >>> round(found.standard_error, 4), abs(found.share - 0.3) < 0.2
    (0.0198, True)
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon")))

    @staticmethod
    def coins() -> "RandomizedResponse":
        """Heads: the truth; tails: what a second coin says. True with probability 3/4, which is (ln 3)-DP."""
        return CoinResponse()

    @property
    def lie(self) -> noise.Enclosure:
        """The chance of the opposite answer."""
        return noise.Enclosure.logistic(positive(self.epsilon, "epsilon"))

    @property
    def lie_chance(self) -> float:
        """The chance of the opposite answer as a float, for reports."""
        power = math.exp(-float(self.epsilon))
        return power / (1 + power)

    def answer(self, bit: bool, *, source: noise.Source | None = None) -> bool:
        """One randomized answer.

        >>> RandomizedResponse(1000).answer(True)
        True
        """
        return bool(self.answers([bit], source=source)[0])

    def answers(self, bits: Sequence[bool] | Bits, *, source: noise.Source | None = None) -> Bits:
        """One randomized answer for each bit, in their order, as a Boolean array."""
        truth = _bits(bits, "bits")
        lies = noise.bernoulli(source or noise.OperatingSystem(), self.lie, truth.size)
        return truth ^ lies

    def ones(self, yes: int, units: int, source: noise.Source) -> int:
        """How many of the randomized answers of `units` bits, `yes` of which are ones, are ones."""
        lies = noise.bernoulli(source, self.lie, whole(units, "units", least=0))
        return yes - int(np.count_nonzero(lies[:yes])) + int(np.count_nonzero(lies[yes:]))

    def estimate(
        self, answers: Sequence[bool] | Bits, confidence: Number = "0.95", *, about: About = "respondents"
    ) -> ShareEstimate:
        """The share of ones among the bits behind these answers; see `share_of` for the interval."""
        given = _bits(answers, "answers")
        return self.share_of(int(np.count_nonzero(given)), given.size, confidence, about=about)

    def share_of(
        self, ones: int, units: int, confidence: Number = "0.95", *, about: About = "respondents"
    ) -> ShareEstimate:
        """The same from the number of answers and of ones among them.

        The share is that among these units, or in the population that they were drawn from independently. Its interval
        inverts the exact law of the number of ones, for every number of units; it is never wider than what the law
        leaves open. About the population, the standard error is an estimate, and holds the error of drawing.
        """
        whole(units, "the number of answers")
        if whole(ones, "ones", least=0) > units:
            raise InvalidParameter("there cannot be more ones than answers")
        level, lie = probability(confidence, "confidence"), self.lie_chance
        share = (ones / units - lie) / (1 - 2 * lie)
        if about == "population":
            channel = Channel(1 - lie, lie)
            spread = math.sqrt(channel.drawn_variance(min(1.0, max(0.0, share))) / units)
            return ShareEstimate(units, share, spread, *channel.population(ones, units, 1 - level), float(level))
        low, high = share_interval(ones, units, lie=lie, beta=1 - level)
        spread = math.sqrt(lie * (1 - lie) / units) / (1 - 2 * lie)
        return ShareEstimate(units, share, spread, low, high, float(level))

    def event(self) -> Pure:
        """What the answer for one bit may reveal."""
        return Pure(self.epsilon)


@dataclass(frozen=True)
class CoinResponse(RandomizedResponse):
    """Randomized response with two fair coins; made by `RandomizedResponse.coins`. Its epsilon is ln 3, rounded up."""

    epsilon: Number = field(default=LOG_3_UP, init=False)

    @property
    def lie(self) -> noise.Enclosure:
        return noise.Enclosure.rational("1/4")

    @property
    def lie_chance(self) -> float:
        return 0.25


def _bits(values: Sequence[bool] | Bits, name: str) -> Bits:
    given: NDArray[Any] = np.asarray(values)
    if given.ndim != 1 or (given.dtype != np.bool_ and given.size):
        raise InvalidParameter(f"{name} must be a list or array of True and False")
    return given.astype(np.bool_, copy=False)
