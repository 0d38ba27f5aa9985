"""Finitely many laws that stand for all pairs of neighbours of a call: what its exact price is worked out from (ours).

A law is a pair of laws of one call under two neighbours, outcome by outcome: both chances, and whether it hits. What a
call adds to the best analyst's sum is convex in the pair (docs/theory.md, a menu of laws), so it is largest at one of
finitely many laws wherever all pairs of the call are mixtures of them, or tell less than mixtures do.

**Runs of one computation.** Every epsilon-DP run is a bit from randomized response that picks one of two outcomes,
drawn beforehand from no data. An analyst who is told all of those knows which strings of bits agree: none, all, one
subcube (one value can come from every run), or two opposite corners (two values can). Each is a law of its own.

**Boundary.** With b = x/(1+x) the wrapper says "boundary" with chance b, the likeliest outcome with 1 - 2b and all else
with b together. Where one outcome is the likeliest in both laws and x, y <= 1/2, (b, b') lies in the convex set
`b' <= E b / (1 + (E-1) b)`, both ways, b, b' <= 1/3. Where `f = (1-b')/(1-b)` lies between two numbers, a part of that
set cut off by two lines, what is told of the rest is a mixture of ratios within `[1/(E f), E/f]`: all is linear in
(b, b'), so the corners of a polygon around each part are enough. In all other cases b, b' >= 1/(2E+1), and the rest is
any epsilon-DP pair: randomized response, at the four corners. With two outcomes the rest is one outcome; where the
likelier one changes, `(1-x) <= E y` and `(1-y) <= E x` leave the quadrilateral with corners (1/3, 1/(2E+1)), (1/(2+E),
1/(2+E)), (1/(2E+1), 1/3), (1/3, 1/3) around (b, b').

**Narrow choice.** Its ratios lie in an interval of length epsilon that starts in one of 16 parts of [-epsilon, 0]: in
one of 16 intervals a sixteenth longer, each of which has one law of two outcomes (docs/theory.md, uneven losses).
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from typing import Final, NamedTuple

from chary.accounting.exponentials import decimal, precise

_PARTS: Final = 16
_CELLS: Final = 6


class Chances(NamedTuple):
    """One outcome: its chance under both neighbours, and whether it is a hit."""

    first: Decimal
    second: Decimal
    hit: bool


MenuLaw = tuple[Chances, ...]


def response_laws(epsilon: Fraction, *, released: bool) -> list[MenuLaw]:
    """Any epsilon-DP call: all outcomes hit, or all but one that was named before."""
    with precise():
        p, r = _response(epsilon)
        return [(Chances(p, r, released), Chances(r, p, True))]


def uneven_laws(up: Fraction, down: Fraction) -> list[MenuLaw]:
    """Any release whose log-ratios lie between -down and up."""
    with precise():
        return [_two_points((-decimal(down)).exp(), decimal(up).exp(), (True, True))]


def target_laws(epsilon: Fraction, q: Fraction) -> list[MenuLaw]:
    """Any epsilon-DP call with a q-target: the extreme points of the chances that its two atoms hit (theory 1.3)."""
    with precise():
        p, r, least = *_response(epsilon), decimal(q)
        other = (Decimal(0), least / r) if least <= r else ((least - r) / p, Decimal(1))
        return [_split(p, r, chances) for chances in ((least, least), other)]


def twice_laws(epsilon: Fraction) -> list[MenuLaw]:
    """Two runs that are both told; a hit is that they differ."""
    agreeing = [{(0, 0), (1, 1)}, {(0, 0)}, {(0, 1), (1, 0)}, {(0, 1)}]
    with precise():
        p, r = _response(epsilon)
        chance = {(0, 0): (p * p, r * r), (0, 1): (p * r, p * r), (1, 0): (p * r, p * r), (1, 1): (r * r, p * p)}
        runs = [tuple(Chances(*both, bits not in agree) for bits, both in chance.items()) for agree in agreeing]
    return runs + response_laws(epsilon, released=False)


def unanimous_laws(epsilon: Fraction, runs: int) -> list[MenuLaw]:
    """So many runs, of which only what all agree on is told; a hit is that they do not."""
    with precise():
        p, r = _response(epsilon)
        corner = [(p ** (runs - ones) * r**ones, p**ones * r ** (runs - ones)) for ones in range(runs + 1)]
        two = [_boundary_told([(one, other), (other, one)]) for one, other in corner[: runs // 2 + 1]]
        cubes = [(ones, fixed) for fixed in range(1, runs + 1) for ones in range(fixed + 1)]
        one = [_boundary_told([(p ** (n - k) * r**k, p**k * r ** (n - k))]) for k, n in cubes]
    return two + one


def narrow_laws(epsilon: Fraction) -> list[MenuLaw]:
    """A choice whose log-ratios lie in an interval of length epsilon; a hit is all but one that was named before."""
    part = epsilon / _PARTS
    with precise():
        ends = [((-decimal(part * j)).exp(), decimal(epsilon - part * (j - 1)).exp()) for j in range(1, _PARTS + 1)]
        return [_two_points(low, high, hits) for low, high in ends for hits in ((True, False), (False, True))]


def boundary_laws(epsilon: Fraction, *, tests: bool) -> list[MenuLaw]:
    """An epsilon-DP computation in the boundary wrapper, of two outcomes (`tests`) or of any number."""
    with precise():
        e = decimal(epsilon).exp()
        return list(_wrapped_tests(e) if tests else _wrapped(e))


def _response(epsilon: Fraction) -> tuple[Decimal, Decimal]:
    rare = (-decimal(epsilon)).exp()
    return 1 / (1 + rare), rare / (1 + rare)


def _two_points(low: Decimal, high: Decimal, hits: tuple[bool, bool]) -> MenuLaw:
    """The law whose two outcomes have these ratios."""
    chance = (1 - low) / (high - low)
    return Chances(chance * high, chance, hits[0]), Chances((1 - chance) * low, 1 - chance, hits[1])


def _split(p: Decimal, r: Decimal, hits: tuple[Decimal, Decimal]) -> MenuLaw:
    """Randomized response, each atom of which hits with a chance of its own."""
    atoms = [(p, r, hits[0]), (r, p, hits[1])]
    parts = [(one, other, share, hit) for one, other, part in atoms for share, hit in ((part, True), (1 - part, False))]
    return tuple(Chances(one * part, other * part, hit) for one, other, part, hit in parts if part)


def _boundary_told(agreed: list[tuple[Decimal, Decimal]]) -> MenuLaw:
    """What agrees is told and free; all else is one hit."""
    free = tuple(Chances(one, other, hit=False) for one, other in agreed)
    first, second = sum((one for one, _ in agreed), Decimal(0)), sum((other for _, other in agreed), Decimal(0))
    return *free, Chances(1 - first, 1 - second, hit=True)


def _cell(e: Decimal, low: Decimal, high: Decimal) -> list[tuple[Decimal, Decimal]]:
    """Corners of a polygon around the pairs b <= b' with `low <= (1 - b')/(1 - b) <= high`."""

    def edge(share: Decimal) -> tuple[Decimal, Decimal, Decimal]:
        """Where the curve has this share, and its slope there."""
        b = (1 - share) / (share * (e - 1))
        return b, e * share * b, e / (1 + (e - 1) * b) ** 2

    (start, first, steep), (end, second, flat) = edge(high), edge(low)
    meet = (second - first + steep * start - flat * end) / (steep - flat)
    most = 1 / Decimal(3)
    tops = [(1 - (1 - most) / share, most) for share in (low, high)]
    return [(start, first), (meet, first + steep * (meet - start)), (end, second), *tops]


def _cells(e: Decimal) -> Iterator[tuple[Decimal, Decimal, Decimal, Decimal]]:
    """Pairs (b, b'), each with the bounds of (1 - b')/(1 - b) in its cell."""
    least = (2 * e + 1) / (3 * e)
    shares = [1 - (1 - least) * place / _CELLS for place in range(_CELLS + 1)]
    for high, low in pairwise(shares):
        for b, other in _cell(e, low, high):
            if b > 0:
                yield b, other, low, high


def _wrapped_tests(e: Decimal) -> Iterator[MenuLaw]:
    for b, c, *_ in _cells(e):
        yield Chances(1 - 2 * b, 1 - 2 * c, hit=False), Chances(b, c, hit=False), Chances(b, c, hit=True)
    most, least, middle = 1 / Decimal(3), 1 / (2 * e + 1), 1 / (2 + e)
    for b, c in ((most, least), (middle, middle), (least, most), (most, most)):
        yield Chances(1 - 2 * b, c, hit=False), Chances(b, 1 - 2 * c, hit=False), Chances(b, c, hit=True)


def _wrapped(e: Decimal) -> Iterator[MenuLaw]:
    for b, c, low, high in _cells(e):
        t, s = e / low, e * high
        up, down = (max(Decimal(0), part) / (s * t - 1) for part in (s * b - c, t * c - b))
        rest = [Chances(*both, hit=False) for both in ((t * up, up), (down, s * down)) if both[0]]
        yield Chances(1 - 2 * b, 1 - 2 * c, hit=False), *rest, Chances(b, c, hit=True)
    p, r = e / (1 + e), 1 / (1 + e)
    for b, c in product((1 / Decimal(3), 1 / (2 * e + 1)), repeat=2):
        rest = [Chances((1 - b) * one, (1 - c) * other, hit=False) for one, other in ((p, r), (r, p))]
        yield *rest, Chances(b, c, hit=True)
