"""The boundary wrapper ([TCT] Algorithm 4): how private it is, and how often its target is hit at least.

A has outcome probabilities p; `x = 1 - max p`. The wrapper returns "boundary" with probability `x/(1+x)`, x cut at 1/2,
else an outcome of A. Write E = e^epsilon for A and T = e^t for the wrapper; x, y belong to neighbours, x <= y.

**Privacy (ours, exact).** `y <= E x` and `y <= 1/2`, so leaving the boundary out changes by at most
`(1+y)/(1+x) <= 3/(2 + 1/E)`, an outcome of A by E more: `t = epsilon + ln(3/(2 + 1/E)) <= 4/3 epsilon`, approached by
three outcomes of which one is rare. With two outcomes no outcome but the likelier can gain both factors, and
`t = max(epsilon, ln(3(2 - 1/E)/(2 + 1/E)))`. The latter does not hold for three outcomes.

**Target (ours, exact).** Take from both laws, outside the boundary, all that keeps the rest t-indistinguishable:
`m = (T min - max)/(T - 1)` of each outcome. The rest hits with at least `q = b/(1 - sum m)`, b = x/(1+x). With V the
total variation outside, `(T-1)(1 - sum m) = (T-1)(b + y/(1+y))/2 + (T+1) V`. If one outcome is the likeliest in both
laws, x, y <= 1/2 and r = y/x, then `V/b <= (3(r-1) + 2(E-r)/(E+1))/2 <= 3(E-1)/2`. Else `b >= 1/(2E+1)` and the bound
`V <= (1/(1+x) + 1/(1+y))(E-1)/(2E+2)` suffices. Hence `q = (T-1)/(2TE - T + E - 2)`, approached as x falls to 0 with
y = E x. It exceeds the published form `(T-1)/(2(TE - 1))`, which it equals at t = epsilon.
"""

from fractions import Fraction

from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise
from chary.accounting.rounding import rounded_down, rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, per_call, plain, whole


def boundary_epsilon_up(epsilon: Number, *, outcomes: int | None = None) -> Fraction:
    """The t for which the boundary wrapper of an epsilon-DP computation is t-DP, rounded up to 18 digits.

    `outcomes=2` is for tests; more, or None for any number, is a little more. An epsilon above 10**6 raises
    `InvalidParameter`.

    >>> [round(float(boundary_epsilon_up("0.3", outcomes=outcomes)), 6) for outcomes in (2, None)]
    [0.320818, 0.390356]
    """
    bound, tests = moderate(epsilon), outcomes is not None and whole(outcomes, "outcomes", least=2) == 2
    with precise():
        eps = decimal(bound)
        rare = (-eps).exp()
        factor = (3 / (2 + rare)).ln()
        return rounded_up(max(eps, (2 - rare).ln() + factor) if tests else eps + factor)


def boundary_q_down(epsilon: Number, *, outcomes: int | None = None) -> Fraction:
    """The q of the target "boundary" of the wrapper as a `boundary_epsilon_up`-DP call, rounded down to 18 digits.

    >>> [round(float(boundary_q_down("0.3", outcomes=outcomes)), 6) for outcomes in (2, None)]
    [0.223488, 0.256558]
    """
    bound = moderate(epsilon)
    wrapped = boundary_epsilon_up(bound, outcomes=outcomes)
    with precise():
        e, t = decimal(bound).exp(), decimal(wrapped).exp()
        return rounded_down((t - 1) / (2 * t * e - t + e - 2))


def moderate(epsilon: Number) -> Fraction:
    """An epsilon of a call whose exponential is a number of reasonable length."""
    bound = per_call(epsilon)
    if bound > LARGEST_EXPONENT:
        raise InvalidParameter(f"epsilon must be at most 10**6, got {plain(bound)}")
    return bound
