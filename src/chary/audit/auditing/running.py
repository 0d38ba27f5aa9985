"""Running audits: of kinds, and of whatever somebody brings."""

import math
import time
from dataclasses import replace

from chary import noise
from chary.audit.auditing.audit_findings import Audited
from chary.audit.auditing.composed import of_run
from chary.audit.auditing.distinguishing import Proof, most_shown
from chary.audit.auditing.enumeration import TooMany
from chary.audit.auditing.exactly import by_own_law, exactly
from chary.audit.auditing.outcome_numbers import matrices
from chary.audit.auditing.promises import claimed
from chary.audit.auditing.transcripts import Chained, Played, opened_alike, played
from chary.audit.worst_cases.worst_case import WorstCase
from chary.calls.call import Call
from chary.data import Rows
from chary.numbers import whole


def audit_case(case: WorstCase, *, transcripts: int | None = None, seed: int | None = 0, power: bool = True) -> Audited:
    """Audit one kind, and the same with half the noise: exactly where its outcomes can be enumerated."""
    began = time.perf_counter()
    with case.opened() as pair:
        if not opened_alike(*pair):
            return Audited(case.kind, 0, 0, math.inf, None, True, "how the rows are read", 0, 0)
        try:
            found = _enumerated(case, pair, power)
        except TooMany:
            if case.priced:
                raise
            times = whole(case.usual if transcripts is None else transcripts, "transcripts", least=8)
            found = _sampled(case, pair, times, seed, power)
    return replace(found, seconds=time.perf_counter() - began)


def _enumerated(case: WorstCase, pair: tuple[Rows, Rows], power: bool) -> Audited:
    asked = case.ask(1)
    if not isinstance(asked, Call) and not ((case.priced or case.law) and isinstance(asked, Chained)):
        raise TooMany("whole sessions are sampled")
    exact = exactly if isinstance(asked, Call) else of_run if case.priced else by_own_law
    found = exact(case, pair, 1)
    weaker = exact(case, pair, 2).measured if power else None
    return Audited(case.kind, found.claimed, found.delta, found.measured, weaker, True, found.event, 0, 0)


def _sampled(case: WorstCase, pair: tuple[Rows, Rows], times: int, seed: int | None, power: bool) -> Audited:
    source = source_of(seed)
    sides = sampled(case, 1, pair, source, times)
    epsilon, delta = promised(case, sides)
    shown = against(case, sides, delta)
    weaker = against(case, sampled(case, 2, pair, source, times), delta).epsilon if power else None
    return Audited(case.kind, epsilon, delta, max(0.0, shown.epsilon), weaker, False, shown.score, times, 0)


def sampled(case: WorstCase, strength: int, pair: tuple[Rows, Rows], source: noise.Source, times: int) -> list[Played]:
    """The transcripts on both neighbours."""
    asked, terms = case.ask(strength), case.terms(strength)
    return [played(asked, rows, terms, source, times) for rows in pair]


def promised(case: WorstCase, sides: list[Played]) -> tuple[float, float]:
    """What is claimed: the whole budget, or the more that was charged on either neighbour, or what an outcome says."""
    filter_ = sides[0].filter
    if case.says is not None:
        return case.says(sides[0].outcomes[0]), 0.0
    if case.whole:
        epsilon, delta = filter_.budget.exact
        return float(epsilon), float(delta)
    main, failure = (max(getattr(side, name) for side in sides) for name in ("charged", "failure"))
    return claimed(filter_, main, failure)


def against(case: WorstCase, sides: list[Played], delta: float) -> Proof:
    """What the transcripts show."""
    here, there = (side.outcomes if case.seen is None else [*map(case.seen, side.outcomes)] for side in sides)
    return most_shown(*matrices(here, there), delta)


def source_of(seed: int | None) -> noise.Source:
    """Reproducible noise, or that of the operating system."""
    return noise.OperatingSystem() if seed is None else noise.Seeded(seed)
