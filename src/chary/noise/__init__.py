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

from chary.noise.gaussian import Deviate as Deviate
from chary.noise.gaussian import deviate as deviate
from chary.noise.gaussian import discrete_gaussian as discrete_gaussian
from chary.noise.gaussian import normals as normals
from chary.noise.gaussian import reaches as reaches
from chary.noise.laplace import discrete_laplace as discrete_laplace
from chary.noise.laplace import geometric as geometric
from chary.noise.partition import Enclosure as Enclosure
from chary.noise.partition import ExponentialLaw as ExponentialLaw
from chary.noise.partition import FiniteLaw as FiniteLaw
from chary.noise.partition import RationalLaw as RationalLaw
from chary.noise.partition import bernoulli as bernoulli
from chary.noise.source import SMALLEST_SCALE as SMALLEST_SCALE
from chary.noise.source import SMALLEST_VARIANCE as SMALLEST_VARIANCE
from chary.noise.source import OperatingSystem as OperatingSystem
from chary.noise.source import Seeded as Seeded
from chary.noise.source import Source as Source
from chary.noise.source import add as add
from chary.noise.source import checked_scale as checked_scale
from chary.noise.source import checked_variance as checked_variance
from chary.noise.source import uniform_integers as uniform_integers
