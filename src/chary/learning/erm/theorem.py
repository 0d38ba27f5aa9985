"""What private empirical risk minimisation promises before there are data: static, and growing ([GROW] 3.2.1)."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from chary.accounting import zero_concentrated_rho_down
from chary.accounting.schedules import EveryRun, Law
from chary.errors import InvalidParameter
from chary.learning.erm.laws.descent_laws import descent_law
from chary.learning.erm.laws.law_numbers import TIGHT
from chary.learning.erm.laws.perturbed_laws import gaussian_law, pure_law
from chary.numbers import Number, exact, failing, positive, probability, whole

# Forty a decade; any lam gives a bound, so a grid only costs tightness.
TRIED: Final = np.geomspace(1e-12, 1e6, 721)


@dataclass(frozen=True)
class Assumptions:
    """Convex losses of `dimension` weights in a ball of this `diameter`, `lipschitz` and `smoothness` bounding the
    first and second derivative; `lam`-strongly convex with their least mean inside, if it is given.

    The losses are such everywhere: weights that get noise may leave the ball, which is what they are compared with.
    [GROW] Theorem 12 has diameter and Lipschitz constant 1 and, without the smoothness, no constants.

    Errors: `InvalidParameter` for a `lam` above the smoothness, and for what is not positive.
    """

    dimension: int
    smoothness: Number
    lam: Number | None = None
    lipschitz: Number = 1
    diameter: Number = 1

    def __post_init__(self) -> None:
        whole(self.dimension, "dimension")
        for name in ("smoothness", "lipschitz", "diameter"):
            positive(getattr(self, name), name)
        if self.lam is not None and positive(self.lam, "lam") > exact(self.smoothness, "smoothness"):
            raise InvalidParameter("lam is a lower bound of the curvature, so at most the smoothness")

    @property
    def worst(self) -> float:
        """The excess risk of the middle of the ball, for which no data are needed."""
        return float(exact(self.lipschitz, "lipschitz") * exact(self.diameter, "diameter")) / 2


def static_risk_up(assumed: Assumptions, *, size: int, epsilon: Number, beta: Number, delta: Number = 0) -> float:
    """The excess risk of one training on all rows, exceeded with probability beta at most.

    Pure: noise on the optimum, regularised by the best lam where none is assumed. With a delta: the better of Gaussian
    noise on the optimum (with a lam) and `BallDescent`, at the rho that gives (epsilon, delta). Where the
    middle of the ball promises more, that is told. In exact arithmetic: `TrainingBox.law` has what rounding adds.

    >>> ball = Assumptions(dimension=20, smoothness=1)
    >>> [round(static_risk_up(ball, size=10**6, epsilon=1, beta="0.05", delta=d), 5) for d in (0, "1e-6")]
    [0.00061, 4e-05]
    """
    rows, chance, bound = whole(size, "size"), probability(beta, "beta"), positive(epsilon, "epsilon")
    if not failing(delta):
        return min(assumed.worst, _pure_error(assumed, rows, bound, chance))
    share = math.sqrt(2 * zero_concentrated_rho_down(epsilon=bound, delta=failing(delta)))
    return min(assumed.worst, *(law.error(size=rows, epsilon=share, beta=chance) for law in boxes(assumed, chance)))


def growing_risk_up(
    assumed: Assumptions,
    *,
    start: int,
    size: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    exponent: Number = Fraction(1, 10),
) -> float:
    """The excess risk of ERMG, BBImprover over our boxes, when the data that began with `start` rows have this size.

    With probability `1 - beta` for all sizes at once; for rows that come one by one, in exact arithmetic.

    >>> ball = Assumptions(dimension=20, smoothness=1)
    >>> terms = {"start": 10**4, "epsilon": 1, "delta": "1e-6", "beta": "0.05"}
    >>> [round(growing_risk_up(ball, size=size, **terms), 3) for size in (10**6, 10**8, 10**10)]
    [0.363, 0.067, 0.012]
    """
    rho = zero_concentrated_rho_down(epsilon=positive(epsilon, "epsilon"), delta=probability(delta, "delta"))
    runs = EveryRun(whole(start, "start"), exponent, beta, rho)
    if (run := runs.last(whole(size, "size"))) is None:
        raise InvalidParameter("size must be at least start")
    return min(assumed.worst, *(runs.error(law, run) for law in boxes(assumed, runs.failure(run))))


def published_shape(
    assumed: Assumptions,
    *,
    size: int,
    epsilon: Number,
    delta: Number = 0,
    exponent: Number | None = None,
) -> float:
    """The bounds of [GROW] Table 1 UP TO CONSTANTS and logarithms of size and beta: rates to compare, no promise.

    Static of [BST14], pure and with delta; with `exponent` growing, of ERMG over the pure static algorithm. All with
    L = diameter = 1: `d/(n e)`, `sqrt(d ln(1/delta))/(n e)`, `d sqrt(ln(1/delta))/(e t^(1/2-c))`. With `lam` each is
    squared and divided by it.

    >>> ball = Assumptions(dimension=4, smoothness=1)
    >>> published_shape(ball, size=100, epsilon=1)
    0.04
    >>> round(published_shape(ball, size=100, epsilon=1, delta="0.1", exponent="0.25"), 3)
    1.919
    """
    rows, share, chance = whole(size, "size"), float(positive(epsilon, "epsilon")), float(failing(delta))
    power = 1.0 if exponent is None else 0.5 - float(positive(exponent, "exponent"))
    if exponent is not None and not (chance and power > 0):
        raise InvalidParameter("growing data are trained on under a delta, with an exponent below 1/2")
    root = math.sqrt(-math.log(chance)) if chance else 1.0
    columns = math.sqrt(assumed.dimension) if chance and exponent is None else float(assumed.dimension)
    shape = columns * root / (share * float(rows) ** power) * float(exact(assumed.lipschitz, "lipschitz"))
    found = shape * float(exact(assumed.diameter, "diameter")) if assumed.lam is None else shape**2 / _lam(assumed)
    return float(found)


def boxes(assumed: Assumptions, tight: Fraction = TIGHT) -> list[Law]:
    """The laws of our black boxes that are `epsilon^2/2`-zCDP, least at the beta `tight`; p = 1 and, with a lam, 2."""
    steep, smooth = float(exact(assumed.lipschitz, "lipschitz")), float(exact(assumed.smoothness, "smoothness"))
    norm = float(exact(assumed.diameter, "diameter")) / 2
    found = [descent_law(lipschitz=steep, smoothness=smooth, norm=norm, dimension=assumed.dimension, tight=tight)]
    if assumed.lam is not None:
        moved = 2 * steep / _lam(assumed)
        found.append(gaussian_law(moved=moved, smoothness=smooth, dimension=assumed.dimension, tight=tight))
    return found


def _pure_error(assumed: Assumptions, size: int, epsilon: Fraction, beta: Fraction) -> float:
    steep, smooth = float(exact(assumed.lipschitz, "lipschitz")), float(exact(assumed.smoothness, "smoothness"))
    norm = float(exact(assumed.diameter, "diameter")) / 2

    def error(lam: float, added: float) -> float:
        moved, base = 2 * steep / lam, added / 2 * norm**2
        law = pure_law(moved=moved, smoothness=smooth + added, dimension=assumed.dimension, base=base, tight=beta)
        return law.error(size=size, epsilon=epsilon, beta=beta)

    return error(_lam(assumed), 0.0) if assumed.lam is not None else min(error(lam, lam) for lam in TRIED.tolist())


def _lam(assumed: Assumptions) -> float:
    return float(exact(assumed.lam or 0, "lam"))
