"""`chary account rows`, `weights-rows`, `queries`, `population`: how much data an accuracy takes."""

from typing import Annotated, Any

from typer import Option

from chary.accounting import zero_concentrated_rho_down
from chary.accounting.schedules import (
    Law,
    epochs_epsilon,
    epochs_rows,
    every_rows,
    population_risk_up,
    static_epsilon,
    static_rows,
)
from chary.accounting.weights import published_weights_rows, queries_allowed, sparse_weights_rows
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.cli.spinner import spinning
from chary.errors import InvalidParameter
from chary.numbers import failing, positive, probability

Alpha = Annotated[str, Option(help="How near all answers are to be, as a share of rows.")]
Cells = Annotated[int, Option(help="Cells of the universe.")]
Epsilon = Annotated[str, Option(help="Total epsilon.")]
Delta = Annotated[str, Option(help="Total delta, if any.")]
Confidence = Annotated[str, Option(help="Probability that all answers are so near.")]
Exponent = Annotated[str, Option(help="p of the noise function.")]


def rows(
    accuracy: Annotated[str, Option(help="The error that is wanted, staleness included.")],
    power: Annotated[str, Option(help="p of the law c (ln(choices/beta)/(epsilon n))^p.")] = "1",
    factor: Annotated[str, Option(help="c of the law.")] = "1",
    choices: Annotated[str, Option(help="Over how many things at once.")] = "1",
    base: Annotated[str, Option(help="An error that no rows improve.")] = "0",
    log_power: Annotated[
        str, Option(help="Power of ln(choices/beta) inside of the law; 1/2 for Gaussian noise.")
    ] = "1",
    size_power: Annotated[str | None, Option(help="Power of n, if it is not that of epsilon.")] = None,
    size_log: Annotated[str, Option(help="Power of ln(n) inside of the law.")] = "0",
    epsilon: Annotated[str | None, Option(help="Total epsilon of one run, and of a schedule in epochs.")] = None,
    rho: Annotated[str | None, Option(help="Total rho of schedules, in place of epsilon.")] = None,
    growth: Annotated[str | None, Option(help="Growth between epochs (default: the best).")] = None,
    start: Annotated[int | None, Option(help="With --rho: rows at which runs at every size begin.")] = None,
    exponent: Annotated[str, Option(help="With --start: c of runs at every size.")] = "0.1",
    beta: Annotated[str, Option(help="Chance that the error is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """Rows that an accuracy takes: in one run, at the start of a schedule in epochs, of one at every size."""
    law = Law(power, factor, choices, log_power, base, size_power, size_log)
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of --epsilon and --rho, as in: chary account rows --accuracy 0.05 --epsilon 1")
    known: dict[str, Any] = {"accuracy": accuracy, "beta": beta}
    figures: dict[str, int] = {}
    with spinning("looking for the sizes"):
        if epsilon is not None:
            figures["once"] = static_rows(law, epsilon=epsilon, **known)
        figures["epochs"] = epochs_rows(law, growth=growth, epsilon=epsilon, rho=rho, **known)
        if rho is not None and start is not None:
            figures["every_size"] = every_rows(law, start=start, exponent=exponent, rho=rho, **known)
    _show(figures, as_json)


def budget(
    accuracy: Annotated[str, Option(help="The error that is wanted, staleness included.")],
    size: Annotated[int, Option(help="Rows there are, at the start of a schedule.")],
    power: Annotated[str, Option(help="p of the law c (ln(choices/beta)/(epsilon n))^p.")] = "1",
    factor: Annotated[str, Option(help="c of the law.")] = "1",
    choices: Annotated[str, Option(help="Over how many things at once.")] = "1",
    base: Annotated[str, Option(help="An error that no budget improves.")] = "0",
    delta: Annotated[
        str | None, Option(help="Delta of a schedule by zCDP: cheaper for small epsilons, dearer for large ones.")
    ] = None,
    growth: Annotated[str | None, Option(help="Growth between epochs (default: the best).")] = None,
    beta: Annotated[str, Option(help="Chance that the error is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """Epsilon that an accuracy takes at so many rows: in one run, and in a schedule in epochs, for ever."""
    law = Law(power, factor, choices, base=base)
    with spinning("looking for the sizes"):
        once = static_epsilon(law, accuracy=accuracy, size=size, beta=beta)
        epochs = epochs_epsilon(law, accuracy=accuracy, start=size, beta=beta, growth=growth, delta=delta)
    _show({"once": once, "epochs": epochs}, as_json)


def weights_rows(
    alpha: Alpha,
    cells: Cells,
    queries: Annotated[int, Option(help="Queries that are asked in all.")],
    epsilon: Epsilon,
    delta: Delta = "0",
    exponent: Exponent = "1/2",
    confidence: Confidence = "0.95",
    as_json: AsJson = False,
) -> None:
    """Rows that multiplicative weights in rounds take for an accuracy, as published and by the exact law of the noise.

    The exact law is that of the epsilon-DP form, or of the zCDP form that fits into (epsilon, delta).
    """
    known: dict[str, Any] = {"cells": cells, "queries": queries, "alpha": alpha, "confidence": confidence}
    known["exponent"] = exponent
    with spinning("looking for the sizes"):
        figures = {
            "published": published_weights_rows(epsilon=epsilon, delta=delta, **known),
            "exact": sparse_weights_rows(mixing="0.1", **_total(epsilon, delta), **known),
        }
    _show(figures, as_json)


def queries(
    alpha: Alpha,
    cells: Cells,
    start: Annotated[int, Option(help="Rows at the opening.")],
    size: Annotated[int, Option(help="Rows by which the queries are asked.")],
    epsilon: Epsilon,
    delta: Delta = "0",
    exponent: Exponent = "1/2",
    confidence: Confidence = "0.95",
    as_json: AsJson = False,
) -> None:
    """Queries that the published constants of multiplicative weights allow at the start, and until the size."""
    known: dict[str, Any] = {"alpha": alpha, "cells": cells, "start": start, "epsilon": epsilon, "delta": delta}
    known |= {"exponent": exponent, "confidence": confidence}
    _show({"at_start": queries_allowed(size=start, **known), "at_size": queries_allowed(size=size, **known)}, as_json)


def population(
    excess: Annotated[str, Option(help="Excess of the mean loss on the rows, such as a law promises.")],
    size: Annotated[int, Option(help="Rows, drawn independently from the population.")],
    lam: Annotated[str, Option(help="Strong convexity of the losses, or, with --radius, of the penalty.")],
    lipschitz: Annotated[str, Option(help="Lipschitz constant of the losses.")] = "1",
    radius: Annotated[str | None, Option(help="Losses are convex only, weights no longer than this.")] = None,
    beta: Annotated[str, Option(help="Chance over the rows that the bound is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """The excess risk on the population, from that on the rows at hand."""
    figures = {
        "population": population_risk_up(
            excess=excess, size=size, lam=lam, lipschitz=lipschitz, radius=radius, beta=beta
        )
    }
    _show(figures, as_json)


def _total(epsilon: str, delta: str) -> dict[str, Any]:
    """The exact form's budget: pure, or the largest rho."""
    if not failing(delta):
        return {"epsilon": epsilon}
    share = zero_concentrated_rho_down(epsilon=positive(epsilon, "epsilon"), delta=probability(delta, "delta"))
    return {"rho": share}


def _show(figures: dict[str, int] | dict[str, float], as_json: bool) -> None:
    (show_json if as_json else show_pairs)(figures)
