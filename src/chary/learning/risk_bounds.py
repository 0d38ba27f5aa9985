"""Bounds of the excess risk of private training, known before the data, static and growing (docs/theory/ermg.md)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Final, NamedTuple, Self

import numpy as np
import scipy

from chary.accounting import zero_concentrated_rho_down
from chary.accounting.numerics import decimal, precise
from chary.accounting.schedules import EveryRun, Law
from chary.errors import InvalidParameter
from chary.learning import descent, linear, optimum
from chary.numbers import Number, exact, failing, positive, probability, whole

# How far from the optimum a private model may be, as a bound that is known before the data is.

# A few float operations and SciPy's quantile, upwards. Any lam is private: a grid only costs accuracy.
RISK_MARGIN: Final = 1e-9
# How the probability is divided only costs tightness: v hardly varies where there are many columns, lam's part is
# small.
PENALTY_SHARE: Final = 0.1
VARIANCE_SHARES: Final = (0.05, 0.1, 0.2, 0.4)
LAMS: Final = [Fraction(f"{10 ** (step / 8):.4g}") for step in range(-48, 17)]


def excess_risk_up(problem: optimum.Problem, *, epsilon: Number, chance: Number, length: Number = 0) -> float:
    """The excess risk of the perturbed optimum (`delta=0`), exceeded with at most this probability.

    Moved by b from its optimum, the objective rises by `b^T A b / 2` at most, `A = c mean(x x^T) + lam`. Few columns:
    that is at most `smoothness/2 |b|^2`, and |b| is a Gamma(d) number. Many columns: b is normal with a variance v that
    is chi-squared of d + 1 degrees. Of all A of this trace the rise is greatest, in the convex order, where all rows
    are equal. So with a probability of p at most it is above the mean of the worst p of a chi-squared number. The proof
    is in docs/theory/ermg.md. v, that number and lam's part each take a part of the probability. A cell's middle and
    the audited optimum come on top. With `length` it is the bound for the mean loss itself, against the best weights
    that are no longer than this, and so is larger by `lam/2 length^2`. Errors: `InvalidParameter`.

    >>> from chary.learning.optimum import Problem
    >>> from chary.learning.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1, 100), size=100_000, features=5)
    >>> round(excess_risk_up(problem, epsilon=1, chance="0.05"), 6)
    4.4e-05
    """
    failing, compared = float(probability(chance, "chance")), exact(length, "length")
    if compared < 0:
        raise InvalidParameter("length must be at least 0")
    scale = problem.sensitivity / positive(epsilon, "epsilon")
    off = float(problem.tolerance / problem.lam) + math.sqrt(problem.features) / 2 * float(optimum.grid_for(scale))
    noise = float(scale) * math.sqrt(2 * _rise(problem, failing))
    penalty = float(problem.lam * compared**2) / 2 + float(problem.loss.bias if compared else 0)
    # The root of b^T A b is a norm, so what comes on top adds to it.
    return ((noise + math.sqrt(float(problem.smoothness)) * off) ** 2 / 2 + penalty) * (1 + RISK_MARGIN)


def _rise(problem: optimum.Problem, failing: float) -> float:
    """`v b^T A b / 2` for normal b, exceeded with this probability at most."""
    lam, degrees = float(problem.lam), problem.features
    trace = float(problem.smoothness) - lam

    def bound(variance: float) -> float:
        spread = scipy.stats.chi2.isf(failing * variance, degrees + 1)
        tail = failing * (1 - variance - PENALTY_SHARE)
        worst = scipy.stats.chi2.sf(scipy.stats.chi2.isf(tail, 1), 3) / tail
        return float(spread * (trace * worst + lam * scipy.stats.chi2.isf(failing * PENALTY_SHARE, degrees)) / 2)

    plain = float(problem.smoothness) / 2 * float(scipy.stats.gamma.isf(failing, degrees)) ** 2
    return min(plain, *map(bound, VARIANCE_SHARES))


def choose_lam(problem: optimum.Problem, *, epsilon: Number, chance: Number, length: Number) -> Fraction:
    """The regularisation whose `excess_risk_up` for the mean loss is least, of eight a decade from 1e-6 to 100.

    It depends on public numbers only, so it costs nothing; the `lam` of the problem given does not matter.

    >>> from chary.learning.optimum import Problem
    >>> from chary.learning.losses import Logistic
    >>> problem = Problem(Logistic(), radius=Fraction(1), lam=Fraction(1), size=100_000, features=5)
    >>> float(choose_lam(problem, epsilon=1, chance="0.05", length=2))
    0.001778
    """
    positive(length, "length")
    found = {}
    for lam in LAMS:
        try:
            found[lam] = excess_risk_up(replace(problem, lam=lam), epsilon=epsilon, chance=chance, length=length)
        except InvalidParameter:
            continue
    return min(found, key=lambda lam: found[lam])


# The accuracy bound of a training as a black box: which theorem a model falls under, and what rounding adds to it.


class Perturbed(NamedTuple):
    """`n` times how far an optimum moves, what comes on top in units of the noise, and what remains for ever.

    `n` times the sensitivity, and the tolerance times n, rise with n: what holds for most rows holds for fewer. The
    slack is half a cell's diagonal, and the distance of the audited from the true optimum.
    """

    moved: float
    slack: float
    base: float

    @classmethod
    def of(cls, problem: optimum.Problem, model: linear.PrivateLinear, most_epsilon: int) -> Self:
        """`most_epsilon`: where a unit of the noise is least."""
        moved = float(problem.sensitivity) * problem.size
        audited = float(problem.tolerance / problem.lam) * problem.size
        slack = math.sqrt(problem.features) / 2048 + most_epsilon * audited / moved
        length = 0.0 if model.length is None else float(Fraction(model.length))
        return cls(moved, slack, float(problem.lam) / 2 * length**2)


def box_law(problem: optimum.Problem, model: linear.PrivateLinear, most_epsilon: int) -> Law:
    """The distribution of a model at the most rows that it is for; `InvalidParameter` where none is proven."""
    if model.points is not None:
        return _drawn(problem, model.points)
    if model.descends:
        return _descent(problem, model.steps)
    noise = Perturbed.of(problem, model, most_epsilon)
    if problem.loss.bias and model.length is not None:
        return _sloped(problem, noise, pure=model.rho is None)
    made = linear_pure_law if model.rho is None else linear_gaussian_law
    steepest, lam = float(problem.smoothness), float(problem.lam)
    found = made(steepest=steepest, lam=lam, dimension=problem.features, **noise._asdict())
    return min(found, earlier_box_law(problem, model, most_epsilon), key=_tight)


def earlier_box_law(problem: optimum.Problem, model: linear.PrivateLinear, most_epsilon: int) -> Law:
    """The distribution that the same box had before its noise's direction, and descent's distance, were accounted
    for."""
    if model.descends:
        base = descent_rounding(problem) + float(problem.lam * (problem.length or 0) ** 2) / 2
        return earlier_descent_law(problem, most_steps=model.steps, base=base)
    noise = Perturbed.of(problem, model, most_epsilon)._asdict()
    made = pure_law if model.rho is None else gaussian_law
    return made(smoothness=float(problem.smoothness), dimension=problem.features, **noise)


def _tight(law: Law) -> float:
    return law.error(size=1, epsilon=1, beta=TIGHT)


def _sloped(problem: optimum.Problem, noise: Perturbed, *, pure: bool) -> Law:
    """The mean loss with its corners: it is steep nowhere, however much the smooth one bends there."""
    steep, base = float(problem.lipschitz), noise.base + float(problem.loss.bias)
    told = {"moved": noise.moved, "slope": steep, "slack": noise.slack, "base": base}
    return linear_slope_law(pure=pure, dimension=problem.features, **told)


def _drawn(problem: optimum.Problem, points: int) -> Law:
    """Weights drawn from a lattice: the exponential mechanism's `4 L W ln(N/beta)/(epsilon n)` above its best point.

    Rounding the best weights towards 0 leads to a point within a cell's diagonal. Losses are rounded to steps, and rows
    towards 0, which moves a prediction by as much at both ends.
    """
    made, root = descent.DrawnWeights(problem, points), math.sqrt(problem.features)
    most, rounding = float(made.most), 2.0 ** (2 - descent.LOSS_BITS) + root * 2.0 ** (1 - descent.LATTICE_BITS)
    off = float(problem.lipschitz) + float(problem.lam * problem.norm)
    base = off * made.spacing * root + most * rounding + float(problem.loss.bias)
    base += float(problem.lam * (problem.length or 0) ** 2) / 2
    return law_up(1, 4 * most, Decimal(len(made.lattice)), 1, base)


def _descent(problem: optimum.Problem, steps: int) -> Law:
    if problem.length is None:
        raise InvalidParameter(
            "no accuracy bound is proven for momentum: give the model length= (or steps=0), or the box declared="
        )
    base = descent_rounding(problem) + float(problem.lam * problem.length**2) / 2 + float(problem.loss.bias)
    steep, smooth, norm = (float(bound) for bound in (problem.lipschitz, problem.smoothness, problem.norm))
    return descent_law(
        lipschitz=steep, smoothness=smooth, norm=norm, dimension=problem.features, most_steps=steps, base=base
    )


# Accuracy bounds of a linear model's optimum with noise: the number of columns matters little (docs/theory/ermg.md).
#
# The objective is `mean(l(x.w)) + lam/2 |w|^2` with rows x no longer than R: moved by b from its optimum it rises by
# `b^T A b / 2` at most, where `A = c mean(x x^T) + lam` has the trace `c R^2 + d lam` at most. Noise has no direction,
# and of all such A the worst is that of equal rows, which only one direction of the noise moves.

# a - 1, four a factor of ten: neighbours differ by far more than float64 errs, so every machine finds the same.
FACTORS: Final = [1 + Fraction(f"{10 ** (step / 24):.4g}") for step in range(-72, 60)]


def linear_gaussian_law(
    *, moved: float, steepest: float, lam: float, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Gaussian noise of deviation `moved / (epsilon n)`, and curvature `steepest` in one direction, lam in others.

    `b^T A b / 2` is above `a M sigma^2 (s - ln(1-1/a)/2 - (d-1)/2 ln(1-lam/(a M)))` with probability e^-s at most, for
    every a > 1, with M = `steepest`; p = 2. `slack` as in `gaussian_law`.

    >>> law = linear_gaussian_law(moved=2, steepest=1, lam=0.001, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 7)
    2.07e-05
    """
    a, height = _form(steepest, lam, dimension)
    factor = moved**2 * a * steepest * (1 + slack)
    return law_up(2, factor, exp_up(height + slack / (2 * a)), Fraction(1, 2), base)


def linear_pure_law(
    *, moved: float, steepest: float, lam: float, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Noise of density `exp(-epsilon n |b| / moved)`, and curvature as in `linear_gaussian_law`: p = 2.

    b is normal with a variance that is chi-squared of d + 1 degrees; each of the two gets half of the failures.

    >>> law = linear_pure_law(moved=2, steepest=1, lam=0.001, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 5)
    0.00382
    """
    a, height = _form(steepest, lam, dimension)
    wide, spread = _chi_squared(dimension + 1)
    half, choices = _product(height + math.log(2) + slack, spread + math.log(2))
    return law_up(2, moved**2 * a * steepest * 2 * wide * half**2 * (1 + slack), choices, 1, base)


def linear_slope_law(
    *, moved: float, slope: float, pure: bool, dimension: int, slack: float = 0, base: float = 0
) -> Law:
    """Either noise, for a mean loss whose rows' losses rise by `slope` at most per unit of w: p = 1, corners or not.

    The mean of `|x.b|` over rows is above `slope sigma sqrt(2 ln(2/beta))` with probability beta at most: its moments
    are those of one row at most. `base` holds `lam/2 length^2`, for the mean loss against all weights of that length.

    >>> law = linear_slope_law(moved=2, slope=1, pure=False, dimension=75)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 5)
    0.00572
    """
    if not pure:
        return law_up(1, moved * slope * (math.sqrt(2) + slack), Decimal(2), Fraction(1, 2), base)
    wide, spread = _chi_squared(dimension + 1)
    half, choices = _product(2 * math.log(2), spread + math.log(2))
    return law_up(1, moved * slope * (math.sqrt(4 * wide) + slack) * half, choices, 1, base)


def _form(steepest: float, lam: float, dimension: int) -> tuple[float, float]:
    """a, and what is added to s, least at `TIGHT`."""
    return least(lambda a: -(math.log1p(-1 / a) + (dimension - 1) * math.log1p(-lam / (a * steepest))) / 2)


def _chi_squared(degrees: int) -> tuple[float, float]:
    """a and m where chi-squared of these degrees is above `2 a (s + m)` with probability e^-s at most."""
    return least(lambda a: -degrees / 2 * math.log1p(-1 / a))


def least(height: Callable[[float], float]) -> tuple[float, float]:
    """The a whose `a (s + height(a))` is least at `TIGHT`, and its height."""
    a = min(map(float, FACTORS), key=lambda a: a * (_at() + height(a)))
    return a, height(a)


def _product(one: float, other: float) -> tuple[float, Decimal]:
    """f and m where `sqrt(s + one) sqrt(s + other)` is at most `f ln(m e^s)`: `x y` is at most `((k x + y/k)/2)^2`."""
    k = math.sqrt((_at() + other) / (_at() + one))
    return (k + 1 / k) / 2, exp_up((k * one + other / k) / (k + 1 / k))


def _at() -> float:
    return math.log(TIGHT.denominator)


def exp_up(value: float) -> Decimal:
    """`e^v`, to be rounded up by `law_up`."""
    with precise():
        return decimal(Fraction(value)).exp()


# Accuracy bounds that boxes had in earlier versions: ledgers hold them, and their schedules go on.

# What descent was when it had this accuracy bound: at least this many steps, none longer than 1/(4 M).
LEAST: Final = 64
DAMPED: Final = 4


def earlier_descent_law(problem: optimum.Problem, *, most_steps: int, base: float) -> Law:
    """`2 L W (C0 + C1 r + C2 r^2)/(epsilon n)`, `r^2 = ln(2/beta)`, and `4 M W^2/(T (T+1))` (after Lan 2012)."""
    steep, smooth, norm = (float(bound) for bound in (problem.lipschitz, problem.smoothness, problem.norm))
    first, root, rest = _terms(problem.features, min(LEAST, most_steps))
    at = -math.log(float(TIGHT / 2))
    slope = root / (2 * math.sqrt(at)) + rest
    height = math.log(2) + (first + root * math.sqrt(at) / 2) / slope
    rounding = 1 + (math.sqrt(problem.features) + 1) / 2**15
    remains = DAMPED * smooth * norm**2 / (most_steps * (most_steps + 1))
    with precise():
        choices = Decimal(height).exp()
    return law_up(1, 2 * steep * norm * slope * rounding, choices, 1, base + remains)


def _terms(dimension: int, steps: int) -> tuple[float, float, float]:
    """C0, C1, C2 for all numbers of steps from `steps` on."""
    first, root = 2 * math.sqrt(2 * dimension / 3), 4 * math.sqrt(steps) / (steps + 1) + 4 * math.sqrt(2 / 3)
    rest = 4 * math.sqrt(3 / dimension) * steps / ((steps + 1) * math.sqrt((steps + 1) * (2 * steps + 1)))
    return first, root, rest


# Accuracy bounds with their numbers rounded up to few digits, so that an accuracy bound is the same on every machine.

# Accuracy bounds hold at every probability; at this one, which a late run of a schedule has, they are as tight as the
# exact tail.
TIGHT: Final = Fraction(1, 10**9)
# A few float operations, upwards, and twelve digits.
MARGIN: Final = 1e-6
DIGITS: Final = 12


def law_up(power: Number, factor: float, choices: Decimal, log_power: Number, base: float) -> Law:
    """The distribution with its numbers rounded up.

    >>> law_up(1, 0.1, Decimal(3), 1, 0).choices
    Fraction(4, 1)
    """
    return Law(power, number_up(factor), _whole_up(choices), log_power, number_up(base) if base else 0)


def number_up(value: float) -> Fraction:
    """A little more than the number, with few digits; the margin covers the roundings of float64 in it."""
    return Fraction(f"{value * (1 + MARGIN):.{DIGITS}g}")


def _whole_up(value: Decimal) -> int:
    return int(((1 + Decimal(MARGIN)) * value).to_integral_value(ROUND_CEILING))


# What private empirical risk minimisation promises before there are data: static, and growing ([GROW] 3.2.1).

# Forty a decade; any lam gives a bound, so a grid only costs tightness.
FINE_LAMS: Final = np.geomspace(1e-12, 1e6, 721)


@dataclass(frozen=True)
class Assumptions:
    """Convex losses of `dimension` weights in a ball of this `diameter`. `lipschitz` and `smoothness` bound the first
    and second derivative. They are `lam`-strongly convex with their least mean inside, if it is given.

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

    @property
    def bounds(self) -> tuple[float, float, float]:
        """L, M and the radius of the ball."""
        diameter = float(exact(self.diameter, "diameter"))
        return float(exact(self.lipschitz, "lipschitz")), float(exact(self.smoothness, "smoothness")), diameter / 2


def static_risk_up(assumed: Assumptions, *, size: int, epsilon: Number, beta: Number, delta: Number = 0) -> float:
    """The excess risk of one training on all rows, exceeded with probability beta at most.

    Pure: noise on the optimum, regularised by the best lam where none is assumed. With a delta: the better of Gaussian
    noise on the optimum (with a lam) and `BallDescent`, at the rho that gives (epsilon, delta). Where the
    middle of the ball promises more, that is reported. In exact arithmetic: `TrainingBox.law` has what rounding adds.

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


def boxes(assumed: Assumptions, tight: Fraction = TIGHT) -> list[Law]:
    """The distributions of our black boxes that are `epsilon^2/2`-zCDP, least at the beta `tight`; p = 1 and, with a
    lam, 2."""
    steep, smooth, norm = assumed.bounds
    found = [descent_law(lipschitz=steep, smoothness=smooth, norm=norm, dimension=assumed.dimension, tight=tight)]
    if assumed.lam is not None:
        moved = 2 * steep / _lam(assumed)
        found.append(gaussian_law(moved=moved, smoothness=smooth, dimension=assumed.dimension, tight=tight))
    return found


def _pure_error(assumed: Assumptions, size: int, epsilon: Fraction, beta: Fraction) -> float:
    steep, smooth, norm = assumed.bounds

    def error(lam: float, added: float) -> float:
        moved, base = 2 * steep / lam, added / 2 * norm**2
        law = pure_law(moved=moved, smoothness=smooth + added, dimension=assumed.dimension, base=base, tight=beta)
        return law.error(size=size, epsilon=epsilon, beta=beta)

    return error(_lam(assumed), 0.0) if assumed.lam is not None else min(error(lam, lam) for lam in FINE_LAMS.tolist())


def _lam(assumed: Assumptions) -> float:
    return float(exact(assumed.lam or 0, "lam"))


# Accuracy bounds of an optimum that gets noise, for any convex smooth objective (docs/theory/ermg.md).
#
# Each is a `Law`: with probability 1 - beta the excess is at most `base + c (ln(m/beta)^q/(epsilon n))^p`, for every
# epsilon, size and beta up to 1/2. c and m are a tangent to the exact tail, which touches it where beta is `TIGHT`.


def pure_law(
    *, moved: float, smoothness: float, dimension: int, slack: float = 0, base: float = 0, tight: Fraction = TIGHT
) -> Law:
    """An optimum that moves by at most `moved / n`, with noise of density `exp(-epsilon n |b| / moved)`: p = 2.

    A smooth objective is at most `smoothness/2 |w - w*|^2` above its least value. The noise is `moved / (epsilon n)`
    times a Gamma(d) number, which is at least `a (s + d ln(a/(a-1)))` with probability e^-s at most, for every a > 1
    (Chernoff). `slack` is what may come on top of it, in the same unit.

    >>> law = pure_law(moved=2, smoothness=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 6)
    0.000444
    """
    a = _tangent(dimension, tight)
    factor = smoothness / 2 * (float(a) * moved) ** 2
    return law_up(2, factor, _choices(dimension, a, slack / float(a)), 1, base)


def gaussian_law(
    *, moved: float, smoothness: float, dimension: int, slack: float = 0, base: float = 0, tight: Fraction = TIGHT
) -> Law:
    """An optimum that moves by at most `moved / n`, with Gaussian noise of deviation `moved / (epsilon n)`: p = 2.

    Half the square of the noise's length is a Gamma(d/2) number; a slack r makes the square of chi + r at most
    `(1 + r) (chi^2 + r)`.

    >>> law = gaussian_law(moved=2, smoothness=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 6)
    4e-05
    """
    a = _tangent(dimension / 2, tight)
    factor = smoothness / 2 * moved**2 * 2 * float(a) * (1 + slack)
    return law_up(2, factor, _choices(dimension / 2, a, slack / (2 * float(a))), Fraction(1, 2), base)


def _tangent(shape: float, tight: Fraction) -> Fraction:
    """The a > 1 for which `a (s + shape ln(a/(a-1)))` is least at `s = -ln(tight)`: x/(x - shape) where
    `x = shape + s + shape ln(x/shape)`; any a will do.
    """
    s = math.log(tight.denominator) - math.log(tight.numerator)
    x = shape + s
    for _ in range(100):
        x = shape + s + shape * math.log(x / shape)
    return max(Fraction("1.001"), Fraction(f"{x / (x - shape):.5g}"))


def _choices(shape: float, a: Fraction, more: float) -> Decimal:
    """`(a/(a-1))^shape e^more`."""
    with precise():
        return (Decimal(shape) * decimal(a / (a - 1)).ln() + Decimal(more)).exp()


# The accuracy bound of descent in a ball, proven in docs/theory/ermg.md for its rate, its weights and its noise.

# A hundredth apart, or a fifth: neighbours differ by far more than float64 errs, so every machine finds the same.
TILTS: Final = [*(1.2**-step for step in range(26, 90)), *(step / 100 for step in range(1, 100))]
# What is added to a logarithm is stored as a power of e, which has to stay a number: many columns take a smaller t.
MOST_HEIGHT: Final = 700


def descent_law(
    *,
    lipschitz: float,
    smoothness: float,
    norm: float,
    dimension: int,
    most_steps: int | None = None,
    base: float = 0,
    tight: Fraction = TIGHT,
) -> Law:
    """`BallDescent` in a ball of radius W = `norm`: `2.12 L W (s + E)/(t sqrt(d) epsilon n)`, s = ln(1/beta), p = 1.

    `E = d/2 (t'/(1-t) - ln(1-t))`, `t' = (1 + 1/8) t`, for every t below 1; it is the t that is best where beta is
    `tight`. If at most T steps are taken, `3.6 M W^2/((1-t) T^2)` remains.

    >>> law = descent_law(lipschitz=1, smoothness=1, norm=1, dimension=5)
    >>> round(law.error(size=1000, epsilon=1, beta="0.05"), 4)
    0.0173
    """
    s = math.log(tight.denominator) - math.log(tight.numerator)
    low = [t for t in TILTS if descent_height(dimension, t) <= MOST_HEIGHT]
    t = min(low, key=lambda t: (s + descent_height(dimension, t)) / t)
    rounding = 1 + (math.sqrt(dimension) + 1) / 2**15
    factor = 2 * lipschitz * norm * math.sqrt(descent.AVERAGING) * rounding / (t * math.sqrt(dimension))
    remains = 0.0 if most_steps is None else smoothness * norm**2 / (descent.PROGRESS * most_steps**2) / (1 - t)
    with precise():
        choices = Decimal(descent_height(dimension, t)).exp()
    return law_up(1, factor, choices, 1, base + remains)


def descent_height(dimension: int, t: float) -> float:
    """E of the distribution: what the start, the curvature and the squares of the noise add to s."""
    return dimension / 2 * ((1 + 2 * descent.CURVED_SHARE) * t / (1 - t) - math.log1p(-t))


def descent_rounding(problem: optimum.Problem) -> float:
    """What rounding rows, slopes and weights to integers adds to the excess risk of `BallDescent` at most.

    Rows that move by `R sqrt(d) 2^-20` change a loss by the slope times W times that, at both ends. A gradient that is
    off by x changes every step's part of the proof by `2 W x` at most.
    """
    norm, radius = float(problem.norm), float(problem.radius)
    root, lipschitz = math.sqrt(problem.features), float(problem.lipschitz)
    rows = 2 * lipschitz * norm * root / 2**descent.FINE_ROWS
    weights = float(problem.loss.curvature) * radius**2 * root * norm / float(2 ** (descent.FINE_WEIGHTS + 1))
    slopes = lipschitz / float(2 ** (descent.FINE_SLOPES + 1))
    return rows + 2 * norm * (slopes + weights)
