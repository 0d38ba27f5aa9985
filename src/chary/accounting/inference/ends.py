"""Where an interval ends that is valid given that the value was published: truths that make the value too rare."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from chary.accounting.exponentials import precise
from chary.accounting.inference.masses import Mass, level_down, share_up
from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.inference.supports import End, Piece, Support

# No truth of 64 bits is farther from a value that was published; a search ends there with "no end", which is wider.
_FARTHEST: Final = 2**66


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

        def excluded(truth: int) -> bool:
            return tail_up(noise, support, first, truth) <= level

        # Noise without memory treats all truths below the support alike; elsewhere nobody looks farther.
        least = support.lowest if noise.flat and support.lowest is not None else first - _FARTHEST
        return _last_kept(excluded, first, least, noise.spread)


def upper_end(noise: NoiseLaw, support: Support, last: int, chance: Fraction) -> End:
    """The largest truth under which a published value is `last` or less with more than `chance`: as `lower_end`."""
    found = lower_end(noise, support.mirrored(), -last, chance)
    return None if found is None else -found


def _last_kept(excluded: Callable[[int], bool], start: int, least: int, step: int) -> End:
    """The least from the start down that is not excluded, where all below are; the start if it is, None below least."""
    low = high = start
    while not excluded(low):
        if low == least:
            return None
        low, high, step = max(low - step, least), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excluded(middle) else (low, middle)
    return high


def _less(end: End, truth: int) -> End:
    return None if end is None else end - truth
