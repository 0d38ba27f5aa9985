"""Where an interval ends that is valid given that the value was published: truths that make the value too rare."""

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.exponentials import precise
from chary.accounting.inference.masses import Mass, level_down, share_up
from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.inference.supports import End, Piece, Support

# No truth of 64 bits is farther from a value that was published; a search ends there with "no end", which is wider.
_FARTHEST: Final = 2**66
_LEAST: Final = 1e-12
_COARSE: Final = Context(prec=12, Emax=MAX_EMAX, Emin=MIN_EMIN)


def tail_up(noise: NoiseLaw, support: Support, first: int, truth: int) -> Decimal:
    """`P(V >= first | V in the support)` for V = truth + noise, rounded up; call inside `precise`.

    It rises with the truth, which is what all else here rests on (docs/theory.md, "Given that it was published").
    """

    def masses(pieces: list[Piece]) -> list[Mass]:
        return [mass for low, high in pieces for mass in noise.masses(_less(low, truth), _less(high, truth))]

    return share_up(masses(support.cut(first, None)), masses(support.cut(None, first - 1)))


def lower_end(noise: NoiseLaw, support: Support, first: int, chance: Fraction) -> End:
    """The least truth under which a published value is `first` or more with more than `chance`; None if all are such.

    All truths below it are certainly such that this happens with `chance` at most: it errs downwards only. It is never
    above `first`, though every truth up to there may make the value too rare.
    """
    with precise():
        level = level_down(chance)

        def excess(truth: int) -> float:
            found = tail_up(noise, support, first, truth)
            height = _height(found / level)
            # The side is decided by the decimals themselves.
            return max(height, _LEAST) if found > level else min(height, -_LEAST)

        # Noise without memory treats all truths below the support alike; elsewhere nobody looks farther.
        least = support.lowest if noise.flat and support.lowest is not None else first - _FARTHEST
        return _last_kept(excess, first, least, noise)


def upper_end(noise: NoiseLaw, support: Support, last: int, chance: Fraction) -> End:
    """The largest truth under which a published value is `last` or less with more than `chance`: as `lower_end`."""
    found = lower_end(noise, support.mirrored(), -last, chance)
    return None if found is None else -found


def _last_kept(excess: Callable[[int], float], start: int, least: int, noise: NoiseLaw) -> End:
    """The least from the start down with an excess above 0, where none below has one; the start if it has none.

    None where the least has one too. Each tail is dear: the search goes where a straight line through the last two
    puts the end, and halves the height of a side that stays (the Illinois rule), so that both come closer.
    """
    low = high = start
    below = above = excess(start)
    if above <= 0:
        return start
    step = 1 + int(noise.spread * (above if noise.flat else math.sqrt(2 * above)))
    while below > 0:
        if low == least:
            return None
        high, above = low, below
        low, step = max(low - step, least), 2 * step
        below = excess(low)
    moved = 0
    while high - low > 1:
        middle = _crossing(low, below, high, above)
        found, before = excess(middle), moved
        moved = 1 if found > 0 else -1
        if found > 0:
            high, above, below = middle, found, below / 2 if moved == before else below
        else:
            low, below, above = middle, found, above / 2 if moved == before else above
    return high


def _crossing(low: int, below: float, high: int, above: float) -> int:
    """Where the line through both is 0, strictly between them; the middle where a height has no float."""
    share = below / (below - above) if -math.inf < below < above else 0.5
    return min(max(low + int((high - low) * share), low + 1), high - 1)


def _height(ratio: Decimal) -> float:
    """Its logarithm, to a few digits; where to look next hangs on it, and nothing else."""
    return float(_COARSE.ln(ratio)) if ratio else -math.inf


def _less(end: End, truth: int) -> End:
    return None if end is None else end - truth
