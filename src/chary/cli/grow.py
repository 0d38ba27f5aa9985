"""`chary rerun`: counts on a growing file, published again when it has grown enough, for one cost paid at the start.

A command that was interrupted continues when it is repeated: the same words continue the same schedule. A file that is
appended has an idempotency key, made of its place, its contents, and how many times the command named such a file
before. The key could confirm a guess of the rows, so it is kept next to the rows alone, in the DuckDB file.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from chary.calls import PlannedRun, Rerun, Run
from chary.calls.schedules import ScheduledRun, ScheduleState
from chary.charts import check_picture, plotter
from chary.cli import commands, output, session
from chary.cli.append import added
from chary.cli.rows import ROWS, Stated, on_rows
from chary.data import Count, RowTable
from chary.errors import InvalidParameter, InvalidQuery, NotPriced
from chary.growth import CountsBox
from chary.numbers import exact, plain, positive

More = Annotated[
    list[Path] | None,
    typer.Option("--append", help="Files of new rows, in order; - reads file names from standard input."),
]
Again = Annotated[
    str | None,
    typer.Option(help="Append files again that were appended before; KEY makes this repeatable."),
]
All = Annotated[str | None, typer.Option("--epsilon", help="Epsilon of all runs together.")]
Rho = Annotated[
    str | None,
    typer.Option("--rho", help="zCDP of all runs, by Gaussian noise, instead of --epsilon."),
]
Beta = Annotated[str | None, typer.Option(help="Probability that an error is larger than stated (default: 0.05).")]
Growth = Annotated[str | None, typer.Option(help="Rerun after growth by this fraction (default: least error).")]
Exponent = Annotated[
    str | None,
    typer.Option(help="With --rho: rerun at every size, such as 0.1."),
]
Earlier = Annotated[int | None, typer.Option("--schedule", help="Continue the schedule of that call.")]
# Five runs ahead fit a terminal; one in twenty is what error bars mean everywhere else.
AHEAD, BETA = 5, "1/20"
STDIN = Path("-")
Step = tuple[ScheduledRun | None, dict[str, Any] | None]
NAMES = {"epsilon": "--epsilon", "rho": "--rho", "growth": "--growth"}
NAMES |= {"exponent": "--exponent", "beta": "--beta"}
NO_DELTA = "--rho is for budgets with a --budget-delta above 0: give one, or --epsilon"


def _grow(
    stated: Stated,
    *,
    append: More = None,
    append_again: Again = None,
    epsilon: All = None,
    rho: Rho = None,
    beta: Beta = None,
    growth: Growth = None,
    exponent: Exponent = None,
    schedule: Earlier = None,
    plot: commands.Picture = None,
) -> commands.Found:
    """Publish counts of growing rows again as they grow. All of it is charged once, at the start.

    The number of rows must be public: --row-level --neighbors replace. The same options continue the same schedule.

    Example: chary rerun visits.parquet --row-level --neighbors replace --budget-epsilon 1 --budget-delta 1e-6
    --rho 0.005 --count --by sex --keys f,m --append tuesday.csv
    """
    session.check_public_size(stated.source)
    said = {"epsilon": epsilon, "rho": rho, "growth": growth, "exponent": exponent, "beta": beta}
    terms = _terms(said, stated.budget, schedule)
    if plot is not None:
        check_picture(plot)
    follow = append == [STDIN]
    arriving = _keyed(map(Path, session.lines_of("-")) if follow else append or [], append_again)
    arriving = arriving if follow else iter(list(arriving))
    asked = stated.asked
    if not isinstance(asked.question, Count):
        raise InvalidQuery("a schedule publishes counts: ask --count, with --by and --keys for several")
    made = _opened(asked, asked.question, terms, stated.request)
    steps = _steps(asked, made, arriving)
    for part in ([step] for step in steps) if follow else [list(steps)]:
        figures = _figures(made, [run for run, _ in part if run is not None])
        figures |= {"appended": [batch for _, batch in part if batch is not None]}
        yield commands.Shown(figures | stated.charged(None, made.spent), _show)
        if plot is not None and made.state.results:
            plotter("chary.growth.plots").draw_counts(made.state.results, plot)


def _steps(
    asked: session.Opened, made: Run[Any, ScheduleState], arriving: Iterator[tuple[Path, str]]
) -> Iterator[Step]:
    """What is due now, and after each batch that arrives."""
    yield made.ask(), None
    for file, key in arriving:
        batch = _append(asked, file, key)
        yield made.ask(), batch


def _terms(said: dict[str, str | None], budget: commands.BudgetOptions, schedule: int | None) -> dict[str, Any]:
    """The options of a schedule as exact numbers, however they were written; or the call of an earlier one."""
    terms = {name: None if text is None else str(positive(text, NAMES[name])) for name, text in said.items()}
    if schedule is None:
        if (terms["epsilon"] is None) == (terms["rho"] is None):
            raise InvalidParameter("say what all runs together may cost: give --epsilon or --rho")
        if (
            terms["rho"] is not None
            and budget.budget_epsilon is not None
            and not exact(budget.budget_delta or 0, "--budget-delta")
        ):
            raise InvalidParameter(NO_DELTA)
        if terms["exponent"] is not None and (terms["rho"] is None or terms["growth"] is not None):
            raise InvalidParameter("--exponent goes with --rho, and without --growth")
        return terms | {"beta": terms["beta"] or BETA}
    if any(term is not None for term in (budget.request, *terms.values())):
        raise InvalidParameter("a schedule keeps what it was opened with: give --schedule alone")
    return dict.fromkeys(terms) | {"call": schedule}


def _opened(
    asked: session.Opened, question: Count, terms: dict[str, Any], request: str | None
) -> Run[Any, ScheduleState]:
    """A new schedule, with Gaussian noise for rho, or the one that the same words opened; or that of an earlier call,
    whose terms tell which noise it has."""
    spine, number = asked.session.spine, terms.get("call") or 0
    opened = spine.ledger.calls(spine.dataset, after=number - 1, before=number + 1)
    gaussian = terms["rho"] is not None or any("rho" in json.loads(call.body) for call in opened)
    box = CountsBox(question, gaussian)
    if "call" not in terms:
        # Ledgers hold the key of this text: its words stay in this order.
        size = {"rho": "1/2"} if gaussian else {"epsilon": "1"}
        told = json.dumps([{"query": question.body()} | size, terms])
        key = request or f"chary grow {hashlib.sha256(told.encode()).hexdigest()}"
    try:
        if "call" in terms:
            return asked.session.resume(terms["call"], bring=box)
        return asked.session.start(Rerun(box, **terms), request=key)
    except NotPriced:
        if gaussian and not asked.session.spine.filter.budget.exact[1]:
            raise InvalidParameter(NO_DELTA) from None
        raise


def _keyed(files: Iterable[Path], again: str | None) -> Iterator[tuple[Path, str]]:
    """Each file with the key of its batch. The place is part of it: two days may well have brought the same rows."""
    before: Counter[tuple[str, str]] = Counter()
    for file in files:
        if not file.is_file() or not os.access(file, os.R_OK):
            raise InvalidParameter(f"there is no file {file} to append, or none that can be read")
        with file.open("rb") as opened:
            contents = hashlib.file_digest(opened, "sha256").hexdigest()
        place = str(file.resolve())
        told = json.dumps([place, contents, before[place, contents], again])
        before[place, contents] += 1
        yield file, f"chary grow {hashlib.sha256(told.encode()).hexdigest()}"


def _append(asked: session.Opened, file: Path, key: str) -> dict[str, Any]:
    rows = asked.session.spine.rows
    kept = isinstance(rows, RowTable) and rows.keeps_batches
    return added(asked.session, str(file), str(file), key if kept else None)


def _figures(schedule: Run[Any, ScheduleState], done: list[ScheduledRun]) -> dict[str, Any]:
    latest = schedule.state.latest
    first = 0 if latest is None else latest.run + 1
    return {
        "schedule": schedule.call,
        "done": [_told(run) for run in done],
        "latest": None if latest is None else _told(latest),
        "next": [_planned(run) for run in schedule.state.table(AHEAD, first=first)],
    }


def _told(run: ScheduledRun) -> dict[str, Any]:
    numbers = list(run.answer.numbers())
    keys, values = [list(number.key) for number in numbers], [number.value for number in numbers]
    told = {"run": run.run, "size": run.size, "epsilon": float(run.epsilon), "values": values}
    return told | {"keys": keys if any(keys) else None, "error_bar": run.answer.error_bar}


def _planned(run: PlannedRun) -> dict[str, Any]:
    names = ("run", "size", "epsilon", "error", "staleness")
    return {name: getattr(run, name) for name in names}


def _show(figures: dict[str, Any]) -> None:
    if not figures["done"]:
        output.console.print("No run is due; these are the latest answers.")
    for run in figures["done"] or [figures["latest"]]:
        size = f", epsilon {plain(run['epsilon'])}" if output.VERBOSE.get() else ""
        output.console.print(f"Run {run['run']}, at {run['size']} rows{size}")
        keys = ["all"] if run["keys"] is None else [", ".join(map(str, key)) for key in run["keys"]]
        bars = [run["error_bar"]] * len(keys)
        output.show_table(["key", "noisy count", "error bar"], zip(keys, run["values"], bars, strict=True))
    ahead = [output.for_people(run) for run in figures["next"]]
    output.show_table(list(ahead[0]), [list(run.values()) for run in ahead], "Next runs")
    if old := [batch for batch in figures["appended"] if not batch["new"]]:
        names = ", ".join(f"{batch['file']} (version {batch['version']})" for batch in old)
        output.errors.print(
            f"appended before: {names}; --append-again KEY appends them once more", soft_wrap=True, markup=False
        )
    output.show_answer({name: figures[name] for name in ("schedule", "charged", "remaining", "spent")})


grow = on_rows(_grow, ROWS | {"query": commands.QueryOptions}, "rerun")
