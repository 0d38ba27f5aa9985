"""All hits of a ledger at once: intervals that hold together, and a list with a stated share of false ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chary.accounting import Finding, Findings
from chary.session.public_report.published_values import PublishedValue

# Of the hits to act on at most one in ten is false on average.
RATE: Final = Fraction(1, 10)


@dataclass(frozen=True)
class SimultaneousHit:
    """A hit with its value: its interval among all hits, its p-value, whether it is one of those to act on, and
    a caution where that interval reaches what is held back."""

    call: int
    value: PublishedValue
    low: int | float | None
    high: int | float | None
    p_value: float | None
    listed: bool
    caution: str | None


def simultaneous_hits(
    hits: Sequence[tuple[int, PublishedValue]], confidence: Fraction, tell: Callable[[int], None]
) -> list[SimultaneousHit]:
    """The hits in the order of their calls, with intervals that all hold together.

    Guarantee: with probability `confidence` every interval of the whole list covers its truth, however the questions
    were chosen and however many more will come, see `Findings.intervals`. Those that are listed have an expected share
    of false ones of at most one in ten (`Findings.list`, the procedure for any analyst).
    """
    told = [(call, value, value.finding) for call, value in hits if value.finding is not None]
    found = Findings.of((_of_call(call, finding) for call, _, finding in told), open=True)
    rows = found.rows(confidence, simultaneous=True)
    listed = {(alarm.call, alarm.key) for alarm in found.list(fdr=RATE)}
    made = []
    for place, ((call, value, finding), row) in enumerate(zip(told, rows, strict=True), 1):
        chosen = (call, finding.key) in listed
        made.append(SimultaneousHit(call, value, row["low"], row["high"], row["p_value"], chosen, row["caution"]))
        tell(place)
    return made


def _of_call(call: int, finding: Finding) -> Finding:
    """Under the number of the call that told it: a revision tells what an earlier one held back."""
    return Finding(call, finding.key, finding.value, finding.told)
