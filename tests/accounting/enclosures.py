"""Exact accounting at a hundred digits, by ways of its own: what bounds in double precision are held against."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

BITS = 500


@contextmanager
def many_digits() -> Iterator[None]:
    """Arithmetic at 150 digits inside, and what it was afterwards."""
    before, ctx.prec = ctx.prec, BITS
    try:
        yield
    finally:
        ctx.prec = before


def number(value):
    """A rational, exactly as written."""
    fraction = Fraction(value)
    return arb(fmpq(fraction.numerator, fraction.denominator))


def coin(epsilon):
    """`p`, `r` and `p - r` of randomized response, each by a formula of its own."""
    size = number(epsilon)
    return 1 / (1 + (-size).exp()), 1 / (1 + size.exp()), (size / 2).tanh()


def curve_by_recursion(epsilon, hits, length):
    """`D_t(k)` for k < length by the recursion over hits and calls, not by the closed form."""
    p, r, gap = coin(epsilon)
    level = [arb(0)] * (length + 2 * hits + 2)
    for _ in range(hits):
        following = [(gap + r * level[1] + r * r * level[2]) / (1 - p * r)]
        for k in range(1, len(level) - 2):
            following.append(p * following[k - 1] + r * level[k + 1])
        level = [*following, arb(0), arb(0)]
    return level[:length]


def curve_by_sum(epsilon, hits, calls, terms):
    """The closed form with exact binomial coefficients, for what the recursion cannot reach."""
    p, r, gap = coin(epsilon)
    return gap * p**calls * sum(((p * r) ** n * choose(2 * n + calls, min(hits - 1, n)) for n in range(terms)), arb(0))


def composed_delta(epsilon, times, total):
    """The delta of optimal composition, all terms added up."""
    p, r, _ = coin(epsilon)
    found = arb(0)
    for i in range(times + 1):
        excess = Fraction(total) - (times - 2 * i) * Fraction(epsilon)
        if excess < 0:
            found += choose(times, i) * r**i * p ** (times - i) * -number(excess).expm1()
    return found


def choose(n, i):
    """A binomial coefficient."""
    return arb.bin_uiui(n, i)


def within(bound, truth, looseness):
    """Whether a float is not below the truth (a ball of 1e-140 of it) and not far above it."""
    return not arb(bound) < truth and bool(arb(bound) <= truth * (1 + arb(looseness)))
