"""The auditor: tries to show that a kind of call, or what somebody brings, is less private than it claims."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

from chary import noise
from chary.amounts import Amount
from chary.audit import enumeration, exact_audits, findings
from chary.audit.cases import choices, releases, runs, tests
from chary.audit.transcripts import Chained, OpenedUnder, Played, Script, WorstCase, opened_once, played
from chary.calls.algorithm import Algorithm
from chary.calls.call import Call
from chary.calls.compute import RunAlgorithm
from chary.data import CSVFormat, Neighbors, Rows
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import whole

# Auditing what somebody brings: an algorithm, a call or whole sessions, on two databases of theirs.

Asked = Algorithm | Call[Any] | Script
TRANSCRIPTS = 20_000


def audit(
    asked: Asked,
    here: Any,
    there: Any,
    *,
    privacy_unit: str | None,
    neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
    budget: Budget | None = None,
    filter: str | None = None,
    weaker: Asked | None = None,
    transcripts: int = TRANSCRIPTS,
    seed: int | None = None,
    columns: dict[str, str] | None = None,
    csv: CSVFormat | None = None,
    table: str | None = None,
) -> findings.Audited:
    """Try to show that `asked` is less private than it is charged for, on two databases that are neighbours.

    - `asked`: an `Algorithm`, a call, or a function of a session that returns all that an analyst has seen, as JSON. It
      gets a new session for each transcript.
    - `here`, `there`: what `chary.open` takes, and `privacy_unit`, `neighbors`, `table`, `columns`, `csv` likewise.
      That they are neighbours is what you say.
    - `budget`, `filter` of the sessions: with a `budget` a function is audited against the whole of it; without, and
      for algorithms and calls, against what the first transcripts were charged.
    - `weaker`: what should be caught, such as the same with half the noise; its finding is `power`.

    Guarantee: `measured` is more than the smallest epsilon that holds (at `delta`) with probability 1e-6 at most,
    whatever is audited. That holds for independent transcripts, so not for an algorithm that keeps state between runs.
    It proves nothing good: other neighbours, or other events, may show more. Your own algorithms are run `transcripts`
    times, wherever their randomness comes from; chary's own calls are enumerated where that is possible.

    With `seed` the noise is reproducible. The databases should be made up: findings about real ones are secret.
    Errors: those of `chary.open` and of what is asked; `InvalidParameter` for fewer than 8 transcripts.

    >>> from fractions import Fraction
    >>> from chary import noise
    >>> people = {"name": ["a", "b", "c"]}
    >>> def size(rows, source, scale):
    ...     return rows.num_rows + int(noise.discrete_laplace(source, Fraction(scale), 1)[0])
    >>> careless = Algorithm("size", size, epsilon=1, parameters={"scale": "1/3"})
    >>> import pyarrow as pa
    >>> found = audit(careless, pa.table(people), pa.table({"name": ["a", "b"]}), privacy_unit="name", seed=1)
    >>> found.claimed, found.passed, 2.5 < found.measured < 3
    (1.0, False, True)
    """

    how: dict[str, Any] = {"table": table, "columns": columns, "csv": csv}
    opened = partial(opened_once, here, there, neighbors, privacy_unit, **how)
    under = OpenedUnder() if budget is None else OpenedUnder(budget, filter)
    whole_budget = budget is not None and not isinstance(asked, (Algorithm, Call))
    ways = {1: _ask(asked), 2: _ask(asked if weaker is None else weaker)}
    case = WorstCase(_name(asked), ways.__getitem__, opened, lambda k: under, whole_budget)
    return audit_case(case, transcripts=transcripts, seed=seed, power=weaker is not None, sample=_brought(asked))


def _ask(asked: Asked) -> Call[Any] | Script:
    if isinstance(asked, Algorithm):
        return RunAlgorithm(asked)
    if not isinstance(asked, Call) and not callable(asked):
        raise InvalidParameter("audit an Algorithm, a call, or a function of a session")
    return asked


def _brought(asked: Any) -> bool:
    """Whether somebody's own algorithm is in it, whose randomness may come from elsewhere than its `source`."""
    if isinstance(asked, Mapping):
        asked = tuple(asked.values())
    if isinstance(asked, (list, tuple)):
        return any(map(_brought, asked))
    return isinstance(asked, Algorithm) or (isinstance(asked, Call) and any(map(_brought, vars(asked).values())))


def _name(asked: Asked) -> str:
    """How the finding names it."""
    if isinstance(asked, Algorithm):
        return asked.name
    return asked.kind if isinstance(asked, Call) else getattr(asked, "__name__", "sessions")


# Running audits: of kinds, and of whatever somebody brings.


def audit_case(
    case: WorstCase, *, transcripts: int | None = None, seed: int | None = 0, power: bool = True, sample: bool = False
) -> findings.Audited:
    """Audit one kind, and the same with half the noise: exactly where its outcomes can be enumerated, unless `sample`.

    An enumeration follows all words of the `source`, so it takes what draws from nothing else.
    """
    began = time.perf_counter()
    with case.opened() as pair:
        # Everything public is to be the same: columns, types, unit, relation.
        if pair[0].fingerprint() != pair[1].fingerprint():
            return findings.Audited(case.kind, 0, 0, math.inf, None, True, "how the rows are read", 0, 0)
        try:
            if sample:
                raise enumeration.TooMany("what draws from elsewhere has no list of outcomes")
            found = _enumerated(case, pair, power)
        except enumeration.TooMany:
            if case.priced:
                raise
            times = whole(case.usual if transcripts is None else transcripts, "transcripts", least=8)
            found = _sampled(case, pair, times, seed, power)
    return replace(found, seconds=time.perf_counter() - began)


def _enumerated(case: WorstCase, pair: tuple[Rows, Rows], power: bool) -> findings.Audited:
    asked = case.ask(1)
    if not isinstance(asked, Call) and not ((case.priced or case.law) and isinstance(asked, Chained)):
        raise enumeration.TooMany("whole sessions are sampled")
    exact = (
        exact_audits.exactly
        if isinstance(asked, Call)
        else exact_audits.of_run
        if case.priced
        else exact_audits.by_own_law
    )
    found = exact(case, pair, 1)
    weaker = exact(case, pair, 2).measured if power else None
    return findings.Audited(case.kind, found.claimed, found.delta, found.measured, weaker, True, found.event, 0, 0)


def _sampled(case: WorstCase, pair: tuple[Rows, Rows], times: int, seed: int | None, power: bool) -> findings.Audited:
    source = source_of(seed)
    sides = sampled(case, 1, pair, source, times)
    epsilon, delta = promised(case, sides)
    shown = against(case, sides, delta)
    weaker = against(case, sampled(case, 2, pair, source, times), delta).epsilon if power else None
    return findings.Audited(case.kind, epsilon, delta, max(0.0, shown.epsilon), weaker, False, shown.score, times, 0)


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
    return filter_.promised(Amount(*(max(getattr(side, name) for side in sides) for name in ("charged", "failure"))))


def against(case: WorstCase, sides: list[Played], delta: float) -> findings.Proof:
    """What the transcripts show."""
    here, there = (side.outcomes if case.seen is None else [*map(case.seen, side.outcomes)] for side in sides)
    return findings.most_shown(*findings.matrices(here, there), delta)


def source_of(seed: int | None) -> noise.Source:
    """Reproducible noise, or that of the operating system."""
    return noise.OperatingSystem() if seed is None else noise.Seeded(seed)


# Audits of many kinds, each in a process of its own if there are several.


def audit_kinds(
    kinds: Sequence[str] | None = None,
    *,
    transcripts: int | None = None,
    seed: int | None = 0,
    power: bool = True,
    jobs: int = 1,
) -> Iterator[findings.Audited]:
    """Audit kinds of calls (default: all), each on its worst neighbours, and again with half the noise.

    Where outcomes can be enumerated `transcripts` counts at no cost. `jobs` processes share the work; findings come in
    the order of the kinds. Errors: `InvalidParameter` for an unknown kind, fewer than 8 transcripts and no jobs.

    >>> [found] = audit_kinds(["majority"])
    >>> found.exact, round(found.claimed, 2), round(found.measured, 2), round(found.power, 2), found.passed
    (True, 1.0, 1.0, 2.0, True)
    """
    wanted = [case.kind for case in (worst_cases().values() if kinds is None else named(kinds))]
    if transcripts is not None:
        whole(transcripts, "transcripts", least=8)
    if whole(jobs, "jobs") == 1:
        yield from (_audited(kind, transcripts, seed, power) for kind in wanted)
        return
    # Engines do not outlive a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        asked = [pool.submit(_audited, kind, transcripts, seed, power) for kind in wanted]
        yield from (each.result() for each in asked)


def _audited(kind: str, transcripts: int | None, seed: int | None, power: bool) -> findings.Audited:
    return audit_case(worst_cases()[kind], transcripts=transcripts, seed=seed, power=power)


# Every kind of call that is audited, by its name.


@cache
def worst_cases() -> dict[str, WorstCase]:
    """All of them; some kinds have several, such as one for what a hit costs.

    >>> {"test", "release", "sparse_test"} <= worst_cases().keys()
    True
    """
    found = [
        *releases.NUMBERS,
        *releases.SUMS,
        *choices.CHOICES,
        *choices.CANDIDATES,
        *tests.THRESHOLDS,
        *tests.SPARSE_VECTORS,
        *runs.RUNS,
        *runs.SKETCHES,
    ]
    return {case.kind: case for case in found}


def named(kinds: Sequence[str]) -> list[WorstCase]:
    """Those of these names, where "test" also stands for "test: a hit"; `InvalidParameter` for an unknown one."""
    found = []
    for kind in kinds:
        meant = [case for name, case in worst_cases().items() if name == kind or name.startswith(f"{kind}: ")]
        if not meant:
            raise InvalidParameter(f"there is no kind {kind!r} to audit, only {', '.join(worst_cases())}")
        found += meant
    return list({case.kind: case for case in found}.values())
