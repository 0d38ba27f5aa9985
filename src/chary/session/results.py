"""What calls hand out: public answers, rebuilt identically when a request is repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chary.errors import UnknownHeld
from chary.numbers import Number
from chary.session.algorithm import canonical_outcome

Value = int | float
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """One noisy number. `error_bar` is the half-width of its 95 % interval, None where it depends on the data (means).

    >>> float(Answer(call=1, value=512, error_bar=30.0))
    512.0
    """

    call: int
    value: Value
    error_bar: float | None

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class Answers:
    """One noisy number for each key, in the order the keys were listed; `error_bar` holds for each of them."""

    call: int
    keys: tuple[Key, ...]
    values: tuple[Value, ...]
    error_bar: float | None

    def as_dict(self) -> dict[Key, Value]:
        """Key to value."""
        return dict(zip(self.keys, self.values, strict=True))


@dataclass(frozen=True)
class Conditional:
    """The outcome of a conditional release: published with its value, or held back (`value` is None, free).

    A held outcome is secret state in the ledger; it survives restarts and `revise` lowers its bar.
    """

    call: int
    value: Value | None
    error_bar: float | None
    reviser: Callable[..., "Conditional"] | None = field(default=None, repr=False, compare=False)

    @property
    def published(self) -> bool:
        """Whether the outcome was in the target, which is what was charged."""
        return self.value is not None

    def revise(self, *, above: Number, request: str | None = None) -> "Conditional":
        """Lower the bar for the same stored outcome; charged like a hit of the first call if it publishes now, and
        free if the first call was charged hit or miss (see `Session.revise`).

        Errors: `UnknownHeld` if the outcome was published before, `InvalidParameter` if the bar is not lower.
        """
        if self.reviser is None:
            raise UnknownHeld("this outcome is already published; ask a new question instead")
        return self.reviser(self.call, above=above, request=request)


@dataclass(frozen=True)
class Outcome:
    """What a private algorithm returned, in JSON values, and whether it hit its target (True if it had none)."""

    call: int
    value: Any
    hit: bool


@dataclass(frozen=True)
class Pair:
    """What two runs of one algorithm returned, in JSON values. Only a pair that differs was charged."""

    call: int
    first: Any
    second: Any

    @property
    def agree(self) -> bool:
        """Whether both runs returned the same."""
        return canonical_outcome(self.first) == canonical_outcome(self.second)


@dataclass(frozen=True)
class RaceOutcome:
    """What a call with several targets returned, which targets it hit, and whether the best counter rose (charged)."""

    call: int
    value: Any
    hits: tuple[str, ...]
    charged: bool


@dataclass(frozen=True)
class Tracked:
    """The answer to a question that is asked again and again, a multiple of the step; `changed` is what was charged.

    `error_bar` is the half-width of the 95 % interval: half a step and the noise.
    """

    call: int
    value: Value
    changed: bool
    error_bar: float


@dataclass(frozen=True)
class WatchResult:
    """What a watch found. Keys appear in the order they were listed.

    `above` maps each key that hit to its noisy value; the first `tested` keys were tested, the rest are `untested`
    because the hits that were paid for ran out.
    """

    call: int
    keys: tuple[Key, ...]
    above: dict[Key, Value]
    tested: int
    error_bar: float | None

    @property
    def hits(self) -> int:
        """How many keys were found above."""
        return len(self.above)

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys left when the hits that were paid for had run out."""
        return self.keys[self.tested :]

    def states(self) -> list[bool | None]:
        """True above, False below, None untested, one for each key."""
        return [key in self.above if position < self.tested else None for position, key in enumerate(self.keys)]
