"""Exact random integers: uniform, Bernoulli, geometric, discrete Laplace and discrete Gaussian.
Also finite distributions, and normal deviates as real numbers.

Every sampler takes a `Source` of random words first; the distributions are exact when its words are uniform, with no
rounding of parameters or probabilities. `OperatingSystem` is the source for privacy, `Seeded` is for tests only.

The time a draw takes depends on the value drawn only through rare extra words; it is not constant.

>>> from fractions import Fraction
>>> noise = discrete_laplace(OperatingSystem(), Fraction(10), 1)
>>> isinstance(add(2**80, noise), int)
True
"""

from chary.noise.choice import ExponentialLaw, FiniteLaw, RationalLaw
from chary.noise.gaussian import Deviate, deviate, discrete_gaussian, normals, reaches
from chary.noise.laplace import discrete_laplace, geometric
from chary.noise.partition import Enclosure, bernoulli
from chary.noise.source import (
    SMALLEST_SCALE,
    SMALLEST_VARIANCE,
    OperatingSystem,
    Seeded,
    Source,
    add,
    checked_scale,
    checked_variance,
    uniform_integers,
)

__all__ = [
    "SMALLEST_SCALE",
    "SMALLEST_VARIANCE",
    "Deviate",
    "Enclosure",
    "ExponentialLaw",
    "FiniteLaw",
    "OperatingSystem",
    "RationalLaw",
    "Seeded",
    "Source",
    "add",
    "bernoulli",
    "checked_scale",
    "checked_variance",
    "deviate",
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "normals",
    "reaches",
    "uniform_integers",
]
