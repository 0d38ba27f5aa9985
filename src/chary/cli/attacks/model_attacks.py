"""`chary attack inversion` and `shadows`: what a classifier gives away that shows how sure it is."""

from importlib import import_module
from typing import Annotated, Any

import typer

from chary.charts import check_picture
from chary.cli.attacks.attack_options import (
    Delta,
    Epsilon,
    Epsilons,
    Members,
    Plot,
    Seed,
    app,
    pair,
    progress_of,
    results,
    short,
)
from chary.cli.commands import Found, plainly
from chary.demo.panel import of_year, people
from chary.errors import InvalidParameter

Models = Annotated[int, typer.Option(help="Classifiers that are trained.")]
OwnModels = Annotated[int, typer.Option("--shadows", help="Classifiers that the attacker trains on people of his own.")]


@app.command()
@plainly
def inversion(
    epsilon: Epsilons = "0.1,1,10",
    delta: Delta = "0",
    rows: Members = 1000,
    models: Models = 10,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Name a secret column of the people a classifier was trained on (built-in data)."""
    if plot is not None:
        check_picture(plot)
    attacks, sizes = _attacks(), epsilon.split(",")
    common: dict[str, Any] = {"delta": delta, "rows": rows, "models": models, "seed": seed}
    cases = attacks.built_in_cases(of_year(people(), 1))
    with progress_of("training", len(sizes)) as told:
        found = [attacks.inversion(cases, epsilon=e, on_progress=told(k), **common) for k, e in enumerate(sizes)]
    if plot is not None:
        attacks.draw_inversion(found[-1], plot)
    names = ("raw", "raw_outsiders", "private", "private_outsiders", "baseline")
    table = [(f.epsilon, *(short(getattr(f, name)) for name in names), _limit(f.limit)) for f in found]
    columns = ["epsilon", "memorising", "others", "private", "others", "commoner", "limit"]
    yield results(found, columns, table, "Share of secret bits named")


@app.command()
@plainly
def shadows(
    epsilon: Epsilon = "1",
    delta: Delta = "0",
    rows: Members = 500,
    models: Models = 10,
    own: OwnModels = 8,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find out who was in the training data of a classifier (built-in data)."""
    if plot is not None:
        check_picture(plot)
    attacks = _attacks()
    cases = attacks.built_in_cases(of_year(people(), 1))
    common: dict[str, Any] = {"delta": delta, "rows": rows, "models": models, "shadows": own, "seed": seed}
    with progress_of("training", 1) as told:
        found = attacks.shadows(cases, epsilon=epsilon, on_progress=told(0), **common)
    if plot is not None:
        attacks.draw_shadows(found, plot)
    table = [(found.epsilon, *pair(found.raw), *pair(found.private), *pair(found.limit))]
    columns = ["epsilon", "memorising", "its AUC", "private", "its AUC", "limit", "its AUC"]
    yield results([found], columns, table, f"Members found at 5 % false alarms, {rows} people")


def _limit(limit: float | None) -> str:
    return "" if limit is None else short(limit)


def _attacks() -> Any:
    """The room of these attacks, which needs scikit-learn."""
    try:
        return import_module("chary.audit.models")
    except ImportError:
        raise InvalidParameter("this attack needs scikit-learn: pip install 'chary[learning]'") from None
