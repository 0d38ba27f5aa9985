"""`chary alert`: what is watched as rows arrive: opened, asked, listed, shown."""

from pathlib import Path
from typing import Any, Final

import typer

from chary.answers import Table
from chary.calls import Alert, Run
from chary.calls.alerts import AlertRun, state_of
from chary.charts import Chart, check_picture, plotter, spot_of
from chary.cli import output
from chary.cli.commands import Found, Picture, Shown
from chary.cli.forms import Form, in_options
from chary.cli.kinds import asked
from chary.cli.rows import ROWS, Stated, of_form, on_rows
from chary.cli.runs import At, Number
from chary.errors import InvalidParameter
from chary.report.content import question_told
from chary.session import Session

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Watch a number as rows arrive: open, ask, list and show alerts.",
)


def _new(stated: Stated) -> Found:
    """Open an alert, and print what an episode costs and which true values raise false alarms. Opening is free.

    Example: chary alert new meters --count --where "kwh >= 250" --above 400 --clear-below 380 --hits 20
    """
    quoted = stated.session.quote(stated.call())
    for shown in asked(stated):

        def people(figures: dict[str, Any]) -> None:
            output.show_answer({name: figure for name, figure in figures.items() if name != "quote"})
            for line in quoted.lines():
                output.console.print(in_options(line), soft_wrap=True, markup=False)

        yield Shown(shown.figures | {"quote": quoted.as_dict()}, people)


def _ask(stated: Stated, *, run: Number, at: At = None) -> Found:
    """Ask whether an alert is quiet or active in the present rows. Only a change is charged.

    Example: chary alert ask meters 7 --at 2024-01-14
    """
    answer = _alert(stated.session, run).ask(at=at, request=stated.request)
    yield Shown(stated.told(answer, Alert.kind) | stated.charged(None, answer.charged))


def _list(stated: Stated) -> Found:
    """List the alerts of a dataset, oldest first: states, reports, and the changes that the budget pays for."""
    held = [each.call for each in stated.session.runs if each.kind == Alert.kind]
    rows = [_row(_alert(stated.session, number)) for number in held]
    yield Shown({"alerts": rows}, lambda _: output.show_tables({"alerts": [_plainly(row) for row in rows]}))


def _show(stated: Stated, *, run: Number, plot: Picture = None) -> Found:
    """Show an alert and its changes: when it fired and cleared, with values and intervals. Free.

    Example: chary alert show meters 7 --plot alert.png
    """
    alert = _alert(stated.session, run)
    if plot is not None:
        check_picture(plot)
    record = stated.session.spine.ledger.call
    rows = [
        {"time": output.moment(record(told.call).created)} | row
        for told in alert.state.transitions
        for row in _changes(told)
    ]
    yield Shown({"changes": rows} | _row(alert), lambda figures: output.show_tables(_plainly(figures)))
    if plot is not None:
        _draw(alert, rows, plot)


def _alert(session: Session, number: int) -> AlertRun:
    found: Run[Any, Any] = session.resume(number)
    if not isinstance(found, AlertRun):
        raise InvalidParameter(f"call {number} opened no alert: see chary alert list")
    return found


def _row(alert: AlertRun) -> dict[str, Any]:
    """An alert as a line: what it watches, its state, and what it reported so far."""
    opened, state = alert.opened, alert.state
    results, changes = state.results, state.transitions
    active = {"active": list(state.active)} if isinstance(state.active, tuple) else {"state": state_of(state.active)}
    return {
        "run": alert.call,
        "watches": question_told({name: said for name, said in opened.body().items() if name not in _BESIDE}),
        **active,
        "version": state.version,
        "skipped": list(state.skipped),
        "answers": len(results),
        "changes_so_far": len(changes),
        "changed_at": changes[-1].version if changes else None,
        "changes_left": alert.changes_left,
        "severity": opened.severity,
        "note": opened.note,
    }


def _plainly(row: dict[str, Any]) -> dict[str, Any]:
    """With the groups that are active in one cell, and versions that were skipped where there are any."""
    told = row | {"skipped": ", ".join(map(str, row["skipped"])) or None}
    return told if "active" not in row else told | {"active": ", ".join(map(str, row["active"])) or "none"}


def _changes(told: Any) -> list[dict[str, Any]]:
    """What changed in one answer, a line a group."""
    figures = told.figures()
    if not isinstance(told, Table):
        return [{name: figures[name] for name in _CHANGE}]
    place = {name: figures[name] for name in ("version", "window", "call")}
    return [row | place for row in figures[told.noun] if row.pop("changed")]


# What is told of an alert in columns of its own.
_BESIDE: Final = ("severity", "note")
_CHANGE: Final = ("version", "window", "state", "value", "low", "high", "caution", "call")


def _draw(alert: AlertRun, rows: list[dict[str, Any]], plot: Path) -> None:
    """The values of its changes in order; say so where none was published."""
    valued = [row for row in rows if row["value"] is not None]
    if not valued:
        output.errors.print(f"no picture: no value was published; {plot} was not written", markup=False)
        return
    spots = [
        spot_of(" ".join(map(str, [*row.get("key", ()), row["version"]])), row["value"], (row["low"], row["high"]))
        for row in valued
    ]
    title = alert.opened.note or f"Alert {alert.call}"
    plotter().save(Chart("line", title, tuple(spots), float(alert.opened.above), "version"), plot)


new = of_form(Form(Alert), _new, _new.__doc__, "new")
for _name, _command in {
    "new": new,
    "ask": on_rows(_ask, ROWS, "ask"),
    "list": on_rows(_list, ROWS, "list"),
    "show": on_rows(_show, ROWS, "show"),
}.items():
    app.command(_name)(_command)
