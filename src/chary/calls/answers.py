"""Answers that several kinds of calls share: numbers, choices, tested groups, selections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from chary.accounting import Finding, Findings, LargestOf, Publication, Silence, Support, confidence_of_each
from chary.accounting.intervals import CONFIDENCE, Tails
from chary.answers import Answer, Ends, Key, Table, Value, around, in_row, scalar
from chary.calls.algorithm import When, canonical_outcome
from chary.calls.withheld import Widen
from chary.core.plan import naturals
from chary.data import NeighborRelation, Query
from chary.errors import InvalidParameter, NotWithheld
from chary.mechanisms import Additive
from chary.numbers import CONFIDENT, Number, plain, probability

# Answers of calls: public values, rebuilt identically when a request is repeated.

EVERYTHING: Final = Support.everything()


@dataclass(frozen=True)
class NumberOrNothing(Answer):
    """A noisy number if it was published; otherwise nothing (`value` is None).

    The `interval` of a published value follows from its `publication`. `error_bar` is half the width of the 95 %
    interval of a value with noise of its own. It is None where the value was published because of its noise, too.
    `caution` warns in words where a value may be a false alarm.
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
        return interval_given(self.value, self.error_bar, self.publication)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"caution": self.caution}


def published(
    noise: Additive,
    query: Query,
    neighbor_relation: NeighborRelation,
    support: Support = EVERYTHING,
    *,
    step: Fraction | None = None,
    bar: int | None = None,
) -> Publication:
    """The selection under which a value with this noise was published: it lay in `support`, in grid steps.

    `bar` is the threshold, in steps, of an optimal test after whose hit the value was drawn with noise of its own. The
    known range of the query, such as 0 upwards for a count, limits the truth.
    """
    floor, ceiling = query.known_range(neighbor_relation)
    terms: dict[str, Any] = {"grid": query.grid, "step": step, "floor": floor, "ceiling": ceiling, "bar": bar}
    return Publication(noise.law(), support, **terms)


def interval_given(
    value: Value | None, error_bar: float | None, publication: Publication | LargestOf | None
) -> Ends | None:
    """The interval of a value given how it was published, or by its error bar where that is not known."""
    if value is None or publication is None:
        return around(value, error_bar)
    return publication.interval(value)


def says(value: Value | None, publication: Publication | None, error_bar: float | None = None) -> dict[str, Any]:
    """The interval and the caution of a published value, as cells of a row."""
    caution = None if value is None or publication is None else publication.caution(value)
    return in_row(interval_given(value, error_bar, publication)) | {"caution": caution}


def silent(tails: Tails, query: Query, neighbor_relation: NeighborRelation, threshold: int) -> Silence:
    """What an unpublished value says of the truth: a test with these tails against the threshold, in steps, missed."""
    floor, ceiling = query.known_range(neighbor_relation)
    return Silence(tails, threshold, grid=query.grid, floor=floor, ceiling=ceiling)


def hit_values(
    keys: Sequence[Key], positions: Sequence[int], noisy: Sequence[int] | None, grid: Fraction
) -> dict[Key, Value | None]:
    """The groups at these positions, each with its noisy value in the query's units, or None where none is published.

    >>> hit_values([("north",), ("south",)], [1], [7], Fraction(1, 2))
    {('south',): 3.5}
    """
    values: Sequence[Value | None] = naturals(noisy or (), grid) or [None] * len(positions)
    return {keys[position]: value for position, value in zip(positions, values, strict=True)}


def published_best(
    noise: Additive, query: Query, neighbor_relation: NeighborRelation, *, candidates: int, most: int
) -> LargestOf:
    """The selection under which values with this noise were published: the `most` largest of `candidates` values."""
    known = published(noise, query, neighbor_relation)
    return LargestOf(
        known.noise, candidates=candidates, most=most, grid=known.grid, floor=known.floor, ceiling=known.ceiling
    )


@dataclass(frozen=True)
class Withheld(Answer):
    """An answer that is published, or withheld: secret state next to call `held` of the ledger, which `widen`
    publishes.

    It survives restarts.
    """

    if TYPE_CHECKING:

        @property
        def held(self) -> int:
            """The call that withheld it."""

    def widen(self, *, above: Number | None = None, when: When | None = None, request: str | None = None) -> Self:
        """Publish the same stored outcome if it meets another condition; see `chary.calls.Widen`.

        Errors: `NotWithheld` if the outcome was published before, or for an answer that no session handed out.
        """
        if self._cashier is None:
            raise NotWithheld(f"a copy knows no session: session.ask(chary.calls.Widen({self.held}, ...))")
        found: Self = self._cashier.asked(Widen(self.held, above=above, when=when), request)
        return found


@dataclass(frozen=True)
class Conditional(Withheld, NumberOrNothing):
    """The outcome of a conditional release: published with its value, or withheld (`value` is None, free).

    `widen(above=)` lowers its threshold; it is charged like a hit of the first call if it publishes now, and free if
    that was charged hit or miss.
    """

    held: int
    also = "published value error_bar held"


@dataclass(frozen=True)
class YesOrNo(Answer):
    """A yes-or-no decision, up to noise. Its truth value (`bool`) is `value`."""

    value: bool

    def __bool__(self) -> bool:
        return self.value


@dataclass(frozen=True)
class AboveOrNot(Answer):
    """Whether one question was at or above its threshold; its value where values are published of hits, else None.

    Its truth value (`bool`) is `hit`. `error_bar` is half the width of the 95 % interval of a value, which has noise
    of its own. A hit without a value has no p-value.
    """

    above: bool
    value: Value | None
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)
    hit_if = "above"

    @property
    def in_words(self) -> str:
        return above_or_not(self.above)

    @property
    def interval(self) -> Ends | None:
        return around(self.value, self.error_bar, self.publication)

    def __bool__(self) -> bool:
        return self.above


@dataclass(frozen=True)
class ChosenKey(Answer):
    """The group that was chosen, by its name alone: a scalar for one column, a tuple for several.

    With 95 % confidence, its true value is at most `shortfall` below the largest. That holds for any data; it is None
    where the bound depends on the data. `lead` is how far the noisy answer was ahead, where that was asked. With 95 %
    confidence, the true lead, which is negative where another group is larger, is within `error_bar` of it.
    """

    value: Any
    shortfall: float | None = field(default=None, kw_only=True)
    lead: float | None = field(default=None, kw_only=True)
    error_bar: float | None = field(default=None, kw_only=True)

    @property
    def in_words(self) -> str:
        near = "" if self.lead is None else f" (ahead by {plain(self.lead)})"
        if self.shortfall is not None:
            near = f" (at most {plain(self.shortfall)} below the largest, with {CONFIDENT})"
        return super().in_words + near

    @property
    def interval_says(self) -> str:
        if self.error_bar is not None:
            return f"no interval: a group was chosen; its lead is right within {plain(self.error_bar)}, 95 in 100"
        said = "no interval: a group was chosen and nothing measured"
        return said if self.shortfall is None else f"{said}; within {plain(self.shortfall)} of the best, 95 in 100"


@dataclass(frozen=True)
class Classified(Answer):
    """A class: whether a query is above a threshold, "low" or "high", the largest group, or an algorithm's outcome.

    An answer that is not `clear` is a hit, and its value is "boundary", or "between" for two thresholds. Its truth
    value (`bool`) is `value`; `InvalidParameter` where that is not clear or no Boolean.
    """

    value: Any
    clear: bool

    @property
    def hit(self) -> bool:
        return not self.clear

    def __bool__(self) -> bool:
        if not self.clear or not isinstance(self.value, bool):
            raise InvalidParameter("what is not clear is neither true nor false: look at answer.clear first")
        return self.value


@dataclass(frozen=True)
class Outcome(Answer):
    """What a private algorithm returned, in JSON values, and whether it was in its target (True if it had none)."""

    value: Any
    in_target: bool
    hit_if = "in_target"


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
    hit_if = "rose"


@dataclass(frozen=True)
class Tracked(Answer):
    """The answer to a question that is asked again and again. It is charged where it `changed`.

    The answer to a query is a multiple of the step. `error_bar` is half a step and that of the noise, for a first
    answer and one that did not change; see `interval`. If optimal threshold tests track the query, the answer is the
    last published value. Then `error_bar` is that of its noise. If it did not change, `error_bar` is the distance at
    which a change is hardly ever missed. The answer of an algorithm is an outcome in JSON values, without one.
    """

    value: Any
    changed: bool
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)
    hit_if = "changed"

    @property
    def interval(self) -> Ends | None:
        """Of a change: the 95 % confidence interval given that the answer changed, as `Answer.interval` says.

        For an answer that did not change it contains the truth, except in 2.5 % of all times that the question is
        asked. That is not 2.5 % of the times without a change: given that nothing changed, no truth is ruled out.
        """
        return interval_given(self.value, self.error_bar, self.publication)


# Answers of selections: the candidates that were published, with their noisy scores.


class Chosen(NamedTuple):
    """A published candidate (a group, an algorithm's name or a condition), its noisy score, and an algorithm's
    solution.

    >>> name, score, solution = Chosen("tree", 0.9, {"depth": 3})
    >>> Chosen("broken", None).failed
    True
    """

    name: Key | str
    score: Value | None
    solution: Any = None

    @property
    def failed(self) -> bool:
        """Whether the algorithm raised or returned no [score, solution]."""
        return self.score is None


@dataclass(frozen=True)
class Ranking(Table):
    """The best candidates, best first; each was charged.

    Scores that were chosen for being large are too large rather than too small: the intervals of all rows hold together
    with 95 % confidence, whatever the data. Scores of algorithms have none.
    """

    best: tuple[Chosen, ...]
    noun, also = "best", ""
    told: LargestOf | None = field(default=None, repr=False, compare=False, kw_only=True)
    hit_if = "best"

    @property
    def value(self) -> dict[Any, Value | None]:
        """The candidates that were published, best first, with their noisy scores."""
        return {scalar(key): chosen.score for key, chosen in zip(self.keys, self.best, strict=True)}

    @property
    def names(self) -> list[Key | str]:
        """The groups or names, best first."""
        return [chosen.name for chosen in self.best]

    @property
    def scores(self) -> list[Value | None]:
        """The noisy scores, best first."""
        return [chosen.score for chosen in self.best]

    def cells(self, position: int) -> dict[str, Any]:
        best = self.best[position]
        return {"score": best.score} | in_row(interval_given(best.score, None, self.told)) | {"solution": best.solution}


@dataclass(frozen=True)
class Hits(Table):
    """Tests of a list, in order, until no further hit could be paid for; `value` holds what hit."""

    noun, also = "above", ""
    hit_if = "value"

    if TYPE_CHECKING:

        @property
        def tested(self) -> int:
            """The number of tests made: those of the first entries of the list."""

    @property
    def hits(self) -> int:
        """How many hit."""
        return len(self.value)

    @property
    def untested(self) -> tuple[Any, ...]:
        """The entries that were left when no further hit could be paid for."""
        return self.keys[self.tested :]

    def states(self) -> list[bool | None]:
        """True above, False below, None untested, one for each group."""
        return [self.cells(position)["hit"] for position in range(len(self.keys))]

    @property
    def in_words(self) -> str:
        rest = f", {len(self.untested)} not tested" if self.untested else ""
        return f"{self.hits} of {self.tested} {above_or_not(True)}{rest}"

    def figures(self) -> dict[str, Any]:
        counts = {"tested": self.tested, "hits": self.hits, "untested": len(self.untested)}
        found = super().figures()
        return {self.noun: found.pop(self.noun)} | counts | found

    def _told_rows(self) -> Iterator[dict[str, Any]]:
        """The hits, each with its own interval and that which holds together with those of all others."""
        says = {row.pop("key"): row for row in self.findings.rows_together()}
        for row in super()._told_rows():
            if row.pop("hit"):
                told = says.get(scalar(tuple(row["key"])), says.get(tuple(row["key"]), {}))
                yield row | {name: told[name] for name in told if name not in ("call", "value")}


def above_or_not(above: bool) -> str:
    """The result of a threshold test, in words."""
    return "at or above the threshold" if above else "below the threshold"


@dataclass(frozen=True)
class Selected(Hits):
    """The candidates that reached the threshold, in the order they were listed; each was charged.

    The first `tested` of all `names` were tested, the rest are `untested` because the hits that were paid for ran out.
    The interval of a count holds with 95 % confidence, given that it was published; scores of algorithms have none.
    """

    above: tuple[Chosen, ...]
    tested: int
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> dict[Key | str, Value | None]:
        """The candidates that reached the threshold, with their scores."""
        return {chosen.name: chosen.score for chosen in self.above}

    @property
    def names(self) -> tuple[Any, ...]:
        """All candidates, in the order they were listed."""
        return tuple(scalar(key) for key in self.keys)

    @property
    def untested(self) -> tuple[Any, ...]:
        """Candidates left when the hits that were paid for had run out."""
        return self.names[self.tested :]

    def cells(self, position: int) -> dict[str, Any]:
        found = _state(self.names[position], self.above, tested=position < self.tested)
        return found if self.publication is None else found | says(found["score"], self.publication)


@dataclass(frozen=True)
class Gathered(Selected):
    """The algorithms that a greedy choice took, in the order it took them; each was charged.

    `calls` are the numbers of its steps, `call` the last of them.
    """

    calls: tuple[int, ...]


@dataclass(frozen=True)
class Coverage(Hits):
    """What a greedy coverage chose, in the order the candidates were listed; each was charged.

    The score of a chosen candidate is the noisy number of units that it covers and no candidate before it does. Its
    interval holds with 95 % confidence, given that it was chosen. `calls` are the numbers of the conditional releases
    of the first candidates of `names`, `call` the last of them; the rest are `untested`.
    """

    chosen: tuple[Chosen, ...]
    calls: tuple[int, ...]
    publication: Publication = field(repr=False, compare=False)
    names: tuple[Key | str, ...] = field(compare=False)
    most: int = field(compare=False)
    noun, also = "chosen", "covered calls"

    @property
    def value(self) -> dict[Key | str, Value | None]:
        """The candidates that were chosen, with what each adds."""
        return {chosen.name: chosen.score for chosen in self.chosen}

    @property
    def tested(self) -> int:
        """How many candidates were tested: the first of all."""
        return len(self.calls)

    @property
    def findings(self) -> Findings:
        calls = dict(zip(self.names, self.calls, strict=False))
        found = [(chosen.name, chosen.score) for chosen in self.chosen if chosen.score is not None]
        hits = [Finding(calls[name], name, score, self.publication) for name, score in found]
        return Findings.of(hits, self.most, open=True)

    @property
    def covered(self) -> Value:
        """The noisy number of units covered by all that were chosen."""
        return sum(chosen.score or 0 for chosen in self.chosen)

    @property
    def untested(self) -> tuple[Key | str, ...]:
        """Candidates left when enough were chosen or the budget had run out."""
        return self.names[len(self.calls) :]

    def cells(self, position: int) -> dict[str, Any]:
        told = _state(self.names[position], self.chosen, tested=position < len(self.calls))
        return told | says(told["score"], self.publication)

    def _numbers(self) -> Sequence[int]:
        return self.calls


def _state(name: Key | str, chosen: Sequence[Chosen], *, tested: bool) -> dict[str, Any]:
    """The cells of a candidate; `hit` is True if it was published, False if not, None if it was not tested."""
    found = next((each for each in chosen if each.name == name), Chosen(name, None))
    return {"hit": found in chosen if tested else None, "score": found.score, "solution": found.solution}


# Answers of tests of many groups: one result for each group.


@dataclass(frozen=True)
class TestedKeys(Hits):
    """Groups that were tested, in the order they were listed.

    `above` maps each group that hit to its noisy value, or to None where no values are published. The first `tested`
    groups were tested; the rest are `untested` because the hits that could be paid for ran out. `error_bar` is half the
    width of the 95 % interval of values with noise of their own. It is None where they were published because of their
    noise, too.
    """

    # A module of tests that imports it must not have it collected.
    __test__ = False
    also = "others_at_most error_bar"

    above: Mapping[Key, Value | None]
    tested: int
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)
    silence: Silence | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> Mapping[Any, Value | None]:
        """The groups that hit, with their noisy values; a key of one column is a scalar."""
        return {scalar(key): value for key, value in self.above.items()}

    def cells(self, position: int) -> dict[str, Any]:
        key = self.keys[position]
        value, hit = self.above.get(key), key in self.above if position < self.tested else None
        return {"hit": hit, "value": value} | says(value, self.publication, self.error_bar)

    def together(self, confidence: Number = CONFIDENCE) -> dict[Any, Ends]:
        """Intervals of all groups that were tested, published or not, which all hold at once with `confidence`.

        For a group that was not published the upper end bounds its true value. Half of the allowed failure probability
        is for published groups; the other half is split evenly among all groups. The interval is (None, None) for a
        group of which nothing is known."""
        half = 1 - (1 - probability(confidence, "confidence")) / 2
        found = self.findings
        known = dict(zip((each.key for each in found), found.intervals(half, simultaneous=True), strict=True))
        rest: Ends = self._silence(half)
        silent = {scalar(key): rest for key in self.keys[: self.tested] if key not in self.above}
        return {key: known.get(key, silent.get(key, (None, None))) for key in map(scalar, self.keys[: self.tested])}

    @property
    def others_at_most(self) -> Value | None:
        """An upper bound on the values of all groups that were tested and not published, with 95 % confidence.

        None where nothing is known of them, or none was tested.
        """
        return self._silence(CONFIDENCE)[1] if self.tested > len(self.above) else None

    def _silence(self, confidence: Fraction) -> Ends:
        """The interval of each group that was not published; all of them hold at once with this confidence."""
        if self.silence is None:
            return None, None
        return self.silence.truths(confidence_of_each(confidence, len(self.keys)))


@dataclass(frozen=True)
class WatchResult(TestedKeys):
    """The groups whose values were at or above a threshold, in the order they were listed.

    `above` maps each group that hit to its noisy value; the first `tested` groups were tested, the rest are `untested`
    because the hits that were paid for ran out.
    """

    above: dict[Key, Value]

    @property
    def bar(self) -> float | None:
        """The threshold, where a value was published because it reached it; None where values have fresh noise."""
        told = self.publication
        lowest = None if told is None else told.support.lowest
        return None if told is None or lowest is None else float(lowest * Fraction(told.grid))

    @property
    def value(self) -> dict[Any, Value]:
        """The groups that hit, with their noisy values."""
        return {scalar(key): value for key, value in self.above.items()}
