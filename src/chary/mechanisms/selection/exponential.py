"""The exponential mechanism: one of many candidates, the more useful the likelier."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from chary import noise
from chary.accounting import Pure
from chary.mechanisms.additive import Integers
from chary.numbers import Number, positive, probability, whole


@dataclass(frozen=True)
class Exponential:
    """Chooses j with `P(j)` exactly proportional to `exp(epsilon u_j / (2 sensitivity))`; monotone drops the 2.

    Guarantee: `Pure(epsilon)`, if every utility changes by at most `sensitivity` (whole steps) between neighbours, and
    the candidates do not depend on data. `monotone` says that all utilities change in the same direction, as counts of
    added units do; it is not checked.

    Utilities are integers of any size and sign, one a candidate; only differences matter.

    Source: theory section 2; McSherry, Talwar 2007.

    >>> chooser = Exponential("0.1", sensitivity=1)
    >>> [round(p, 4) for p in chooser.law([100, 120, 60]).probabilities()]
    [0.2595, 0.7054, 0.0351]
    >>> round(chooser.shortfall(3, 0.01), 1)
    114.1
    """

    epsilon: Number
    sensitivity: int
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Pure(self.epsilon).epsilon)
        object.__setattr__(self, "sensitivity", whole(self.sensitivity, "sensitivity"))

    @property
    def outcomes(self) -> None:
        """Any number of candidates."""
        return None

    @property
    def unit(self) -> Fraction:
        """The exponent of a step of utility."""
        return positive(self.epsilon, "epsilon") / (self.sensitivity * (1 if self.monotone else 2))

    def law(self, utilities: Sequence[int] | Integers) -> noise.FiniteLaw:
        """The exact law of the choice. It depends on data: for drawing and for reports about made-up data only."""
        return noise.ExponentialLaw(utilities, -self.unit)

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate."""
        return self.law(utilities).draw(source)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)

    def shortfall(self, candidates: int, beta: Number) -> float:
        """The utility that is lost at most, with probability 1 - beta: `(2 sensitivity/epsilon) ln(candidates/beta)`.

        >>> Exponential(1, sensitivity=1, monotone=True).shortfall(1, "0.5")
        0.693147...
        """
        return math.log(whole(candidates, "candidates") / probability(beta, "beta")) / float(self.unit)
