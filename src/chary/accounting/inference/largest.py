"""Values that were published because they were the largest of many: how far each may be off, together."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.inference.publications import CONFIDENCE, Interval, Publication
from chary.errors import InvalidParameter
from chary.numbers import Number, probability, whole


class Reach(NamedTuple):
    """By how many grid steps truths may lie below and above the published values."""

    below: int
    above: int


def chosen_reach_up(noise: NoiseLaw, *, candidates: int, published: int, confidence: Number) -> Reach:
    """How far the truths of at most `published` values may lie from them, all together with `confidence`.

    The values are the largest noisy ones of so many candidates, each with its own independent noise of this law; any
    rule will do under which a candidate whose noise alone grows stays published (the best k, those above a bar, up to
    the first gap).

    Guarantee: with probability `confidence` every published value v has its truth in `[v - below, v + above]`. A value
    chosen for its size has noise that is too high rather than too low, so all candidates count below it, for Laplace
    noise of scale b about `b ln(n/beta)`. Above it only the published ones do (ours): noise that is low makes being
    published less likely, so the expected number published with noise below -m is at most `published P(Z < -m)`.

    Errors: `InvalidParameter` for more published than candidates.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> chosen_reach_up(LaplaceLaw(20), candidates=1000, published=3, confidence="0.95")
    Reach(below=198, above=82)
    """
    if whole(published, "published") > whole(candidates, "candidates"):
        raise InvalidParameter("published must not be more than candidates")
    half = Fraction(1 - probability(confidence, "confidence")) / 2
    return Reach(noise.reach_up(half / candidates) - 1, noise.reach_up(half / published) - 1)


@dataclass(frozen=True)
class LargestOf:
    """Values published as the largest of `candidates`, at most `most` of them, by a rule as `chosen_reach_up` allows.

    Guarantee: the intervals of all values of one such call hold together with `confidence`; so does each alone. Units,
    `floor` and `ceiling` are as for `Publication`.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> str(LargestOf(LaplaceLaw(20), candidates=1000, most=3).interval(500))
    '[302, 582]'
    """

    noise: NoiseLaw
    _: KW_ONLY
    candidates: int
    most: int
    grid: Number = 1
    floor: Number | None = None
    ceiling: Number | None = None
    at_once: ClassVar[bool] = True

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """Where the truth lies, together with those of all other values of the call."""
        units = Publication(self.noise, grid=self.grid, floor=self.floor, ceiling=self.ceiling)
        return units.within(
            value, *_reach(self.noise, self.candidates, self.most, probability(confidence, "confidence"))
        )

    def p_value(self, value: Number) -> None:
        """None: nothing is held back for being low, so it is no alarm."""

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> None:
        """None, for the same reason."""


@lru_cache
def _reach(noise: NoiseLaw, candidates: int, most: int, confidence: Fraction) -> Reach:
    return chosen_reach_up(noise, candidates=candidates, published=most, confidence=confidence)
