"""The values that calls published, together: intervals that all hold at once, and which of them to act on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any, ClassVar, Final, Literal, Protocol, get_args

from chary.accounting.intervals import (
    CONFIDENCE,
    Interval,
    Rule,
    benjamini_hochberg_list,
    confidence_at,
    confidence_of_each,
    e_value_list,
    online_list,
    spending_list,
)
from chary.errors import InvalidParameter
from chary.numbers import Number, between, plain, probability, set_fields, whole

_SHOWN: Final = 50
Procedure = Literal["online", "spending", "e-values", "benjamini-hochberg"]
ANY_ANALYST: Final = "for questions chosen by earlier answers too, wherever one stops"
_RULES: Final[dict[str, tuple[Rule, str]]] = {
    "online": (online_list, f"an expected share of false ones of at most {{}}, {ANY_ANALYST} (LOND)"),
    "spending": (spending_list, f"none of them is false but with probability {{}}, {ANY_ANALYST}"),
    "e-values": (e_value_list, f"an expected share of false ones of at most {{}}, {ANY_ANALYST} (e-BH)"),
    "benjamini-hochberg": (
        benjamini_hochberg_list,
        "an expected share of false ones of at most {}, if all these questions were fixed before the first answer",
    ),
}


class Inference(Protocol):
    """How a value was published, and the inference about its truth: `Publication`, `LargestOf`, `Combination`."""

    at_once: ClassVar[bool]
    """Whether the intervals of all values of a call hold together as they are."""

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """Where the truth lies."""

    def p_value(self, value: Number) -> float | None:
        """How surprising the value is if its truth is one that is withheld; None where nothing is."""

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> str | None:
        """A warning in words if the value may be a false alarm; None if it may not."""


@dataclass(frozen=True)
class Finding:
    """A value that call `call` published, of `key` where it has one, and how it was published."""

    call: int
    key: Any
    value: int | float
    told: Inference = field(repr=False)

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval, given that the value was published."""
        return self.told.interval(self.value)

    @property
    def p_value(self) -> float | None:
        """How surprising the value is if it is a false alarm; None for an ordinary release, which is no alarm."""
        return self.told.p_value(self.value)

    @property
    def may_be_false(self) -> bool:
        """Whether its interval reaches a truth that is withheld."""
        return self.caution is not None

    @property
    def caution(self) -> str | None:
        """A warning, such as "may be a false alarm: no lower end"; None where `may_be_false` is False."""
        return self.told.caution(self.value)


@dataclass(frozen=True)
class Alarms:
    """The findings to act on, by a procedure, and what it guarantees of them."""

    findings: tuple[Finding, ...]
    level: float
    procedure: Procedure
    guarantee: str

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """Published values in the order in which they were published; `calls` holds those of each call.

    `most` is how many there can be at most where that was agreed before the first answer, else None. `open` says that
    more calls may follow that depend on these answers, as in a run or a ledger. `made` is how many tests were made so
    far where that is more than were published.

    >>> from chary.accounting import LaplaceLaw, Publication, Support
    >>> hit = Publication(LaplaceLaw(20), Support.at_least(100))
    >>> found = Findings.of(Finding(1, key, value, hit) for key, value in (("a", 400), ("b", 110), ("c", 260)))
    >>> [str(interval) for interval in found.intervals(simultaneous=True)]
    ['[318, 482]', '(-, 175]', '[178, 342]']
    >>> alarms = found.list(fdr="0.1")
    >>> [finding.key for finding in alarms], alarms.procedure
    (['a', 'c'], 'benjamini-hochberg')
    """

    calls: tuple[tuple[Finding, ...], ...]
    most: int | None = None
    open: bool = False
    made: int = 0

    def __post_init__(self) -> None:
        set_fields(self, calls=tuple(found for found in self.calls if found))
        if self.most is not None:
            self._agreed(self.most)

    @classmethod
    def of(
        cls, findings: Iterable[Finding], most: int | None = None, *, open: bool = False, made: int = 0
    ) -> "Findings":
        """The findings grouped by call, calls in the order of their numbers; the order within a call is kept."""
        found: dict[int, list[Finding]] = {}
        for finding in findings:
            found.setdefault(finding.call, []).append(finding)
        return cls(tuple(tuple(found[call]) for call in sorted(found)), most, open, made)

    def __iter__(self) -> Iterator[Finding]:
        return chain.from_iterable(self.calls)

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __len__(self) -> int:
        return sum(map(len, self.calls))

    def __str__(self) -> str:
        named = [(found, "" if found.key is None else f", {found.key}") for found in self[:_SHOWN]]
        lines = [
            f"call {found.call}{key}: {plain(found.value)}, interval {between(*found.interval)}"
            + ("" if found.caution is None else f", {found.caution}")
            for found, key in named
        ]
        return "\n".join([*lines, *([f"... and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else [])])

    def intervals(
        self, confidence: Number = CONFIDENCE, *, simultaneous: bool = False, tests: int | None = None
    ) -> Sequence[Interval]:
        """The interval of each value, given that it was published; with `simultaneous`, all of them hold at once.

        Guarantee: each covers its truth with `confidence`, or with `simultaneous` all cover with `confidence`, for
        questions chosen adaptively. The failures allowed are split. Among values of one call they are split evenly,
        given which were published. Among calls they are split by `6/(pi^2 j^2)` for the j-th that published something,
        wherever one stops. With `tests`, an upper bound that was fixed before the first (also `most`), they are split
        evenly among that many tests.

        Errors: `InvalidParameter` for a confidence outside (0, 1), and for fewer `tests` than values.
        """
        sure = self._sure(confidence, simultaneous, tests)
        return [finding.told.interval(finding.value, each) for finding, each in zip(self, sure, strict=True)]

    def _sure(self, confidence: Number, simultaneous: bool, tests: int | None) -> Sequence[Fraction]:
        """The confidence of each interval."""
        sure = probability(confidence, "confidence")
        if not simultaneous:
            if tests is not None:
                raise InvalidParameter("tests= is for all at once: say simultaneous=True as well")
            return [sure] * len(self)
        most = self.most if tests is None else self._agreed(tests)
        places = enumerate(self.calls, 1)
        return [self._share(sure, found, place, most) for place, found in places for _ in found]

    def _share(self, sure: Fraction, found: tuple[Finding, ...], place: int, most: int | None) -> Fraction:
        """The confidence of each value of the call that is the place-th to publish something."""
        parts = 1 if found[0].told.at_once else len(found)
        if most is not None:
            return 1 - (1 - sure) * Fraction(len(found), most * parts)
        return confidence_of_each(sure if self.settled else confidence_at(sure, place), parts)

    @property
    def settled(self) -> bool:
        """Whether all was asked before any of it was returned: one call, and no later one depends on its answer."""
        return len(self.calls) <= 1 and not self.open

    def _agreed(self, tests: int) -> int:
        if whole(tests, "tests") < (made := max(self.made, len(self))):
            raise InvalidParameter(f"tests is {tests}, but {made} were made already: say at least tests={made}")
        return tests

    @property
    def p_values(self) -> Sequence[float | None]:
        """The p-value of each; None for what is no alarm."""
        return [finding.p_value for finding in self]

    def list(self, *, fdr: Number, procedure: Procedure | None = None) -> Alarms:
        """The findings to act on, so that at most a fraction `fdr` of them is expected to be false alarms.

        `procedure` is "online", which holds for any analyst, or one of "spending", "e-values" and
        "benjamini-hochberg". Where none is said it is the last for the hits of one call, whose keys are fixed before
        its first answer, and else the first. Findings without a p-value are no alarms and are left out.

        Errors: `InvalidParameter` for a fraction outside (0, 1) and an unknown procedure.
        """
        level = probability(fdr, "fdr")
        name = procedure or ("benjamini-hochberg" if self.settled else "online")
        if name not in get_args(Procedure):
            raise InvalidParameter(f"procedure is one of {', '.join(get_args(Procedure))}")
        rule, promise = _RULES[name]
        hits = [(finding, p) for finding in self if (p := finding.p_value) is not None]
        chosen = rule([p for _, p in hits], level)
        found = tuple(hits[place][0] for place in chosen)
        return Alarms(found, float(level), name, promise.format(f"{plain(100 * level)} %"))

    def rows(self, confidence: Number = CONFIDENCE, *, simultaneous: bool = False) -> Sequence[dict[str, Any]]:
        """One dictionary a value: its call, key, value, interval, p-value and whether it may be a false alarm."""
        pairs = zip(self, self._sure(confidence, simultaneous, None), strict=True)
        return [_row(finding, sure) for finding, sure in pairs]

    def rows_together(self, confidence: Number = CONFIDENCE, tests: int | None = None) -> Sequence[dict[str, Any]]:
        """The same with the interval that holds together with those of all others, from `low_together` to
        `high_together`; `tests` as for `intervals`."""
        pairs = zip(self.rows(confidence), self.intervals(confidence, simultaneous=True, tests=tests), strict=True)
        return [row | {"low_together": ends.low, "high_together": ends.high} for row, ends in pairs]


def _row(finding: Finding, sure: Fraction) -> dict[str, Any]:
    told, value = finding.told, finding.value
    known = {"call": finding.call, "key": finding.key, "value": value} | told.interval(value, sure)._asdict()
    return known | {"p_value": finding.p_value, "caution": told.caution(value, sure)}
