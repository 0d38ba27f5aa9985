"""Event streams: so many at once for each token."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from chary.service.wire.problems import Refusal

MOST: Final = 8


@dataclass
class OpenStreams:
    """How many streams each token follows now. Only within the loop of events."""

    _open: Counter[str] = field(default_factory=Counter)

    def begin(self, token: str) -> None:
        """One more; `Refusal` with status 429 above `MOST`, so that no token takes all connections."""
        if self._open[token] >= MOST:
            raise Refusal(429, f"a token follows at most {MOST} streams at once", Retry_After="10")
        self._open[token] += 1

    def end(self, token: str) -> None:
        """One less."""
        self._open[token] -= 1
        self._open += Counter()  # names without a stream are forgotten
