"""Commands of attacks, for teaching and for tests of defences."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary.charts import check_picture
from chary.cli.commands import Found, Shown, plainly
from chary.cli.output import errors, show_pairs, show_table
from chary.demo.panel import first_year, of_year, people
from chary.errors import InvalidParameter
from chary.numbers import percent, whole
from chary_research import attacks
from chary_research.attacks import Power

# What the attacks share at the shell: their door, their options, how results and progress are shown.

app = typer.Typer(
    no_args_is_help=True,
    help="Attack exact answers, and see how far attacks get against a session. Results on secret data are secret.",
)
Epsilon = Annotated[str, typer.Option(help="Budget of each session.")]
Epsilons = Annotated[str, typer.Option(help="Budgets of the sessions, comma between them.")]
Delta = Annotated[str, typer.Option(help="Delta of each budget; above 0 the noise is Gaussian.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw a picture: a .png, .pdf or .svg file.")]
Sessions = Annotated[int, typer.Option(help="Simulated sessions.")]
People = Annotated[int, typer.Option(help="People in the table.")]
Members = Annotated[int, typer.Option("--rows", help="Members in each data set.")]


def results(found: list[Any], columns: list[str], rows: list[Any], title: str) -> Shown:
    """What all attacks of one command found: for people a table, for programs every figure."""
    return Shown({"results": [each.as_dict() for each in found]}, lambda _: show_table(columns, rows, title))


def pair(power: Power) -> tuple[str, str]:
    """How many members are found, and the area under the curve."""
    return short(power.tpr), short(power.auc)


def short(share: float) -> str:
    """A proportion, to a tenth of a per cent."""
    return f"{share:.3f}"


def _check(plot: Path | None) -> None:
    """Refuse a picture that cannot be written, before anything takes time."""
    if plot is not None:
        check_picture(plot)


def _for_each(doing: str, attack: Callable[..., Any], epsilons: Sequence[str], **common: Any) -> list[Any]:
    """What the attack finds at each of these epsilons, behind a progress bar."""
    with progress_of(doing, len(epsilons)) as told:
        return [attack(epsilon=size, on_progress=told(k), **common) for k, size in enumerate(epsilons)]


@contextmanager
def progress_of(doing: str, parts: int | None) -> Iterator[Callable[[int], Callable[[int, int], None]]]:
    """A threshold on the terminal: what comes in is called with the number of the part, and then with done and
    total."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(doing, total=parts)

        def of_part(part: int) -> Callable[[int, int], None]:
            return lambda done, total: progress.update(task, completed=part + done / total)

        yield of_part


# `chary attack linkage`, `differencing` and `membership`: on built-in, made-up or the caller's own data.

QUASI, SENSITIVE = "age,female,site,plan", "visits"
File = Annotated[Path | None, typer.Argument(help="CSV, Parquet or DuckDB file, one person a row (default: built in).")]
Quasi = Annotated[str | None, typer.Option(help="Public columns, comma between them.")]
Sensitive = Annotated[str | None, typer.Option(help="The column that is to be learned.")]
Table = Annotated[str | None, typer.Option(help="Table of a DuckDB file.")]
Repeats = Annotated[int, typer.Option(help="How often each count is asked, for equal parts of the budget.")]
Informed = Annotated[bool, typer.Option("--informed", help="The attacker knows everybody else's bits.")]
Attributes = Annotated[str, typer.Option(help="Numbers of attributes, comma between them.")]


@app.command()
@plainly
def linkage(
    file: File = None,
    quasi: Quasi = None,
    sensitive: Sensitive = None,
    table: Table = None,
    budget_epsilon: Epsilon = "1",
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Join a table without names with a register by public columns; then ask a session about the same people."""
    _check(plot)
    if file is not None and (quasi is None or sensitive is None):
        raise InvalidParameter("say what is public and what is not: --quasi age,sex,zip --sensitive income")
    public, secret = (quasi or QUASI).split(","), sensitive or SENSITIVE
    with progress_of("linking", None):
        rows = first_year() if file is None else str(file)
        found = attacks.linkage(rows, quasi=public, sensitive=secret, epsilon=budget_epsilon, table=table, seed=seed)
    if plot is not None:
        attacks.draw_linkage(found, plot)
    ones = enumerate(found.unique, 1)
    kinds = [(", ".join(public[:k]), unique, percent(unique / found.rows)) for k, unique in ones]

    def people(figures: dict[str, Any]) -> None:
        show_table(["public columns", "the only one of a kind", "share"], kinds)
        show_pairs({name: value for name, value in figures.items() if name not in ("unique", "quasi")})

    yield Shown(found.as_dict(), people)


@app.command()
@plainly
def differencing(
    budget_epsilon: Epsilons = "0.1,0.5,1,2,4",
    budget_delta: Delta = "0",
    people: People = 200,
    sessions: Sessions = 300,
    repeats: Repeats = 1,
    informed: Informed = False,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Guess one person's bit from two counts that differ in that person."""
    _check(plot)
    for size in budget_epsilon.split(","):
        attacks.guess_limit(size, budget_delta)
    common: dict[str, Any] = {"delta": budget_delta, "people": people, "sessions": sessions, "repeats": repeats}
    found = _for_each("asking", attacks.differencing, budget_epsilon.split(","), **common, informed=informed, seed=seed)
    if plot is not None:
        attacks.draw_differencing(found, plot)
    rows = [(f.epsilon, *map(short, (f.raw_accuracy, f.accuracy, f.low, f.high, f.limit))) for f in found]
    columns = ["epsilon", "exact counts", "session", "low", "high", "limit"]
    yield results(found, columns, rows, "Share of right guesses")


@app.command()
@plainly
def membership(
    budget_epsilon: Epsilon = "1",
    budget_delta: Delta = "0",
    rows: Members = 100,
    attributes: Attributes = "10,100,300,1000,3000",
    sessions: Sessions = 10,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find out who is in the data from a mean of many attributes."""
    _check(plot)
    common: dict[str, Any] = {
        "epsilon": budget_epsilon,
        "delta": budget_delta,
        "rows": rows,
        "sessions": sessions,
        "seed": seed,
    }
    widths = [_whole(text) for text in attributes.split(",")]
    with progress_of("tracing", len(widths)) as told:
        found = [attacks.membership(attributes=width, on_progress=told(k), **common) for k, width in enumerate(widths)]
    if plot is not None:
        attacks.draw_membership(found, plot)
    table = [(f.attributes, short(f.expected_tpr), *pair(f.raw), *pair(f.private), *pair(f.limit)) for f in found]
    columns = ["attributes", "theory", "exact mean", "its AUC", "session", "its AUC", "limit", "its AUC"]
    yield results(found, columns, table, f"Members found at 5 % false alarms, {rows} people")


def _whole(text: str) -> int:
    try:
        return whole(int(text), "--attributes")
    except ValueError:
        pass
    raise InvalidParameter(f"--attributes takes integers from 1 on, such as 10,100,1000, not {text!r}")


# `chary attack reconstruction` and `low-bits`: what noisy counts give away if the noise is too small or not exact.

SecretPeople = Annotated[int, typer.Option(help="People, each with a secret bit.")]
Counts = Annotated[int | None, typer.Option(help="Counts of random groups (default: 4 for each of the people).")]
Off = Annotated[int | None, typer.Option(help="How far rounded counts are off (default: a quarter of the root).")]
Least = Annotated[int, typer.Option("--people", help="The count, if it is not one more.")]


@app.command()
@plainly
def reconstruction(
    budget_epsilon: Epsilons = "0.1,1,10,100",
    people: SecretPeople = 100,
    counts: Counts = None,
    off: Off = None,
    sessions: Sessions = 3,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find everybody's bit from many counts of random groups."""
    _check(plot)
    common: dict[str, Any] = {"people": people, "counts": counts, "off": off, "sessions": sessions, "seed": seed}
    found = _for_each("solving", attacks.reconstruction, budget_epsilon.split(","), **common)
    if plot is not None:
        attacks.draw_reconstruction(found, plot)
    rows = [(f.epsilon, *map(short, (f.exact, f.rounded, f.private, f.baseline, f.limit))) for f in found]
    columns = ["epsilon", "exact counts", "rounded", "session", "commoner bit", "limit"]
    yield results(found, columns, rows, f"Share of {people} bits found")


@app.command("low-bits")
@plainly
def low_bits(
    budget_epsilon: Epsilons = "0.01,0.1,1,4",
    people: Least = 0,
    sessions: Sessions = 400,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Distinguish a count from one more by the last bits of noise in floating-point numbers."""
    _check(plot)
    found = _for_each(
        "looking", attacks.low_bits, budget_epsilon.split(","), people=people, sessions=sessions, seed=seed
    )
    if plot is not None:
        attacks.draw_low_bits(found, plot)
    rows = [(f.epsilon, *map(short, (f.naive_accuracy, f.certain, f.accuracy, f.low, f.high, f.limit))) for f in found]
    columns = ["epsilon", "floats", "certain", "session", "low", "high", "limit"]
    yield results(found, columns, rows, f"Share of right guesses between {people} and {people + 1}")


# `chary attack inversion` and `shadows`: what a classifier gives away that shows how sure it is.

Models = Annotated[int, typer.Option(help="Classifiers that are trained.")]
OwnModels = Annotated[int, typer.Option("--shadows", help="Classifiers that the attacker trains on people of his own.")]


@app.command()
@plainly
def inversion(
    budget_epsilon: Epsilons = "0.1,1,10",
    budget_delta: Delta = "0",
    rows: Members = 1000,
    models: Models = 10,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Name a secret column of the people a classifier was trained on (built-in data)."""
    _check(plot)
    attacks = _attacks()
    attack = partial(attacks.inversion, attacks.built_in_cases(of_year(people(), 1)))
    common: dict[str, Any] = {"delta": budget_delta, "rows": rows, "models": models, "seed": seed}
    found = _for_each("training", attack, budget_epsilon.split(","), **common)
    if plot is not None:
        attacks.draw_inversion(found[-1], plot)
    names = ("raw", "raw_outsiders", "private", "private_outsiders", "baseline")
    table = [(f.epsilon, *(short(getattr(f, name)) for name in names), _limit(f.limit)) for f in found]
    columns = ["epsilon", "memorising", "others", "private", "others", "commoner", "limit"]
    yield results(found, columns, table, "Share of secret bits named")


@app.command()
@plainly
def shadows(
    budget_epsilon: Epsilon = "1",
    budget_delta: Delta = "0",
    rows: Members = 500,
    models: Models = 10,
    own: OwnModels = 8,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find out who was in the training data of a classifier (built-in data)."""
    _check(plot)
    attacks = _attacks()
    attack = partial(attacks.shadows, attacks.built_in_cases(of_year(people(), 1)))
    common: dict[str, Any] = {"delta": budget_delta, "rows": rows, "models": models, "shadows": own, "seed": seed}
    [found] = _for_each("training", attack, [budget_epsilon], **common)
    if plot is not None:
        attacks.draw_shadows(found, plot)
    table = [(found.epsilon, *pair(found.raw), *pair(found.private), *pair(found.limit))]
    columns = ["epsilon", "memorising", "its AUC", "private", "its AUC", "limit", "its AUC"]
    yield results([found], columns, table, f"Members found at 5 % false alarms, {rows} people")


def _limit(limit: float | None) -> str:
    return "" if limit is None else short(limit)


def _attacks() -> Any:
    """The module of these attacks, which needs scikit-learn."""
    return import_module("chary_research.attacks.models")
