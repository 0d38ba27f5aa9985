"""The values that an answer published, each with what it says given that it was published."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from chary.accounting import Publication, Support
from chary.answer import Answer, Ends, Table
from chary.errors import InvalidParameter
from chary.session.public_report.rebuilding import Rebuilt
from chary.spine.interaction import Interaction, error_bar

USUAL: Final = Fraction(19, 20)
# The cells of a row under which a value may stand, and those that are told of it in columns of their own.
_VALUES: Final = ("value", "score")


@dataclass(frozen=True)
class PublishedValue:
    """A number that was published; `key` names it within its answer, "" where it is the only one.

    `low` and `high` are its interval given that it was published; `bounded` says whether it has one at all, so that an
    end that is None is no end on that side. `may_be_false` is a hit without a lower end.
    """

    key: str
    value: int | float
    low: int | float | None
    high: int | float | None
    bounded: bool
    publication: Publication | None = field(default=None, repr=False, compare=False)

    @property
    def may_be_false(self) -> bool:
        """Whether the truth may lie anywhere below the bar."""
        return self.bounded and self.low is None

    @property
    def selected(self) -> bool:
        """Whether it was published because of how it came out."""
        return self.publication is not None and self.publication.support != Support.everything()


def values_of_answer(rebuilt: Rebuilt, confidence: Fraction) -> tuple[PublishedValue, ...]:
    """The numbers of an answer, with intervals that hold with this confidence each.

    Where the law of the noise is not at hand an interval is told at the usual confidence only, never stretched.
    """
    answer = rebuilt.answer
    if not isinstance(answer, Answer):
        return tuple(_stored(answer)) if confidence == USUAL else ()
    chosen, ordinary = getattr(answer, "publication", None), _ordinary(rebuilt.interaction, answer)
    return tuple(
        # Scores that were chosen for being large have an error bar, and no interval by themselves.
        _value(key, value, ends, chosen or (None if ends is None else ordinary), confidence)
        for key, value, ends in _numbers(answer)
        if _is_number(value)
    )


def _numbers(answer: Answer) -> Iterator[tuple[str, Any, Ends | None]]:
    if not isinstance(answer, Table):
        yield "", answer.value, answer.interval if _is_number(answer.value) else None
        return
    for key, row in zip(answer.keys, answer.rows(), strict=True):
        value = next((row[name] for name in _VALUES if name in row), None)
        ends = (row.get("low"), row.get("high"))
        yield ", ".join(map(str, key)), value, None if ends == (None, None) else ends


def _value(key: str, value: Any, ends: Ends | None, told: Publication | None, confidence: Fraction) -> PublishedValue:
    if told is not None:
        try:
            return PublishedValue(key, value, *interval_of(told, value, confidence), True, told)
        except InvalidParameter:  # of another noise or support after all: what the answer itself says holds
            pass
    if ends is None or confidence != USUAL:
        return PublishedValue(key, value, None, None, False)
    return PublishedValue(key, value, *ends, True)


def interval_of(told: Publication, value: int | float, confidence: Fraction) -> Ends:
    """`told.interval(value, confidence)`; for what is always published by the reach of its noise, which is kept."""
    if told.support != Support.everything() or told.step is not None:
        return told.interval(value, confidence)
    reach = float((told.noise.reach_up((1 - confidence) / 2) - 1) * Fraction(told.grid))
    return value - reach, value + reach


def _ordinary(interaction: Interaction | None, answer: Any) -> Publication | None:
    """How a value with noise of its own came to be published, if its error bar is that of this noise."""
    bar = getattr(answer, "error_bar", None)
    accuracy = None if interaction is None or bar is None else interaction.accuracy()
    if accuracy is None or error_bar(accuracy) != bar:
        return None
    noise, grid = accuracy
    try:
        return Publication(noise.law(), grid=grid)
    except InvalidParameter:  # noise beyond what the law is worked out for
        return None


def _stored(answer: Any) -> Iterator[PublishedValue]:
    """A value as an answer stores it beside its error bar."""
    found: dict[str, Any] = answer if isinstance(answer, dict) else {}
    value: Any = found.get("value")
    bar: Any = found.get("error_bar")
    if _is_number(value) and _is_number(bar):
        yield PublishedValue("", value, value - bar, value + bar, True)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
