"""How far off many tests may be together."""

from dataclasses import asdict, dataclass
from typing import Any

from chary.numbers import plain


@dataclass(frozen=True)
class Within:
    """How far off many tests may be: with probability `confidence`, over `tests` tests, by at most `error`.

    Each test is then answered rightly for a value that is farther from its bar than that; a published value whose noise
    decided the test is off by at most that much. `published` is what the published theorem says, None for a form that
    it does not know.
    """

    tests: int
    confidence: float
    error: float
    published: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        sure = plain(100 * self.confidence)
        return f"{sure} times in 100 all of {self.tests} tests are right up to {plain(self.error)}"
