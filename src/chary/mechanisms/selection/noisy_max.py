"""Report noisy max: noise for every candidate, and the one that comes out first, without its score."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.mechanisms.selection.exponential import Exponential
from chary.numbers import Number

Shape = Literal["laplace", "exponential", "gumbel"]


@dataclass(frozen=True)
class ReportNoisyMax:
    """The candidate with the largest utility plus noise of scale `2 sensitivity / epsilon`; monotone drops the 2.

    Guarantee: `Pure(epsilon)`, under the conditions of `Exponential`. Proof: keep all noise but that of the chosen
    candidate, and the order of equals. It is chosen when its noise reaches a whole number k, which moves by at most
    2 sensitivity between neighbours (monotone: by sensitivity), and `P(noise >= k) <= e^(1/scale) P(noise >= k + 1)`.

    - "laplace": discrete Laplace noise, equals told apart by a fair draw.
    - "exponential": geometric noise and a fair draw among equals. A continuous exponential variable is a geometric
      number of whole steps and an independent rest, so this is continuous noise exactly, and permute-and-flip in law.
    - "gumbel": drawn from its law, that of the exponential mechanism.

    Source: theory section 2; Ding et al. 2021 for exponential noise.

    >>> from chary.noise import OperatingSystem
    >>> ReportNoisyMax(1000, sensitivity=1).step([3, 9, 4], OperatingSystem())
    1
    """

    epsilon: Number
    sensitivity: int
    monotone: bool = False
    shape: Shape = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", self.exponential.epsilon)
        if self.shape not in get_args(Shape):
            raise InvalidParameter(f"the noise is one of {', '.join(get_args(Shape))}")
        noise.checked_scale(self.scale)

    @property
    def exponential(self) -> Exponential:
        """The exponential mechanism of the same size."""
        return Exponential(self.epsilon, self.sensitivity, self.monotone)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in steps of utility, at least 2**-10."""
        return max(noise.SMALLEST_SCALE, 1 / self.exponential.unit)

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate."""
        if self.shape == "gumbel":
            return self.exponential.step(utilities, source)
        if not len(utilities):
            raise InvalidParameter("there must be at least one candidate")
        given = utilities if isinstance(utilities, np.ndarray) else np.array(utilities, dtype=object)
        draw = noise.geometric if self.shape == "exponential" else noise.discrete_laplace
        # Sums that left int64 come back as Python ints, which compare exactly: no score is compared after rounding.
        first = largest(noise.add(given, draw(source, self.scale, len(utilities))))
        return int(first[noise.uniform_integers(source, first.size, 1)[0]])

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)


def largest(scores: Integers) -> NDArray[np.intp]:
    """The positions of all largest scores.

    >>> largest(np.array([4, 7, 7, 1])).tolist()
    [1, 2]
    """
    return np.flatnonzero(scores == scores.max())
