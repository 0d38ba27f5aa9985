"""Exact random integers: uniform, Bernoulli, geometric, discrete Laplace and discrete Gaussian; finite laws;
normal deviates as real numbers.

Every sampler takes a `Source` of random words first; the laws are exact when its words are uniform, with no rounding
of parameters or probabilities. `OperatingSystem` is the source for privacy, `Seeded` is for tests only.

The time a draw takes depends on the value drawn only through rare extra words; it is not constant.

>>> from fractions import Fraction
>>> noise = discrete_laplace(OperatingSystem(), Fraction(10), 1)
>>> isinstance(add(2**80, noise), int)
True
"""

from chary.noise.addition import add
from chary.noise.bernoulli import bernoulli
from chary.noise.choice import ExponentialLaw, FiniteLaw, RationalLaw
from chary.noise.enclosure import Enclosure
from chary.noise.gaussian import discrete_gaussian
from chary.noise.geometric import geometric
from chary.noise.laplace import discrete_laplace
from chary.noise.normal import Deviate, deviate, normals, reaches
from chary.noise.parameters import SMALLEST_SCALE, SMALLEST_VARIANCE, checked_scale, checked_variance
from chary.noise.source import OperatingSystem, Seeded, Source
from chary.noise.uniform import uniform_integers

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
