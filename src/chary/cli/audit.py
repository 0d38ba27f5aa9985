"""`chary audit`: lower bounds on the epsilon of every kind of call, next to what it claims."""

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary.audit import Audited, audit_kinds
from chary.audit.auditor import named, worst_cases
from chary.cli import commands, output
from chary.errors import InvalidParameter

Kinds = Annotated[list[str] | None, typer.Argument(help="Kinds of calls, such as test or sparse_test.")]
Everything = Annotated[bool, typer.Option("--all", help="Every kind.")]
COLUMNS = ["kind", "claimed", "delta", "measured", "half the noise", "", "transcripts", "seconds"]
# As for a ledger that does not verify: something is wrong with what was asked about, and nothing was refused.
BROKEN = 2


@commands.plainly
def audit(
    kinds: Kinds = None,
    everything: Everything = False,
    quick: bool = False,
    transcripts: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
) -> commands.Found:
    """Try to show that kinds of calls are less private than they claim. Exit code 2 if one is.

    Each is asked about its worst two neighbours. Where its outcomes can be enumerated the audit is exact; otherwise it
    is a lower bound from transcripts that is wrong once in a million. The next column is the same audit of half the
    noise. "a hit" is the cost of a hit, in log-moment, which is audited at the filter's order.

    quick: One kind of each sort, in a minute.
    transcripts: Transcripts on each neighbour, where outcomes are sampled.
    seed: The same seed gives the same figures.
    jobs: Processes that share the work (default: one a processor for --all).
    """
    wanted = _wanted(kinds or [], everything, quick)
    found, shared = [], jobs or (os.cpu_count() or 1 if everything else 1)
    with Progress(console=output.errors, transient=True, disable=not output.errors.is_terminal) as progress:
        task = progress.add_task("auditing", total=len(wanted))
        for each in audit_kinds(wanted, transcripts=transcripts, seed=seed, jobs=shared):
            found.append(each)
            progress.update(task, advance=1, description=f"auditing: {each.kind} done")
    yield commands.Shown({"audits": [each.as_dict() for each in found]}, lambda _: _show(found))
    if not all(each.passed for each in found):
        raise typer.Exit(BROKEN)


def _wanted(kinds: Sequence[str], everything: bool, quick: bool) -> list[str]:
    """The names of what is to be audited."""
    if everything + quick + bool(kinds) != 1:
        raise InvalidParameter(f"name kinds, or take --all or --quick; kinds are {', '.join(worst_cases())}")
    if everything:
        return list(worst_cases())
    if quick:
        return [kind for kind, case in worst_cases().items() if case.quick]
    return [case.kind for case in named(kinds)]


def _show(found: Sequence[Audited]) -> None:
    output.show_table(COLUMNS, [_row(each) for each in found], "Epsilon that was claimed, and that was shown")
    wrong = [each.kind for each in found if not each.passed]
    output.console.print(
        f"Less private than claimed: {', '.join(wrong)}" if wrong else "Nothing was shown against any claim."
    )


def _row(found: Audited) -> tuple[Any, ...]:
    power = "-" if found.power is None else f"{found.power:.3f}"
    told = "BROKEN" if not found.passed else "caught" if found.caught else "not caught"
    runs = "exact" if found.exact else f"{found.transcripts:,}"
    return (
        found.kind,
        f"{found.claimed:.3f}",
        f"{found.delta:g}",
        f"{found.measured:.3f}",
        power,
        told,
        runs,
        f"{found.seconds:.1f}",
    )
