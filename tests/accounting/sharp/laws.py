"""Both inequalities of a sharp test in ball arithmetic, apart from the code under test."""

from fractions import Fraction

import flint

PRICES = [
    ("18", "0.19295", "0"),
    ("18", "0.19295", "0.00002"),
    ("5", "0.38428", "0"),
    ("2", "1", "1"),
    ("1.5", "3", "0"),
]
BITS = 600


def ball(value):
    value = Fraction(value)
    return flint.arb(value.numerator) / flint.arb(value.denominator)


def side(p, q, order, price, miss_price=0):
    """`(1-p)^a (1-q)^(1-a) e^(-miss price) + p^a q^(1-a) e^(-price)` of exact chances."""
    flint.ctx.prec = BITS
    a, p, q = ball(order), Fraction(p), Fraction(q)
    missed = ball(1 - p) ** a * ball(1 - q) ** (1 - a) * (-ball(miss_price)).exp()
    return missed + ball(p) ** a * ball(q) ** (1 - a) * (-ball(price)).exp()


def allowed(p, q, *prices):
    """Whether both inequalities certainly hold."""
    return bool(side(p, q, *prices) <= 1) and bool(side(q, p, *prices) <= 1)


def forbidden(p, q, *prices):
    """Whether one of them certainly does not."""
    return bool(side(p, q, *prices) > 1) or bool(side(q, p, *prices) > 1)
