"""Values that were published because they were the largest of many: how far each may be off, together."""

from fractions import Fraction
from typing import NamedTuple

from chary.accounting.inference.noise_laws import NoiseLaw
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
