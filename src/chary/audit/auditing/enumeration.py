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
# Where the outcome changes between two words is found to 2^-22 of all words; what lies between is lost.
RESOLUTION: Final = 2**42
# Further requests that come as seldom as that, such as the rest of a long Laplace tail, are not followed.
SELDOM: Final = 1e-4
MOST_LOST: Final = 1e-3
# A draw of Laplace noise asks for words once, or again with a chance of e^-11.
MOST_REQUESTS: Final = 3
MOST_WORDS: Final = 3
# A second or so; calls that take more are sampled.
MOST_RUNS: Final = 20_000
# Words of an ordinary run, on which most calls that draw too much give themselves away.
ORDINARY: Final = (2**62 + 12345,) * 256
LOST: Final = "lost"
# The law after a word that leads to a further request, until it is clear how many words do.
OPEN: Final[Law] = {"open": 1.0}


class TooMany(CharyError):  # noqa: N818 - errors of chary say what happened
    """The outcomes of a call cannot be enumerated: it draws too much."""


class _OutOfWords(Exception):  # noqa: N818 - it ends a run, and is no error
    """A run asks for more words than are scripted."""


class _Scripted:
    """A source of the words that it is given, and no others: it was asked `requests` times for `drawn` words in all,
    and if there were too few, for one of `wanted` bits."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self._left = list(reversed(given))
        self.wanted: int | None = None
        self.requests = self.drawn = 0

    def words(self, count: int, bits: int) -> Words:
        """The next ones."""
        self.requests += 1
        self.drawn += count
        if len(self._left) < count:
            self.wanted = bits
            raise _OutOfWords
        return np.array([self._left.pop() % 2**bits for _ in range(count)], dtype=np.dtype(f"u{bits // 8}"))


class Enumeration:
    """The law of `run(source)`, whatever it draws, if it draws few words.

    A word of 64 bits is looked up among ascending cut points, so the words with one outcome are neighbours: what is
    alike for two words is alike between them, and each cut point is found by halving. Words of 8 bits are all tried.
    Errors: `TooMany` for longer runs, and for words of other widths, whose outcomes need not be neighbours.

    >>> from fractions import Fraction
    >>> from chary import noise
    >>> law = Enumeration(lambda source: noise.RationalLaw([Fraction(1, 4), Fraction(3, 4)]).draw(source)).law()
    >>> round(law["0"], 6), round(law["1"], 6)
    (0.25, 0.75)
    """

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run, self._runs = run, 0

    def law(self) -> Law:
        """The chance of each outcome, as canonical JSON; of `LOST`, what was not followed to its end. A chance is at
        most by that too low."""
        ordinary = _Scripted(ORDINARY)
        with suppress(_OutOfWords):
            self._run(ordinary)
        if ordinary.requests > MOST_REQUESTS or ordinary.drawn > MOST_WORDS:
            raise TooMany("this call draws too often to be enumerated")
        found = self._after((), 1, resolve=True)
        if found.get(LOST, 0.0) > MOST_LOST:
            raise TooMany("this call draws too many words in a row to be enumerated")
        return found

    def _after(self, given: tuple[int, ...], request: int, *, resolve: bool) -> Law:
        """The law once these words are drawn, the last of them for this request; where there is a further one it stays
        `OPEN` unless it is to be resolved."""
        self._runs += 1
        if self._runs > MOST_RUNS:
            raise TooMany("this call draws too much to be enumerated")
        source = _Scripted(given)
        try:
            outcome = canonical_outcome(self._run(source))
        except Exception:
            if source.wanted is None:
                raise
        # Algorithms that somebody brings turn whatever is raised in them into an error or an outcome of their own.
        if source.wanted is None:
            return {outcome: 1.0}
        if source.requests > MOST_REQUESTS:
            return {LOST: 1.0}
        if source.requests > request and not resolve:
            return OPEN
        return self._drawn(given, source.wanted, source.requests)

    def _drawn(self, given: tuple[int, ...], bits: int, request: int) -> Law:
        """The law over all words that may come next."""
        if bits == 8:
            return _mixed([(1 / 256, self._after((*given, word), request, resolve=True)) for word in range(256)])
        if bits != 64:
            raise TooMany("this call draws words whose outcomes cannot be ordered")

        def after(word: int, resolve: bool) -> Law:
            return self._after((*given, word), request, resolve=resolve)

        return _mixed(_between(after, 0, WORD - 1, resolve=False))


def _between(after: Callable[[int, bool], Law], start: int, end: int, *, resolve: bool) -> list[tuple[float, Law]]:
    """The laws after each word from one to another, with the share of words that have them."""

    def parts(low: tuple[int, Law], high: tuple[int, Law]) -> list[tuple[float, Law]]:
        (first, left), (last, right) = low, high
        share = (last - first) / WORD
        if left == right:
            if left is not OPEN:
                return [(share, left)]
            return [(share, {LOST: 1.0})] if share < SELDOM else _between(after, first, last, resolve=True)
        if last - first <= RESOLUTION:
            return [(share, {LOST: 1.0})]
        middle = (first + last) // 2
        there = middle, after(middle, resolve)
        return parts(low, there) + parts(there, high)

    return parts((start, after(start, resolve)), (end, after(end, resolve)))


def _mixed(parts: list[tuple[float, Law]]) -> Law:
    found: dict[str, float] = defaultdict(float)
    for share, law in parts:
        for outcome, chance in law.items():
            found[outcome] += share * chance
    return dict(found)
