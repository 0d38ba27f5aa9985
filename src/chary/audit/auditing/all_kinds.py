"""Audits of many kinds, each in a process of its own if there are several."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from chary.audit.auditing.audit_findings import Audited
from chary.audit.auditing.running import audit_case
from chary.audit.worst_cases.all_cases import named, worst_cases
from chary.numbers import whole


def audit_kinds(
    kinds: Sequence[str] | None = None,
    *,
    transcripts: int | None = None,
    seed: int | None = 0,
    power: bool = True,
    jobs: int = 1,
) -> Iterator[Audited]:
    """Audit kinds of calls (default: all), each on its worst neighbours, and again with half the noise.

    Where outcomes can be enumerated `transcripts` counts for nothing. `jobs` processes share the work; findings come in
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


def _audited(kind: str, transcripts: int | None, seed: int | None, power: bool) -> Audited:
    return audit_case(worst_cases()[kind], transcripts=transcripts, seed=seed, power=power)
