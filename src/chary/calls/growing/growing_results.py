"""What sparse vectors on growing tables hand out."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from chary.answers import Answer
from chary.calls.answers import AboveOrNot


@dataclass(frozen=True)
class GrowingTest(AboveOrNot):
    """Whether one average over rows was above the threshold; its value where values are published, else None.

    `size` is the number of rows at which it was asked, `round` the number of the round, which a yes ends. Nothing is
    charged, it was paid when the round began.
    """

    size: int
    round: int


class OpenRound(NamedTuple):
    """A round that is open: its number, counted from 1, the public size at which it began, and its epsilon."""

    number: int
    size: int
    epsilon: Fraction


@dataclass(frozen=True)
class GrowingRound(Answer):
    """A round that began: its number, counted from 1, the public size at that time, and the epsilon that is charged."""

    number: int
    size: int
    epsilon: Fraction

    @property
    def value(self) -> OpenRound:
        """What `state.open_round` tells of it while it is open."""
        return OpenRound(self.number, self.size, self.epsilon)


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
