"""The exact distribution of what a call publishes, by its own code on every run of random words that matters."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from chary.calls.algorithm import canonical_outcome
from chary.errors import CharyError
from chary.noise import Seeded
from chary.noise.source import Words

Law = dict[str, float]
WORD: Final = 2**64
# Where the outcome changes between two words is found to 2^-22 of all words; what lies between is lost.
RESOLUTION: Final = 2**42
# Further requests that come as seldom as that, such as the rest of a long Laplace tail, are not followed.
SELDOM: Final = 1e-4
MOST_LOST: Final = 1e-3
# Two draws of a label ask four times; Laplace noise asks once for two words, or again with a probability of e^-11.
MOST_REQUESTS: Final = 4
# Words of more than 8 bits.
MOST_WORDS: Final = 3
# Words of 8 bits that lead on are taken for alike where this many runs that go on alike end alike, and two of their
# distributions.
PROBES: Final = 8
# A second or so; calls that take more are sampled.
MOST_RUNS: Final = 20_000
# Words of an ordinary run: most calls that draw too much are recognised by it.
ORDINARY: Final = (2**62 + 12345,) * 256
LOST: Final = "lost"
# What may follow a word of 8 bits, spread over all words.
CONTINUED: Final = [
    tuple((place * 0x9E3779B97F4A7C15 + word * 0xD1B54A32D192ED03) % WORD for word in range(64))
    for place in range(1, PROBES + 1)
]
# The distributions after a word that leads to a further request of this many bits, until it is clear how many words do.
OPEN: Final[dict[int, Law]] = {bits: {f"open {bits}": 1.0} for bits in (8, 16, 32, 64)}


class TooMany(CharyError):  # noqa: N818 - errors of chary say what happened
    """The outcomes of a call cannot be enumerated: it draws too much."""


class _OutOfWords(Exception):  # noqa: N818 - it ends a run, and is no error
    """A run asks for more words than are scripted."""


class _Scripted:
    """A source that returns the given words only. It counts its `requests`, and the words of more than 8 bits that
    were `drawn`. Where the words run out, `wanted` is the width in bits that was asked for. With a `rest`, the seed of
    a source, all requests but the first get words of that source."""

    def __init__(self, given: tuple[int, ...], rest: int | None = None) -> None:
        self._left, self._rest = list(reversed(given)), None if rest is None else Seeded(rest)
        self.wanted: int | None = None
        self.requests = self.drawn = 0

    def words(self, count: int, bits: int) -> Words:
        """The next ones."""
        if self._rest is not None and self.requests:
            return self._rest.words(count, bits)
        self.requests += 1
        self.drawn += count * (bits > 8)
        if len(self._left) < count:
            self.wanted = bits
            raise _OutOfWords
        return np.array([self._left.pop() % 2**bits for _ in range(count)], dtype=np.dtype(f"u{bits // 8}"))


class Enumeration:
    """The distribution of `run(source)`, whatever it draws, if it draws few words.

    A word of 64 bits is looked up among ascending cut points, so the words with one outcome are neighbours. What is
    alike for two words is alike between them, and each cut point is found by halving. Words of 8 bits are all tried.
    With a `rest`, the seed of a source, only what is drawn first is followed, and the rest comes from there. That is
    enough where all that is reported follows from the first draw.

    Errors: `TooMany` for longer runs, and for words of other widths, whose outcomes need not be neighbours.

    >>> from fractions import Fraction
    >>> from chary import noise
    >>> law = Enumeration(lambda source: noise.RationalLaw([Fraction(1, 4), Fraction(3, 4)]).draw(source)).law()
    >>> round(law["0"], 6), round(law["1"], 6)
    (0.25, 0.75)
    """

    def __init__(self, run: Callable[[Any], Any], rest: int | None = None) -> None:
        self._run, self._rest, self._runs = run, rest, 0

    def law(self) -> Law:
        """The probability of each outcome, as canonical JSON; of `LOST`, what was not followed to its end. A
        probability is at most by that too low."""
        ordinary = self._given(ORDINARY)
        with suppress(_OutOfWords):
            self._run(ordinary)
        if ordinary.requests > MOST_REQUESTS or ordinary.drawn > MOST_WORDS:
            raise TooMany("this call draws too often to be enumerated")
        found = self._after((), 1, resolve=True)
        if found.get(LOST, 0.0) > MOST_LOST:
            raise TooMany("this call draws too many words in a row to be enumerated")
        return found

    def _after(self, given: tuple[int, ...], request: int, *, resolve: bool) -> Law:
        """The distribution of outcomes given these words, the last of which is for this request. What follows a further
        request stays `OPEN` unless `resolve`."""
        source = self._given(given)
        outcome = self._outcome(source)
        if outcome is not None or source.wanted is None:
            return {str(outcome): 1.0}
        if source.requests > MOST_REQUESTS:
            return {LOST: 1.0}
        if source.requests > request and not resolve:
            return OPEN[source.wanted]
        return self._drawn(given, source.wanted, source.requests)

    def _given(self, words: tuple[int, ...]) -> _Scripted:
        return _Scripted(words, self._rest)

    def _outcome(self, source: _Scripted) -> str | None:
        """What a run publishes, as canonical JSON; None where it wants more words."""
        self._runs += 1
        if self._runs > MOST_RUNS:
            raise TooMany("this call draws too much to be enumerated")
        outcome = None
        try:
            outcome = canonical_outcome(self._run(source))
        except Exception:
            if source.wanted is None:
                raise
        # Algorithms that somebody brings turn whatever is raised in them into an error or an outcome of their own.
        return outcome if source.wanted is None else None

    def _drawn(self, given: tuple[int, ...], bits: int, request: int) -> Law:
        """The distribution over all words that may come next."""
        if bits == 8:
            return _mixed([(len(like) / 256, self._alike(given, like, request)) for like in self._groups(given)])
        if bits != 64:
            raise TooMany("this call draws words whose outcomes cannot be ordered")

        def after(word: int, resolve: bool) -> Law:
            return self._after((*given, word), request, resolve=resolve)

        return _mixed(_between(after, 0, WORD - 1, resolve=False))

    def _groups(self, given: tuple[int, ...]) -> list[list[int]]:
        """The words of 8 bits, grouped by what seems to be one distribution of outcomes."""
        found: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
        for word in range(256):
            found[self._probed((*given, word))].append(word)
        return list(found.values())

    def _probed(self, given: tuple[int, ...]) -> tuple[str | None, ...]:
        """The outcome if nothing more is drawn; otherwise the outcomes of some runs that go on alike."""
        first = self._outcome(self._given(given))
        return (first,) if first is not None else tuple(self._outcome(self._given(given + more)) for more in CONTINUED)

    def _alike(self, given: tuple[int, ...], like: list[int], request: int) -> Law:
        """The distribution after any of these words, found at the first and at the last; `TooMany` where they
        differ."""
        first, last = (self._after((*given, word), request, resolve=True) for word in (like[0], like[-1]))
        if first != last:
            raise TooMany("this call draws words of 8 bits that are not told apart by what follows")
        return first


def _between(after: Callable[[int, bool], Law], start: int, end: int, *, resolve: bool) -> list[tuple[float, Law]]:
    """The distributions after each word from one to another, with the proportion of words that have them."""
    parts: list[tuple[float, Law]] = []
    for first, last, law in _stretches(after, start, end, resolve=resolve):
        share = (last - first) / WORD
        if law not in OPEN.values():
            parts.append((share, law))
        elif share < SELDOM:
            parts.append((share, {LOST: 1.0}))
        else:
            parts += _between(after, first, last, resolve=True)
    return parts


def _stretches(after: Callable[[int, bool], Law], start: int, end: int, *, resolve: bool) -> list[tuple[int, int, Law]]:
    """The ranges of words with one distribution, in order; words between two ranges count as lost."""
    found: list[tuple[int, int, Law]] = []

    def add(first: int, last: int, law: Law) -> None:
        if found and found[-1][2] == law:
            first = found.pop()[0]
        found.append((first, last, law))

    def halved(low: tuple[int, Law], high: tuple[int, Law]) -> None:
        (first, left), (last, right) = low, high
        if left == right:
            add(first, last, left)
        elif last - first <= RESOLUTION:
            add(first, last, {LOST: 1.0})
        else:
            middle = (first + last) // 2
            there = middle, after(middle, resolve)
            halved(low, there)
            halved(there, high)

    halved((start, after(start, resolve)), (end, after(end, resolve)))
    return found


def _mixed(parts: list[tuple[float, Law]]) -> Law:
    found: dict[str, float] = defaultdict(float)
    for share, law in parts:
        for outcome, chance in law.items():
            found[outcome] += share * chance
    return dict(found)
