"""What every mechanism that tells a running count at many steps does."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from chary import noise
from chary.accounting import Event
from chary.accounting.continual import Beyond, error_up
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.numbers import Number, whole


class Continual(ABC):
    """Running counts or totals of `keys` keys at up to `steps` steps, where one row moves the increments of one step.

    `l1` is by how much it moves them, each key's by at most `largest`: 1 for counts, and in steps of the grid for
    totals. So the squares of what it moves add up to `l1 largest` at most. Guarantee: `event()` for all steps together,
    also when what comes next, and when, depends on what was told. The state between steps is secret. Distances are in
    rows, or in steps of the grid.
    """

    steps: int
    keys: int
    l1: int
    largest: int

    def __post_init__(self) -> None:
        for name in ("steps", "keys", "l1", "largest"):
            whole(getattr(self, name), name)

    @abstractmethod
    def event(self) -> Event:
        """What all steps together may reveal."""

    @abstractmethod
    def start(self) -> bytes:
        """The state before the first step."""

    @abstractmethod
    def tell(self, step: int, state: bytes, counts: Integers, source: noise.Source) -> tuple[list[int], bytes]:
        """The noisy counts of this step, from the exact ones and the state after the step before; and the state."""

    @abstractmethod
    def deviation(self, step: int) -> float:
        """The standard deviation of a count at this step, at most."""

    @abstractmethod
    def chance_beyond(self, step: int) -> Beyond:
        """The probability that a count at this step is off by more than so many rows."""

    @abstractmethod
    def chances_beyond(self) -> Sequence[tuple[Beyond, int]]:
        """The different laws of `chance_beyond`, and at how many steps there is each."""

    def error_bar(self, step: int, confidence: Number = 0.95) -> int:
        """How far a count at this step may be off, with this probability."""
        return error_up(self.chance_beyond(step), confidence=confidence)

    def worst_error(self, confidence: Number = 0.95) -> int:
        """How far any count may be off at any step, with this probability: the chances of all are added."""
        chances = self.chances_beyond()

        def beyond(rows: int) -> float:
            return self.keys * sum(steps * chance(rows) for chance, steps in chances)

        return error_up(beyond, confidence=confidence)

    def known(self, step: int) -> int:
        """The step, if there is one of that number."""
        if whole(step, "step") > self.steps:
            raise InvalidParameter(f"there are {self.steps} steps")
        return int(step)
