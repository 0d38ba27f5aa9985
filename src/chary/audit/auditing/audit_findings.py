"""What an audit found: what was claimed, what was shown, and what a weaker mechanism would have shown."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """A claim, what was found against it, and what shows it."""

    claimed: float
    delta: float
    measured: float
    event: str


@dataclass(frozen=True)
class Audited:
    """One audit.

    - `claimed`: the epsilon at `delta` that was promised, or charged; `measured`: the lower bound on it that was shown,
      wrong with probability 1e-6 at most, or exact where `exact`.
    - `power`: what the same audit shows of the same call with twice the epsilon, whose noise is half as large, while
      half of it is claimed; None where nothing weaker was given. An audit that does not catch it finds little.
    - `event`: what told the neighbours apart; `transcripts` on each neighbour, and `seconds`, for both.
    """

    kind: str
    claimed: float
    delta: float
    measured: float
    power: float | None
    exact: bool
    event: str
    transcripts: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing was shown against the claim."""
        # ExactFinding figures are floats, made by hundreds of roundings.
        return self.measured <= self.claimed * (1 + ROUNDINGS)

    @property
    def caught(self) -> bool | None:
        """Whether noise half as large would have been caught; None where it was not tried."""
        return None if self.power is None else self.power > self.claimed * (1 + ROUNDINGS)

    def as_dict(self) -> dict[str, Any]:
        """All figures by name; what no number tells is None."""
        told = asdict(self) | {"passed": self.passed, "caught": self.caught}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in told.items()
        }


ROUNDINGS = 1e-9
