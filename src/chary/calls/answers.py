"""What calls hand out: public answers, rebuilt identically when a request is repeated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from chary.accounting import Publication, Support
from chary.answer import Answer, Ends, Value, around
from chary.calls.algorithms.algorithm import canonical_outcome
from chary.errors import UnknownHeld
from chary.mechanisms import Additive
from chary.numbers import Number


@dataclass(frozen=True)
class NumberOrNothing(Answer):
    """A noisy number if it was published; otherwise nothing (`value` is None).

    `error_bar` is the half-width of the 95 % interval of the noise. What a published value says is its `interval`: it
    was published because of its noise too, and where it was, `publication` knows how.
    """

    value: Value | None
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def hit(self) -> bool:
        return self.value is not None

    @property
    def published(self) -> bool:
        """Whether there is a value: the outcome was in the target."""
        return self.hit

    @property
    def interval(self) -> Ends | None:
        if self.value is None or self.publication is None:
            return around(self.value, self.error_bar)
        return self.publication.interval(self.value)


def published(noise: Additive, grid: Fraction, support: Support, step: Fraction | None = None) -> Publication:
    """How a value with this noise was published: because it lay in this support, in grid steps."""
    return Publication(noise.law(), support, grid=grid, step=step)


@dataclass(frozen=True)
class Conditional(NumberOrNothing):
    """The outcome of a conditional release: published with its value, or held back (`value` is None, free).

    A held outcome is secret state beside call `held` of the ledger, which released it first; it survives restarts and
    `revise` lowers its bar.
    """

    held: int
    reviser: Callable[..., "Conditional"] | None = field(default=None, repr=False, compare=False)

    def revise(self, *, above: Number, request: str | None = None) -> "Conditional":
        """Lower the bar for the same stored outcome; charged like a hit of the first call if it publishes now, and
        free if the first call was charged hit or miss (see `chary.calls.Revise`).

        Errors: `UnknownHeld` if the outcome was published before, or for an answer that no session handed out;
        `InvalidParameter` if the bar is not lower.
        """
        if self.reviser is None:
            raise UnknownHeld(f"a copy knows no session: session.ask(chary.calls.Revise({self.held}, above=...))")
        return self.reviser(self.held, above=above, request=request)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "reviser"}


@dataclass(frozen=True)
class YesOrNo(Answer):
    """What was decided, up to noise; as a condition it is its `value`."""

    value: bool

    def __bool__(self) -> bool:
        return self.value


@dataclass(frozen=True)
class AboveOrNot(Answer):
    """Whether one question was at or above its bar; its value where values are published of hits, else None.

    As a condition it is its `hit`. `error_bar` is the half-width of the 95 % interval of a value, which has noise of
    its own.
    """

    above: bool
    value: Value | None
    error_bar: float | None

    @property
    def hit(self) -> bool:
        return self.above

    @property
    def interval(self) -> Ends | None:
        return around(self.value, self.error_bar)

    def __bool__(self) -> bool:
        return self.above


@dataclass(frozen=True)
class ChosenKey(Answer):
    """The key that was chosen, by its name alone: a scalar for one column, a tuple for several.

    Nothing was measured, so there is no interval; `session.quote(...)` says by how much its answer may fall short of
    the best (`shortfall`), 95 times in 100 and whatever the data.
    """

    value: Any

    @property
    def interval_says(self) -> str:
        return "no interval: a key was chosen and nothing measured; its quote says how far it may be from the best"


@dataclass(frozen=True)
class Classified(Answer):
    """What was chosen: a key, a scalar for one column, or an algorithm's outcome; "boundary" where that is not `clear`,
    which is a hit."""

    value: Any
    clear: bool

    @property
    def hit(self) -> bool:
        return not self.clear


@dataclass(frozen=True)
class Outcome(Answer):
    """What a private algorithm returned, in JSON values, and whether it was in its target (True if it had none)."""

    value: Any
    in_target: bool

    @property
    def hit(self) -> bool:
        return self.in_target


@dataclass(frozen=True)
class Pair(Answer):
    """What two runs of one algorithm returned, in JSON values. Only a pair that differs was charged."""

    first: Any
    second: Any

    @property
    def value(self) -> Any:
        """Both outcomes."""
        return (self.first, self.second)

    @property
    def hit(self) -> bool:
        return not self.agree

    @property
    def agree(self) -> bool:
        """Whether both runs returned the same."""
        return canonical_outcome(self.first) == canonical_outcome(self.second)


@dataclass(frozen=True)
class RaceOutcome(Answer):
    """What a call with several targets returned, which targets it hit, and whether the best counter `rose`, which is
    what was charged."""

    value: Any
    hits: tuple[str, ...]
    rose: bool

    @property
    def hit(self) -> bool:
        return self.rose


@dataclass(frozen=True)
class Tracked(Answer):
    """The answer to a question that is asked again and again; `changed` is what was charged.

    Of a query a multiple of the step: `error_bar` is the half-width of its 95 % interval, half a step and the noise. Of
    an algorithm an outcome in JSON values, without one.
    """

    value: Any
    changed: bool
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def hit(self) -> bool:
        return self.changed

    @property
    def interval(self) -> Ends | None:
        """Of a change it covers the truth 95 times in 100, given that the answer changed, as `Answer.interval` says.

        Of an answer that did not change it covers the truth but for 2.5 in 100 of all times that it is asked, not of
        those times alone: given that nothing changed, no truth is ruled out.
        """
        return around(self.value, self.error_bar) if self.publication is None else self.publication.interval(self.value)
