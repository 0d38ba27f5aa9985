"""What sparse vectors on growing tables hand out."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class GrowingTest:
    """Whether one average over rows was above the threshold; its value where values are published, else None.

    `size` is the number of rows at which it was asked, `round` the number of the round, which a yes ends. `error_bar`
    is the half-width of the 95 % interval of a value.
    """

    call: int
    above: bool
    value: float | None
    size: int
    round: int
    error_bar: float | None

    def __bool__(self) -> bool:
        return self.above


@dataclass(frozen=True)
class GrowingRound:
    """A round: its number, counted from 1, the public size at which it began, and the epsilon that it was charged."""

    number: int
    size: int
    epsilon: Fraction


@dataclass(frozen=True)
class GrowingAccuracy:
    """How far off averages may be: with probability `confidence`, over `tests` tests from `size` rows on, by `error`.

    Each of them, in `rounds` rounds, is then answered rightly for an average that is off by at most that much, and so
    is each published value. `published` is what [GROW] Theorems 26, 28 and 31 say, None for the tuned form.
    """

    tests: int
    rounds: int
    size: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)
