"""`chary demo`: the main job on the built-in data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chary.cli.asking.options import AsJson
from chary.cli.output import console, show_json, show_table
from chary.demo import BUDGET, Story, draw, run
from chary.numbers import plain
from chary.session import Session, plain_composition
from chary.session.reporting import Entry, plainly_composed
from chary.words import percent

Folder = Annotated[Path, typer.Option(help="Where the panel, the ledger and the picture go.")]


def demo(output: Folder = Path("demo-output"), as_json: AsJson = False) -> None:
    """A growing health-insurance panel, watched, asked, interrupted, reopened, plotted; about ten seconds."""
    story = run(output, _quiet if as_json else lambda line: console.print(f"  {line}"))
    with story.open() as session:
        history, spent, paid = session.history, session.spent, plain_composition(session)
        picture = output / "demo.png"
        draw(story.points, history, _plain_shares(history), picture)
        if as_json:
            show_json(_figures(story, session, picture))
            return
        rows = [_row(*part) for part in _by_kind(history).items()]
        show_table(["kind", "calls", "tests", "hits", "misses", "charged", "each charge"], rows, "Budget")
        console.print(f"spent {spent} of {BUDGET}")
        console.print(f"plain composition would have charged {paid.calls} times: epsilon {plain(paid.epsilon)}")
        console.print(session.statement())
    console.print(f"{story.seconds:.1f} s; picture: {picture}; ledger: {story.ledger}")


def _quiet(line: str) -> None:
    """With --json nothing but the object is printed."""


def _by_kind(history: list[Entry]) -> dict[str, list[Entry]]:
    kinds: dict[str, list[Entry]] = {}
    for entry in history:
        name = f"{entry.kind} (interrupted)" if entry.state == "reserved" else entry.kind
        kinds.setdefault(name, []).append(entry)
    return kinds


def _row(kind: str, entries: list[Entry]) -> tuple[Any, ...]:
    tests, hits = sum(entry.tests for entry in entries), sum(entry.hits for entry in entries)
    charged = [entry.share for entry in entries if entry.share]
    each = percent(max(charged)) if charged else "free"
    return kind, len(entries), tests, hits, tests - hits, percent(sum(charged)), each


def _plain_shares(history: list[Entry]) -> list[float]:
    """What plain composition would have spent after each call, as a share of the budget."""
    return [plainly_composed(history[: done + 1], BUDGET).share for done in range(len(history))]


def _figures(story: Story, session: Session, picture: Path) -> dict[str, Any]:
    spent, paid = session.spent, plain_composition(session)
    return {
        "calls": len(session.history),
        "tests": sum(entry.tests for entry in session.history),
        "hits": sum(entry.hits for entry in session.history),
        "epsilon_per_call": story.epsilon_per_call,
        "spent": spent.as_dict(),
        "plain_composition": paid.epsilon,
        "seconds": story.seconds,
        "picture": str(picture),
        "ledger": str(story.ledger),
        "statement": session.statement(),
    }
