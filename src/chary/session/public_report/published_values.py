"""The values that an answer published, each with what it says given that it was published."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Finding, Publication, Support
from chary.answers import Answer, Ends, Table, scalar
from chary.session.public_report.rebuilding import Rebuilt

USUAL: Final = Fraction(19, 20)
# The cells of a row under which a value may stand.
_VALUES: Final = ("value", "score")


@dataclass(frozen=True)
class PublishedValue:
    """A number that was published; `key` names it within its answer, "" where it is the only one.

    `low` and `high` are its interval given that it was published; `bounded` says whether it has one at all, so that an
    end that is None is no end on that side. `caution` says that it may be a false alarm,
    `finding` how it was published.
    """

    key: str
    value: int | float
    low: int | float | None
    high: int | float | None
    bounded: bool
    caution: str | None = None
    finding: Finding | None = field(default=None, repr=False, compare=False)

    @property
    def may_be_false(self) -> bool:
        """Whether its interval reaches what is held back."""
        return self.caution is not None


def values_of_answer(rebuilt: Rebuilt, confidence: Fraction) -> tuple[PublishedValue, ...]:
    """The numbers of an answer, with intervals that hold with this confidence each.

    Where the law of the noise is not at hand an interval is told if it holds so often, never stretched: that of
    quantiles as often as was paid for, others at the usual confidence.
    """
    answer = rebuilt.answer
    if not isinstance(answer, Answer):
        return tuple(_stored(answer)) if confidence == USUAL else ()
    paid = getattr(getattr(rebuilt.interaction, "call", None), "interval", None)
    held = confidence <= (USUAL if paid is None else paid)
    found = {finding.key: finding for finding in answer.findings}
    numbers = _numbers(answer)
    return tuple(
        _value(name, value, ends if held else None, found.get(key), confidence) for name, key, value, ends in numbers
    )


def _numbers(answer: Answer) -> Iterator[tuple[str, Any, Any, Ends | None]]:
    """The name, the key, the value and the usual interval of each number."""
    if not isinstance(answer, Table):
        if _is_number(answer.value):
            yield "", None, answer.value, answer.interval
        return
    for key, row in zip(answer.keys, answer.rows(), strict=True):
        value = next((row[name] for name in _VALUES if name in row), None)
        ends = (row.get("low"), row.get("high"))
        if _is_number(value):
            yield ", ".join(map(str, key)), scalar(key), value, None if ends == (None, None) else ends


def _value(name: str, value: Any, ends: Ends | None, found: Finding | None, confidence: Fraction) -> PublishedValue:
    if found is not None:
        low, high = interval_of(found, confidence)
        return PublishedValue(name, value, low, high, True, found.told.caution(value, confidence), found)
    if ends is None:
        return PublishedValue(name, value, None, None, False)
    return PublishedValue(name, value, *ends, True)


def interval_of(found: Finding, confidence: Fraction) -> Ends:
    """Its interval; by the reach of its noise, which is kept, for what is always published."""
    told, value = found.told, found.value
    plainly = isinstance(told, Publication) and told.support == Support.everything()
    if not plainly or not isinstance(told, Publication) or (told.step, told.floor, told.ceiling) != (None,) * 3:
        return told.interval(value, confidence)
    reach = float((told.noise.reach_up((1 - confidence) / 2) - 1) * Fraction(told.grid))
    return value - reach, value + reach


def _stored(answer: Any) -> Iterator[PublishedValue]:
    """A value as an answer stores it. What its error bar says given that it was published is not known."""
    found: dict[str, Any] = answer if isinstance(answer, dict) else {}
    value: Any = found.get("value")
    if _is_number(value):
        yield PublishedValue("", value, None, None, False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
