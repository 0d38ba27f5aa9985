"""How often the targets of [TCT] are hit at least: between two thresholds, and two runs that differ.

Write E = e^epsilon. The best q of a target T in a pair of laws is `min P(T) / (1 - sum of m outside T)` with
`m = (E min - max)/(E - 1)`: m is all that both laws can shed of an outcome and stay epsilon-indistinguishable.

**Between.** Noise with `P(k) ~ r^|k|`, `r^-s = E`, a zone of w steps, values v < v + d, d <= s. By symmetry let v be at
least as far from the middle of the zone. If v <= low then `P_v(T) = (1 - r^w) G`, G the chance of reaching the
zone, and shedding below it alone leaves `(E G' - G)/(E - 1)`, G' <= E G of the neighbour: q is at least
`(1 - r^w)(E - 1)/(E^2 - 1)`, attained for v + s <= low. Otherwise both values lie in the zone and already
`P(T) >= (1 - r^w)/(1 + r)`.

**Twice.** Let s be the chance that two runs under one law differ, s' >= s under the other, W the sum of p^2 - p'^2 over
the outcomes where it is positive, V that of |p^2 - p'^2|. Shedding equal pairs leaves D/(E^2 - 1) with
`D = (E^2-1) s + (E^2+1) W - (s' - s) = (E^2-1)(s + s')/2 + (E^2+1) V/2`, and D <= (E^2-1) s + 2 E^2 (E-1) s is wanted.
By `|p - p'| <= (E-1) min(p, p', 1-p, 1-p')`, `V <= (E-1)(s + s' - (s' - s)/(E+1))`, which with s' <= E s suffices where
E^3 <= E^2 + E + 1; and `W <= (E-1)(1 + (E+1)/(2 E^2)) s`, since the likeliest outcome has at most half of
s = sum of p(1-p), suffices for E >= 1.8.
"""

from fractions import Fraction

from chary.accounting.charging.boundary_sizes import moderate
from chary.accounting.exponentials import decimal, precise
from chary.accounting.rounding import rounded_down
from chary.numbers import Number, whole

# Below it x/(1+x) bounds 1 - exp(-x) from below, to a part of x/2; above it the difference loses 20 of 60 digits.
_LINEAR = Fraction(1, 10**20)


def between_q_down(epsilon: Number, *, width: int, sensitivity: int) -> Fraction:
    """The q of the target "low <= value + noise < high" under discrete Laplace noise of scale sensitivity/epsilon.

    `width = high - low` and the sensitivity of the value are in grid steps. It is
    `(1 - exp(-width epsilon / sensitivity)) / (e^epsilon + 1)`, rounded down to 18 digits, and attained whenever both
    neighbours are at or below `low` and differ by the whole sensitivity. The outcomes are low, between and high only.
    An epsilon above 10**6, or a width or sensitivity below 1, raises `InvalidParameter`.

    >>> round(float(between_q_down("0.1", width=30, sensitivity=1)), 6)
    0.451371
    """
    bound = moderate(epsilon)
    exponent = whole(width, "width") * bound / whole(sensitivity, "sensitivity")
    with precise():
        share = decimal(exponent / (1 + exponent)) if exponent < _LINEAR else 1 - (-decimal(exponent)).exp()
        return rounded_down(share / (decimal(bound).exp() + 1))


def twice_q_down(epsilon: Number) -> Fraction:
    """The q of the target "two runs of an epsilon-DP computation differ", a 2 epsilon-DP call, rounded down.

    It is `1 / (1 + 2 e^(2 epsilon) / (e^epsilon + 1))`, to 18 digits. An epsilon above 10**6 raises `InvalidParameter`.

    >>> round(float(twice_q_down("0.1")), 6)
    0.462881
    """
    with precise():
        e = decimal(moderate(epsilon)).exp()
        return rounded_down(1 / (1 + 2 * e * e / (e + 1)))
