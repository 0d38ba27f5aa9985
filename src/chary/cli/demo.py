"""`chary demo`: the main job on the built-in data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chary.calls.run import titled
from chary.charts import plotter
from chary.cli.commands import AsJson
from chary.cli.output import console, show_json, show_table
from chary.demo import Story, run
from chary.demo.story import TESTS, THRESHOLD
from chary.errors import InvalidParameter
from chary.numbers import percent, priced
from chary.session import Session
from chary.session.statement import Entry

Folder = Annotated[Path, typer.Option(help="Folder for the panel, the ledger and the picture.")]


def demo(output: Folder = Path("demo-output"), as_json: AsJson = False) -> None:
    """Run an alarm system on a growing health-insurance panel: interrupted, reopened and plotted in 15 seconds."""
    story = run(output, _quiet if as_json else lambda line: console.print(f"  {line}", soft_wrap=True))
    with story.open() as session:
        picture = _picture(story, output / "demo.png")
        if as_json:
            show_json(_figures(story, session, picture))
        else:
            _show(story, session)
            told = "no picture without the extra plots" if picture is None else f"picture: {picture}"
            console.print(f"{story.seconds:.1f} s; {told}, ledger: {story.ledger}")


def _picture(story: Story, target: Path) -> Path | None:
    """The picture, where something can draw."""
    try:
        plotter("chary.demo.plot").draw(story, target)
    except InvalidParameter:
        return None
    return target


def _quiet(line: str) -> None:
    """With --json, only the object is printed."""


def _show(story: Story, session: Session) -> None:
    rows = [_row(*part) for part in _by_kind(session.history).items()]
    show_table(["kind", "calls", "tests", "hits", "misses", "charged", "each charge"], rows, "Budget")
    methods = [(each.name, f"{each.tests:,.0f}", f"{each.values:,.0f}") for each in story.methods]
    columns = ["the same guarantee", "error of all tests", "error of a value"]
    show_table(columns, methods, f"{TESTS:,} tests, 95 % confidence, in people")
    price = priced(session.spent.share, session.remaining.share)
    console.print(_hits(story), headline(story), price, session.statement(), sep="\n", soft_wrap=True)


def _hits(story: Story) -> str:
    false, covered = sum(hit.false for hit in story.hits), sum(hit.covered for hit in story.hits)
    return (
        f"{len(story.hits)} hits: {covered} of {len(story.hits)} intervals contain the truth, {false} false alarms "
        f"(truth below {THRESHOLD:,}; these data are public), {story.overlooked} missed by more than the tests' error"
    )


def headline(story: Story) -> str:
    """The result of the comparison.

    It follows from public numbers alone, so it is the same in every run.
    """
    best, other = story.methods[0], story.methods[1]
    return (
        f"chary answers {TESTS:,} overlapping threshold questions with an error of ±{best.tests:,.0f} people. "
        f"Independent Gaussian noise on all answers has ±{story.methods[-1].tests:,.0f} under the same guarantee, "
        f"{story.times:.1f} times as much; at ±{best.tests:,.0f} it could release only {story.answers:,}. "
        f"The best sparse vector has ±{other.tests:,.0f}."
    )


def _by_kind(history: list[Entry]) -> dict[str, list[Entry]]:
    kinds: dict[str, list[Entry]] = {}
    for entry in history:
        name = titled(entry.kind) + (" (interrupted)" if entry.state == "reserved" else "")
        kinds.setdefault(name, []).append(entry)
    return kinds


def _row(kind: str, entries: list[Entry]) -> tuple[Any, ...]:
    tests, hits = sum(entry.tests for entry in entries), sum(entry.hits for entry in entries)
    charged = [entry.share for entry in entries if entry.share]
    prices = (percent(sum(charged)), percent(max(charged))) if charged else ("free", "free")
    return kind, len(entries), tests, hits, tests - hits, *prices


def _figures(story: Story, session: Session, picture: Path | None) -> dict[str, Any]:
    return {
        "calls": len(session.history),
        "tests": sum(entry.tests for entry in session.history),
        "hits": len(story.hits),
        "false_alarms": sum(hit.false for hit in story.hits),
        "covered": sum(hit.covered for hit in story.hits),
        "overlooked": story.overlooked,
        "methods": [vars(method) for method in story.methods],
        "times": story.times,
        "released_as_precisely": story.answers,
        "spent": session.spent.as_dict(),
        "charged": session.spent.share,
        "remaining": session.remaining.share,
        "seconds": story.seconds,
        "picture": None if picture is None else str(picture),
        "ledger": str(story.ledger),
        "statement": session.statement(),
    }
