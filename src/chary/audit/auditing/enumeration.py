"""The exact law of what a call publishes, found by running its own code on every run of random words that matters."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from chary.calls.algorithms.algorithm import canonical_outcome
from chary.errors import CharyError
from chary.noise.source import Words

Law = dict[str, float]
WORD: Final = 2**64
# Where the outcome changes between two words is found to 2^-40 of all words, which is the error of a probability.
RESOLUTION: Final = 2**24
# Outcomes with a chance of less than that on both neighbours are not audited, so that what is lost decides nothing.
RARE: Final = 1e-7
MOST_LOST: Final = 1e-9
# A draw of Laplace noise asks for words once, or again with a chance of e^-11; what asks more often is lost.
MOST_REQUESTS: Final = 2
# Some seconds; calls that take more are sampled.
MOST_RUNS: Final = 60_000
LOST: Final = "lost"


class TooMany(CharyError):
    """The outcomes of a call cannot be enumerated: it draws too much."""


class _OutOfWords(Exception):  # noqa: N818 - it ends a run, and is no error
    """A run asks for more words than are scripted."""


class _Scripted:
    """A source of the words that it is given, and no others: it was asked `requests` times, and if there were too few
    words, for one of `wanted` bits."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self._left = list(reversed(given))
        self.wanted: int | None = None
        self.requests = 0

    def words(self, count: int, bits: int) -> Words:
        """The next ones."""
        self.requests += 1
        if len(self._left) < count:
            self.wanted = bits
            raise _OutOfWords
        return np.array([self._left.pop() for _ in range(count)], dtype=np.dtype(f"u{bits // 8}"))


class Enumeration:
    """The law of `run(source)`, whatever it draws, if it draws few words.

    A word of 64 bits is looked up among ascending cut points, so the words with one outcome are neighbours: what is
    alike for two words is alike between them, and each cut point is found by halving. Words of 8 bits are all tried.
    Errors: `TooMany` for longer runs, and for words of other widths, whose outcomes need not be neighbours.

    >>> from fractions import Fraction
    >>> from chary import noise
    >>> law = Enumeration(lambda source: noise.RationalLaw([Fraction(1, 4), Fraction(3, 4)]).draw(source)).law()
    >>> {outcome: round(chance, 9) for outcome, chance in law.items()}
    {'0': 0.25, '1': 0.75}
    """

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run, self._runs = run, 0

    def law(self) -> Law:
        """The chance of each outcome, as canonical JSON; of `LOST`, what was not followed to its end."""
        found = self._after(())
        if found.get(LOST, 0.0) > MOST_LOST:
            raise TooMany("this call draws too many words in a row to be enumerated")
        return found

    def _after(self, given: tuple[int, ...]) -> Law:
        """The law once these words are drawn."""
        self._runs += 1
        if self._runs > MOST_RUNS:
            raise TooMany("this call draws too much to be enumerated")
        source = _Scripted(given)
        with suppress(_OutOfWords):
            outcome = canonical_outcome(self._run(source))
        # Algorithms that somebody brings turn whatever is raised in them into an outcome of its own.
        if source.wanted is None:
            return {outcome: 1.0}
        return {LOST: 1.0} if source.requests > MOST_REQUESTS else self._drawn(given, source.wanted)

    def _drawn(self, given: tuple[int, ...], bits: int) -> Law:
        """The law over all words that may come next."""
        if bits == 8:
            return _mixed([(1 / 256, self._after((*given, word))) for word in range(256)])
        if bits != 64:
            raise TooMany("this call draws words whose outcomes cannot be ordered")
        first, last = (self._after((*given, word)) for word in (0, WORD - 1))
        return _mixed(self._between(given, (0, first), (WORD - 1, last)))

    def _between(
        self, given: tuple[int, ...], low: tuple[int, Law], high: tuple[int, Law]
    ) -> list[tuple[float, Law]]:
        """The laws after each word from one to another, with the share of words that have them."""
        (start, left), (end, right) = low, high
        if left == right:
            return [((end - start) / WORD, left)]
        if end - start <= RESOLUTION:
            return [((end - start) / WORD / 2, left), ((end - start) / WORD / 2, right)]
        middle = (start + end) // 2
        there = middle, self._after((*given, middle))
        return self._between(given, low, there) + self._between(given, there, high)


def _mixed(parts: list[tuple[float, Law]]) -> Law:
    found: dict[str, float] = defaultdict(float)
    for share, law in parts:
        for outcome, chance in law.items():
            found[outcome] += share * chance
    return dict(found)
