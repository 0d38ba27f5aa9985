"""What tests of many keys hand out: a public answer for each key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from chary.accounting import Findings, Publication, Silence, confidence_of_each
from chary.accounting.intervals import CONFIDENCE
from chary.answers import Ends, Key, Table, Value, around, findings_of, in_row, scalar
from chary.numbers import Number, probability


@dataclass(frozen=True)
class TestedKeys(Table):
    """Keys tested in the order they were listed.

    `above` maps each key that hit to its noisy value, or to None where no values are published; the first `tested` keys
    were tested, the rest are `untested` because the hits that could be paid for ran out. `error_bar` is the half-width
    of the 95 % interval of values with noise of their own, None where they were published because of their noise too.
    """

    # A module of tests that imports it must not have it collected.
    __test__ = False

    above: Mapping[Key, Value | None]
    tested: int
    error_bar: float | None
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)
    silence: Silence | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def findings(self) -> Findings:
        return findings_of(self.call, self.value, self.publication)

    @property
    def value(self) -> Mapping[Any, Value | None]:
        """The keys that hit, with their noisy values; a key of one column is a scalar."""
        return {scalar(key): value for key, value in self.above.items()}

    @property
    def hit(self) -> bool:
        return bool(self.above)

    @property
    def hits(self) -> int:
        """How many keys were found above."""
        return len(self.above)

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys left when the hits that could be paid for had run out."""
        return self.keys[self.tested :]

    def states(self) -> list[bool | None]:
        """True above, False below, None untested, one for each key."""
        return [self._state(position) for position in range(len(self.keys))]

    def _state(self, position: int) -> bool | None:
        return self.keys[position] in self.above if position < self.tested else None

    def cells(self, position: int) -> dict[str, Any]:
        value = self.above.get(self.keys[position])
        told = None if value is None else self.publication
        caution = None if told is None else told.caution(value or 0)
        return {"hit": self._state(position), "value": value} | in_row(self.interval_of(value)) | {"caution": caution}

    def interval_of(self, value: Value | None) -> Ends | None:
        """What a value of a key that hit says, 95 times in 100, given that it was published; see `Answer.interval`."""
        if value is None or self.publication is None:
            return around(value, self.error_bar)
        return self.publication.interval(value)

    def together(self, confidence: Number = CONFIDENCE) -> dict[Any, Ends]:
        """Intervals of all keys that were tested, published or not, which all hold at once with `confidence`.

        Of a key that was not published it says how large its truth can be at most. Half of the failures allowed is for
        what was published, half for what was not, and that in equal parts for all keys. Without ends for keys of which
        nothing is known.
        """
        half = 1 - (1 - probability(confidence, "confidence")) / 2
        found = self.findings
        known = dict(zip((each.key for each in found), found.intervals(half, simultaneous=True), strict=True))
        rest: Ends = self._silence(half)
        silent = {scalar(key): rest for key in self.keys[: self.tested] if key not in self.above}
        return {key: known.get(key, silent.get(key, (None, None))) for key in map(scalar, self.keys[: self.tested])}

    @property
    def others_at_most(self) -> Value | None:
        """How large the truths of all keys that were tested and not published are at most, 95 times in 100 all at once.

        None where nothing is known of them, or none of them was tested.
        """
        return self._silence(CONFIDENCE)[1] if self.tested > len(self.above) else None

    def _silence(self, confidence: Fraction) -> Ends:
        """What is known of each key that was not published, of all of them at once."""
        if self.silence is None:
            return None, None
        return self.silence.truths(confidence_of_each(confidence, len(self.keys)))


@dataclass(frozen=True)
class WatchResult(TestedKeys):
    """What a watch found. Keys appear in the order they were listed.

    `above` maps each key that hit to its noisy value; the first `tested` keys were tested, the rest are `untested`
    because the hits that were paid for ran out.
    """

    above: dict[Key, Value]

    @property
    def bar(self) -> float | None:
        """The threshold, where the values that reached it say what they do because of it."""
        told = self.publication
        lowest = None if told is None else told.support.lowest
        return None if told is None or lowest is None else float(lowest * Fraction(told.grid))

    @property
    def value(self) -> dict[Any, Value]:
        """The keys that hit, with their noisy values."""
        return {scalar(key): value for key, value in self.above.items()}
