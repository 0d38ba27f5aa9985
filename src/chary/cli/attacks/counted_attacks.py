"""`chary attack reconstruction` and `low-bits`: what noisy counts give away if the noise is too small or not exact."""

from typing import Annotated, Any

import typer

from chary import audit
from chary.charts import check_picture
from chary.cli.attacks.attack_options import Epsilons, Plot, Seed, Sessions, app, progress_of, results, short
from chary.cli.commands import Found, plainly

People = Annotated[int, typer.Option(help="People, each with a secret bit.")]
Counts = Annotated[int | None, typer.Option(help="Counts of random groups (default: 4 for each of the people).")]
Off = Annotated[int | None, typer.Option(help="How far rounded counts are off (default: a quarter of the root).")]
Least = Annotated[int, typer.Option("--people", help="The count, if it is not one more.")]


@app.command()
@plainly
def reconstruction(
    epsilon: Epsilons = "0.1,1,10,100",
    people: People = 100,
    counts: Counts = None,
    off: Off = None,
    sessions: Sessions = 3,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find everybody's bit from many counts of random groups."""
    if plot is not None:
        check_picture(plot)
    common: dict[str, Any] = {"people": people, "counts": counts, "off": off, "sessions": sessions, "seed": seed}
    sizes = epsilon.split(",")
    with progress_of("solving", len(sizes)) as told:
        found = [audit.reconstruction(epsilon=size, on_progress=told(k), **common) for k, size in enumerate(sizes)]
    if plot is not None:
        audit.draw_reconstruction(found, plot)
    rows = [(f.epsilon, *map(short, (f.exact, f.rounded, f.private, f.baseline, f.limit))) for f in found]
    columns = ["epsilon", "exact counts", "rounded", "session", "commoner bit", "limit"]
    yield results(found, columns, rows, f"Share of {people} bits found")


@app.command("low-bits")
@plainly
def low_bits(
    epsilon: Epsilons = "0.01,0.1,1,4",
    people: Least = 0,
    sessions: Sessions = 400,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Tell a count from one more by the last bits of noise in floating-point numbers."""
    if plot is not None:
        check_picture(plot)
    sizes = epsilon.split(",")
    common: dict[str, Any] = {"people": people, "sessions": sessions, "seed": seed}
    with progress_of("looking", len(sizes)) as told:
        found = [audit.low_bits(epsilon=size, on_progress=told(k), **common) for k, size in enumerate(sizes)]
    if plot is not None:
        audit.draw_low_bits(found, plot)
    rows = [(f.epsilon, *map(short, (f.naive_accuracy, f.certain, f.accuracy, f.low, f.high, f.limit))) for f in found]
    columns = ["epsilon", "floats", "certain", "session", "low", "high", "limit"]
    yield results(found, columns, rows, f"Share of right guesses between {people} and {people + 1}")
