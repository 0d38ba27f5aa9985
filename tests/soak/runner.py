"""Runs the attacks for so many minutes, shows how far they are, and prints what they found."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.soak.damage import damage
from tests.soak.figures import Figures, Until
from tests.soak.interrupts import interrupts
from tests.soak.kills import kills
from tests.soak.marked import calculators, long_tests
from tests.soak.mutation.mutants import mutants
from tests.soak.neighbours import neighbours
from tests.soak.predicates import predicates
from tests.soak.racing_keys import racing_keys
from tests.soak.servers import servers
from tests.soak.whole.sessions import whole_sessions

Attack = Callable[[Until, Random], Figures]


@dataclass(frozen=True)
class Part:
    """An attack, its share of the time, and the least minutes of the whole at which it takes part."""

    attack: Attack
    weight: float
    least: float = 0.0


# From so many minutes on mutants take part, and tests that take as long as they take.
LONG = 20.0
PARTS = {
    "kills": Part(kills, 12),
    "servers": Part(servers, 2),
    "damage": Part(damage, 2),
    "keys": Part(racing_keys, 1),
    "interrupts": Part(interrupts, 2),
    "predicates": Part(predicates, 2),
    "neighbours": Part(neighbours, 2),
    "sessions": Part(whole_sessions, 8),
    "calculators": Part(calculators, 1),
    "mutants": Part(mutants, 4, least=LONG),
    "long tests": Part(long_tests, 0, least=LONG),
}


def run(parts: dict[str, Part], minutes: float, seed: int, progress: Progress) -> dict[str, tuple[Figures, float]]:
    """The figures and the seconds of every attack that takes part."""
    chosen = {name: part for name, part in parts.items() if minutes >= part.least}
    weights, found = sum(part.weight for part in chosen.values()), {}
    for name, part in chosen.items():
        task = progress.add_task(name, total=1.0)

        def heard(share: float, task=task) -> None:
            progress.update(task, completed=share, refresh=True)

        begun = time.monotonic()
        # The name is part of the seed, so that an attack alone repeats what it did among the others.
        figures = part.attack(Until(60 * minutes * part.weight / weights, heard=heard), Random(f"{seed} {name}"))
        found[name] = figures, time.monotonic() - begun
        heard(1.0)
    return found


def main() -> None:
    """The command: exits with 1 on a violation."""
    arguments = _arguments()
    chosen = PARTS
    if arguments.modules:
        chosen = {"mutants": Part(partial(mutants, modules=tuple(arguments.modules)), 1)}
    elif arguments.only:
        chosen = {arguments.only: replace(PARTS[arguments.only], weight=1, least=0)}
    # Drawn by hand and not by a thread of its own: the attacks fork.
    columns = (TextColumn("{task.description:>12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        found = run(chosen, arguments.minutes, arguments.seed, progress)
    if arguments.json:
        told = {name: {"seconds": round(seconds, 1), **figures.told()} for name, (figures, seconds) in found.items()}
        sys.stdout.write(json.dumps({"seed": arguments.seed, **told}, indent=1) + "\n")
    else:
        _show(found, arguments.seed)
    sys.exit(not all(figures.ok for figures, _ in found.values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, all attacks together")
    parser.add_argument("--only", choices=sorted(PARTS), help="one attack, for all of the time")
    parser.add_argument("--modules", nargs="+", help="mutants of these alone, such as 'filters/*.py'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    return parser.parse_args()


def _show(found: dict[str, tuple[Figures, float]], seed: int) -> None:
    table = Table("attack", "seconds", "violations", "figures", title=f"seed {seed}")
    for name, (figures, seconds) in found.items():
        counts = ", ".join(f"{number:,} {what}" for what, number in figures.counts.items() if what != "violations")
        table.add_row(name, f"{seconds:.0f}", str(figures.counts["violations"]), counts)
    console = Console(width=120)
    console.print(table)
    for name, (figures, _) in found.items():
        for violation in figures.violations:
            console.print(f"{name}: {violation}", markup=False, highlight=False)
