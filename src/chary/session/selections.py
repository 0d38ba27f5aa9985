"""What a selection hands out: the candidates that were published, with their noisy scores."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from chary.session.results import Key, Value


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
class Top:
    """The best candidates, best first; each was charged.

    `error_bar` is the half-width of the 95 % interval of any one key's noise, None for algorithms. Scores that were
    chosen for being large are too large by more than that more often.
    """

    call: int
    best: tuple[Chosen, ...]
    error_bar: float | None

    @property
    def names(self) -> list[Key | str]:
        """The keys or names, best first."""
        return [chosen.name for chosen in self.best]

    @property
    def scores(self) -> list[Value | None]:
        """The noisy scores, best first."""
        return [chosen.score for chosen in self.best]


@dataclass(frozen=True)
class Selected:
    """The algorithms that reached the bar, in the order they were listed; each was charged.

    The first `tested` of all `names` ran, the rest are `untested` because the hits that were paid for ran out.
    """

    call: int
    names: tuple[str, ...]
    above: tuple[Chosen, ...]
    tested: int

    @property
    def untested(self) -> tuple[str, ...]:
        """Algorithms left when the hits that were paid for had run out."""
        return self.names[self.tested :]


@dataclass(frozen=True)
class Coverage:
    """What a greedy coverage chose, in the order the candidates were listed; each was charged.

    The score of a chosen candidate is the noisy number of units it covers and none chosen before it does. `calls` are
    the numbers of the conditional releases of the first candidates of `names`; the rest are `untested`.
    """

    names: tuple[Key | str, ...]
    chosen: tuple[Chosen, ...]
    calls: tuple[int, ...]
    error_bar: float | None

    @property
    def covered(self) -> Value:
        """The noisy number of units covered by all that were chosen."""
        return sum(chosen.score or 0 for chosen in self.chosen)

    @property
    def untested(self) -> tuple[Key | str, ...]:
        """Candidates left when enough were chosen or the budget had run out."""
        return self.names[len(self.calls) :]
