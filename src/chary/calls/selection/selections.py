"""What a selection hands out: the candidates that were published, with their noisy scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chary.accounting import Finding, Findings, LargestOf, Publication
from chary.answers import Key, Table, Value, findings_of, in_row, scalar


class Chosen(NamedTuple):
    """A published candidate: a key, an algorithm's name or a condition; its noisy score; an algorithm's solution.

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
    95 times in 100, whatever the data. Scores of algorithms have none.
    """

    best: tuple[Chosen, ...]
    told: LargestOf | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, self.value, self.told)

    @property
    def value(self) -> dict[Any, Value | None]:
        """The candidates that were published, best first, with their noisy scores."""
        return {scalar(key): chosen.score for key, chosen in zip(self.keys, self.best, strict=True)}

    @property
    def hit(self) -> bool:
        return bool(self.best)

    @property
    def names(self) -> list[Key | str]:
        """The keys or names, best first."""
        return [chosen.name for chosen in self.best]

    @property
    def scores(self) -> list[Value | None]:
        """The noisy scores, best first."""
        return [chosen.score for chosen in self.best]

    def cells(self, position: int) -> dict[str, Any]:
        best = self.best[position]
        interval = None if self.told is None or best.score is None else self.told.interval(best.score)
        return {"score": best.score} | in_row(interval) | {"solution": best.solution}


@dataclass(frozen=True)
class Selected(Table):
    """The candidates that reached the bar, in the order they were listed; each was charged.

    The first `tested` of all `names` were tested, the rest are `untested` because the hits that were paid for ran out.
    The interval of a count is true 95 times in 100, given that it was published; scores of algorithms have none.
    """

    above: tuple[Chosen, ...]
    tested: int
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def value(self) -> dict[Key | str, Value | None]:
        """The candidates that reached the bar, with their scores."""
        return {chosen.name: chosen.score for chosen in self.above}

    @property
    def hit(self) -> bool:
        return bool(self.above)

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
        return found if self.publication is None else found | _says(self.publication, found["score"])

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, self.value, self.publication)


@dataclass(frozen=True)
class Gathered(Selected):
    """What a greedy choice took, in the order it was taken; each was charged.

    `calls` are the numbers of its steps, `call` the last of them.
    """

    calls: tuple[int, ...]


@dataclass(frozen=True)
class Coverage(Table):
    """What a greedy coverage chose, in the order the candidates were listed; each was charged.

    The score of a chosen candidate is the noisy number of units it covers and none chosen before it does; its interval
    is true 95 times in 100, given that it was chosen. `calls` are the numbers of the conditional releases of the first
    candidates of `names`, `call` the last of them; the rest are `untested`.
    """

    chosen: tuple[Chosen, ...]
    calls: tuple[int, ...]
    publication: Publication = field(repr=False, compare=False)
    names: tuple[Key | str, ...] = field(compare=False)
    most: int = field(compare=False)

    @property
    def value(self) -> dict[Key | str, Value | None]:
        """The candidates that were chosen, with what each adds."""
        return {chosen.name: chosen.score for chosen in self.chosen}

    @property
    def hit(self) -> bool:
        return bool(self.chosen)

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
        return told | _says(self.publication, told["score"])

    def _numbers(self) -> Sequence[int]:
        return self.calls


def _says(publication: Publication, score: Value | None) -> dict[str, Any]:
    """What a published count says of the truth."""
    if score is None:
        return in_row(None) | {"caution": None}
    return in_row(publication.interval(score)) | {"caution": publication.caution(score)}


def _told(chosen: Chosen | None) -> dict[str, Any]:
    return {"score": None, "solution": None} if chosen is None else {"score": chosen.score, "solution": chosen.solution}


def _state(name: Key | str, chosen: Sequence[Chosen], *, tested: bool) -> dict[str, Any]:
    """True for what was published, False for what was not, None for what was not tested."""
    found = next((each for each in chosen if each.name == name), None)
    return {"hit": found is not None if tested else None} | _told(found)
