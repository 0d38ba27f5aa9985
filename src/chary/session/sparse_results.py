"""What sparse vectors hand out: public answers, accuracy and quotes."""

from dataclasses import asdict, dataclass
from typing import Any

from chary.numbers import plain
from chary.session.results import Key, Value


@dataclass(frozen=True)
class SparseTest:
    """Whether one question was above the threshold; its value where the sparse vector publishes values, else None.

    `left` says how many hits were left after it. `error_bar` is the half-width of the 95 % interval of a value.
    """

    call: int
    above: bool
    value: Value | None
    left: int
    error_bar: float | None

    def __bool__(self) -> bool:
        return self.above


@dataclass(frozen=True)
class SparseWatch:
    """What a sparse vector found among keys, in the order they were listed.

    `above` maps each key that hit to its noisy value, or to None where no values are published; the first `tested` keys
    were tested, the rest are `untested` because the hits were used up. `left` hits were left after it.
    """

    call: int
    keys: tuple[Key, ...]
    above: dict[Key, Value | None]
    tested: int
    left: int
    error_bar: float | None

    @property
    def hits(self) -> int:
        """How many keys were found above."""
        return len(self.above)

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys left when the hits were used up."""
        return self.keys[self.tested :]


@dataclass(frozen=True)
class SparseAccuracy:
    """How far off a sparse vector may be: with probability `confidence`, over `tests` tests, by at most `error`.

    Each test is then answered rightly for a value that is off by at most that much, and so is each published value.
    `published` is what the published theorem says, None for a form that it does not know.
    """

    tests: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


@dataclass(frozen=True)
class SparseQuote:
    """What a sparse vector would cost, as a share of the whole budget, and how accurate it would be. Free.

    `error_bar` is the half-width of the 95 % interval of a published value.
    """

    share: float
    fits: bool
    accuracy: SparseAccuracy
    error_bar: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        told = self.accuracy
        return (
            f"it costs {plain(100 * self.share)} % of the budget, whole and at once, which "
            f"{'fits' if self.fits else 'does not fit'}; {plain(100 * told.confidence)} times in 100 all of "
            f"{told.tests} tests are right up to {plain(told.error)}"
        )
