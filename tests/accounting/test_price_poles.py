"""Prices just below the order at which there is none any more, where nearly all digits cancel: still rounded up."""

from decimal import MAX_EMAX, MIN_EMIN, Context, localcontext
from fractions import Fraction

import pytest

from chary.accounting import Targeted, hit_price_up, narrow_price_up, twice_price_up
from chary.accounting.numerics import decimal

LONG = Context(prec=200, Emax=MAX_EMAX, Emin=MIN_EMIN)
SIZES = [Fraction(1, 10**15), Fraction(1, 10**6), Fraction(1, 50), Fraction(1), Fraction(5), Fraction(30), Fraction(60)]


def hit(a, eps):
    """The two parts of `e^price`, the second of which is 0 at the pole."""
    return ((1 - a) * eps).exp(), 1 + eps.exp() - (a * eps).exp()


def twice(a, eps):
    e = eps.exp()
    return 2 * e, (1 + e) ** 2 - (2 * a * eps).exp() - ((2 - 2 * a) * eps).exp()


def narrow(a, eps):
    return (-a * eps).exp(), 1 - a * (1 - (-eps).exp())


KINDS = {
    "hit": (hit, lambda eps, a: hit_price_up(Targeted(eps), a)),
    "twice": (twice, twice_price_up),
    "narrow": (narrow, narrow_price_up),
}


def pole(odds, eps):
    """The order at which what is left passes 0, to a hundred digits more than any test needs."""
    low, high = Fraction(1), Fraction(1) + Fraction(1000) / min(eps, 1)
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if odds(decimal(middle), decimal(eps))[1] > 0 else (low, middle)
    return low


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eps", SIZES)
def test_a_price_is_above_the_truth_however_near_its_pole(kind, eps):
    odds, price = KINDS[kind]
    with localcontext(LONG):
        critical, found = pole(odds, eps), 0
        for digits in range(2, 60, 2):
            for part in (1, 3, 7):
                order = critical - Fraction(part, 10**digits) * (critical - 1)
                told, (gained, left) = price(eps, order), odds(decimal(order), decimal(eps))
                if told is not None:
                    found += 1
                    assert left > 0
                    assert decimal(told) >= (gained / left).ln()
        assert found > 3 or eps == SIZES[-1]


@pytest.mark.parametrize("missing", ["1e-3", "1e-18", "1e-40", "1e-60"])
def test_nearly_sure_targets_are_priced_above_the_truth(missing):
    """The chance of a miss is told from 0 also where 60 digits of q do not."""
    eps, lost = Fraction(60), Fraction(missing)
    with localcontext(LONG):
        for order in (Fraction(3, 2), Fraction(2), Fraction(5, 2), Fraction(3)):
            told = hit_price_up(Targeted(eps, q=1 - lost), order)
            a, e = decimal(order), decimal(eps)
            u = 1 - decimal(lost) * (1 + (-e).exp())
            low, high = ((1 - a) * e).exp(), (a * e).exp()
            left = 1 + e.exp() - (1 - u) * high
            if told is not None:
                assert left > 0
                assert decimal(told) >= ((u * high + low) / left).ln()
