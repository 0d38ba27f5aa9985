"""What it says of a truth that a test did not report it."""

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction

from chary.accounting.inference.publications import CONFIDENCE, Interval
from chary.accounting.inference.together import Tails
from chary.numbers import Number, natural_number, positive, probability


@dataclass(frozen=True)
class Silence:
    """That a truth was tested against `bar`, in grid steps, by a test with these tails, and not reported.

    `grid`, `floor` and `ceiling` are those of a `Publication`: steps in the answer's own units, what truths can be.
    `thresholds` is how many hidden ones a sparse vector may draw, of which any may have been the one that was tested.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
    >>> str(Silence(LaplaceLaw(20), 100).truths())
    '(-, 145]'
    """

    tails: Tails
    bar: int
    _: KW_ONLY
    grid: Number = 1
    floor: Number | None = None
    ceiling: Number | None = None
    thresholds: int = field(default=1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", positive(self.grid, "grid"))

    def truths(self, confidence: Number = CONFIDENCE) -> Interval:
        """All truths but those that the test reports with `confidence`, cut to what they can be.

        Guarantee: with probability `confidence` it does not happen that the truth lies outside and is not reported,
        whatever the data and however the question was chosen from earlier answers. It is no statement given that
        nothing was reported: given that, no truth is ruled out. Of n tests all hold with 1 - beta at 1 - beta/n each,
        also where they share a hidden threshold (docs/theory.md, "Keys without a hit").

        Errors: `InvalidParameter` for a confidence outside (0, 1), or above what a sharp test can ever have.
        """
        beta = (1 - probability(confidence, "confidence")) / self.thresholds
        high = (self.bar - 1 + self.tails.miss_reach_up(beta)) * Fraction(self.grid)
        if self.ceiling is not None:
            high = min(high, Fraction(self.ceiling))
        if self.floor is not None:
            high = max(high, Fraction(self.floor))
        return Interval(_told(self.floor), _told(high))


def _told(end: Number | None) -> int | float | None:
    """A whole number where it is one."""
    return None if end is None else natural_number(Fraction(end))
