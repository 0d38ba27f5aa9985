"""Answers that several kinds of calls share: numbers, choices, tested groups, selections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Findings, LargestOf, Publication, Silence, Support
from chary.accounting.intervals import Tails
from chary.answers import Answer, Ends, Value, around, findings_of
from chary.calls.algorithms.algorithm import canonical_outcome
from chary.data import Neighbouring, Query
from chary.errors import UnknownHeld
from chary.mechanisms import Additive
from chary.numbers import Number, plain

EVERYTHING: Final = Support.everything()


@dataclass(frozen=True)
class NumberOrNothing(Answer):
    """A noisy number if it was published; otherwise nothing (`value` is None).

    What a published value says is its `interval`, by its `publication`. `error_bar` is the half-width of the 95 %
    interval of a value with noise of its own, None where it was published because of its noise too; `caution` says in
    words where a value may be a false alarm.
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

    @property
    def caution(self) -> str | None:
        """Such as "may be a false alarm: no lower end"; None where it is none, 95 times in 100."""
        return None if self.value is None or self.publication is None else self.publication.caution(self.value)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, {None: self.value}, self.publication)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"caution": self.caution}

    def _told(self) -> dict[str, str]:
        return super()._told() | ({} if self.caution is None else {"caution": self.caution})


def published(
    noise: Additive,
    query: Query,
    neighbouring: Neighbouring,
    support: Support = EVERYTHING,
    *,
    step: Fraction | None = None,
    bar: int | None = None,
) -> Publication:
    """How a value with this noise was published: because it lay in this support, in grid steps.

    `bar` is that of the test after which it was drawn, with noise of its own. A count is never below 0, nor is a total
    to which no unit can contribute less, and so on upwards.
    """
    floor, ceiling = query.known_range(neighbouring)
    terms: dict[str, Any] = {"grid": query.grid, "step": step, "floor": floor, "ceiling": ceiling, "bar": bar}
    return Publication(noise.law(), support, **terms)


def silent(tails: Tails, query: Query, neighbouring: Neighbouring, threshold: int) -> Silence:
    """What it says of a value of this query that a test against so many steps with these tails did not report it."""
    floor, ceiling = query.known_range(neighbouring)
    return Silence(tails, threshold, grid=query.grid, floor=floor, ceiling=ceiling)


def published_best(
    noise: Additive, query: Query, neighbouring: Neighbouring, *, candidates: int, most: int
) -> LargestOf:
    """How values with this noise were published: as the largest `most` of so many candidates."""
    known = published(noise, query, neighbouring)
    return LargestOf(
        known.noise, candidates=candidates, most=most, grid=known.grid, floor=known.floor, ceiling=known.ceiling
    )


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
    its own. A hit without a value says nothing more: given that it is one, it has no p-value.
    """

    above: bool
    value: Value | None
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def hit(self) -> bool:
        return self.above

    @property
    def interval(self) -> Ends | None:
        return around(self.value, self.error_bar, self.publication)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, {None: self.value}, self.publication)

    def __bool__(self) -> bool:
        return self.above


@dataclass(frozen=True)
class ChosenKey(Answer):
    """The key that was chosen, by its name alone: a scalar for one column, a tuple for several.

    95 times in 100 its true value is at most `shortfall` below the largest, whatever the data; None where that depends
    on them.
    """

    value: Any
    shortfall: float | None = field(default=None, kw_only=True)

    @property
    def interval_says(self) -> str:
        said = "no interval: a key was chosen and nothing measured"
        return said if self.shortfall is None else f"{said}; within {plain(self.shortfall)} of the best, 95 in 100"


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

    Of a query a multiple of the step: `error_bar` is half a step and that of the noise, for a first answer and one that
    did not change; see `interval`. Of a query tracked by sharp tests the value that was told last: `error_bar` is that
    of its noise, and if it did not change the distance at which a change is hardly ever missed. Of an algorithm an
    outcome in JSON values, without one.
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

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, {None: self.value}, self.publication)
