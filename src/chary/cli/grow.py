"""`chary grow`: counts on a growing file, told again whenever it has grown enough, for one price paid at the start."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chary.cli.asking import Asked
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs, show_table
from chary.cli.waiting import asking
from chary.data import Count
from chary.errors import InvalidParameter, InvalidQuery
from chary.growing import CountsBox, draw_schedule
from chary.growing.plots import check_picture
from chary.session import PlannedRun, Schedule, ScheduledRun

More = Annotated[list[Path] | None, typer.Option("--append", help="Rows that arrive, one file after another.")]
All = Annotated[str | None, typer.Option("--schedule-epsilon", help="Epsilon of all runs together, for ever.")]
Rho = Annotated[str | None, typer.Option("--schedule-rho", help="Instead: their zCDP, with Gaussian noise.")]
Beta = Annotated[str | None, typer.Option(help="How often any error may ever be larger than told [default: 0.05].")]
Growth = Annotated[str | None, typer.Option(help="Rerun after growth by this share [default: least error].")]
Exponent = Annotated[str | None, typer.Option(help="Instead, with rho: rerun at every size, such as 0.1.")]
Earlier = Annotated[int | None, typer.Option("--schedule", help="Go on with the schedule of that call.")]
Picture = Annotated[Path | None, typer.Option(help="Draw the schedule to a file (PNG, PDF or SVG).")]
AHEAD = 5


@with_options
def grow(
    source: SourceOptions,
    budget: BudgetOptions,
    query: QueryOptions,
    append: More = None,
    schedule_epsilon: All = None,
    schedule_rho: Rho = None,
    beta: Beta = None,
    growth: Growth = None,
    exponent: Exponent = None,
    schedule: Earlier = None,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Counts of growing rows, told again as they grow; all of it is charged once, when it begins.

    The number of rows must be public: --each-row --relation replace. Bring the same question with --schedule.
    """
    terms: dict[str, Any] = {"epsilon": schedule_epsilon, "rho": schedule_rho, "growth": growth, "exponent": exponent}
    if schedule is not None and any(term is not None for term in (beta, budget.request, *terms.values())):
        raise InvalidParameter("a schedule keeps what it was opened with: give --schedule alone")
    if plot is not None:
        check_picture(plot)
    with asking(source, budget, CallOptions(epsilon_per_call="1"), query, targets=False) as asked:
        if not isinstance(asked.question, Count):
            raise InvalidQuery("a schedule tells counts: ask --count, with --by and --keys for several")
        terms |= {"beta": beta or "0.05", "request": budget.request} if schedule is None else {"call": schedule}
        made = _opened(asked, asked.question, terms)
        done = [made.run()]
        for file in append or []:
            asked.session.append(str(file))
            done.append(made.run())
        if plot is not None:
            draw_schedule(made, plot)
        figures = _figures(made, [run for run in done if run is not None])
        figures |= {"spent": asked.session.spent.as_dict()}
    (show_json if as_json else _show)(figures)


def _opened(asked: Asked, question: Count, terms: dict[str, Any]) -> Schedule:
    """A new schedule, with Gaussian noise for rho; or an earlier one, whose terms tell which noise it has."""
    opened = [entry.question for entry in asked.session.history if entry.call == terms.get("call")]
    gaussian = terms["rho"] is not None or any("rho" in question for question in opened)
    return asked.session.schedule(CountsBox(question, gaussian), **terms)


def _figures(schedule: Schedule, done: list[ScheduledRun]) -> dict[str, Any]:
    latest = schedule.latest
    first = 0 if latest is None else latest.run + 1
    return {
        "schedule": schedule.call,
        "done": [_told(run) for run in done],
        "latest": None if latest is None else _told(latest),
        "next": [_planned(run) for run in schedule.table(AHEAD, first=first)],
    }


def _told(run: ScheduledRun) -> dict[str, Any]:
    answer = run.answer
    values = [answer.value] if hasattr(answer, "value") else list(answer.values)
    return {"run": run.run, "size": run.size, "epsilon": float(run.epsilon), "values": values}


def _planned(run: PlannedRun) -> dict[str, Any]:
    names = ("run", "size", "epsilon", "error", "staleness")
    return {name: getattr(run, name) for name in names}


def _show(figures: dict[str, Any]) -> None:
    columns = ("run", "size", "epsilon", "values")
    show_table(columns, [[run[name] for name in columns] for run in figures["done"]], "Runs done now")
    ahead = figures["next"]
    show_table(list(ahead[0]), [list(run.values()) for run in ahead], "Next runs")
    show_pairs({"schedule": figures["schedule"], "spent": figures["spent"]})
