"""Errors of many overlapping sums by each strategy, beside a lower bound for all of them, and what choosing takes.

Run as `python benchmarks/workloads.py`. All figures are exact for the noise that is drawn, of one unit in one cell that
comes or goes. The limit is the singular value bound (Li and Miklau 2013): no strategy with least squares has a smaller
error, with Gaussian noise, nor with Laplace noise, whose sensitivity is never less and whose variance on the grid is
that part of the continuous one at least which it is for one cell. The peer is noise on the answers themselves,
"workload"; "identity" is the sum of noisy cells.
"""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from chary.accounting import laplace_deviation
from chary.errors import InvalidQuery
from chary.mechanisms.workloads import CellChange, LinearQueries, Noising, best_measurement
from measuring import announce, duration, seconds, show
from recording import Against

ONE = CellChange(1, 1, 1)
SIZES = (("epsilon 1, Laplace", Noising(1, gaussian=False)), ("rho 1/2, Gaussian", Noising("0.5", gaussian=True)))
HEADINGS = ["workload", "identity", "workload", "hierarchy", "chosen", "by", "limit", "chosen / limit", "time"]


def workloads() -> Iterator[tuple[str, LinearQueries, Any]]:
    """Titles, questions and cells."""
    for name, size in (("prefixes", 64), ("prefixes", 256), ("ranges", 64), ("ranges", 128)):
        cells: Any = tuple((place,) for place in range(size))
        yield f"{name} of {size}", LinearQueries.of(name, cells, ("k",)), cells
    columns, cells = ("a", "b", "c"), tuple(product(range(8), range(5), range(4)))
    pairs = [["a"], ["b"], ["c"], []]
    yield "1-way marginals of 8 x 5 x 4", LinearQueries.of(pairs, cells, columns), cells
    pairs = [["a", "b"], ["a", "c"], ["b", "c"]]
    yield "2-way marginals of 8 x 5 x 4", LinearQueries.of(pairs, cells, columns), cells
    generator = np.random.default_rng(1)
    rows = (generator.random((40, 32)) < 0.5).astype(int).tolist()
    cells = tuple((place,) for place in range(32))
    yield "40 random subsets of 32", LinearQueries.of(rows, cells, ("k",)), cells


def limit(asked: LinearQueries, noising: Noising) -> float:
    """The root of the least mean squared error that the singular values leave."""
    values = np.linalg.svd(asked.weights.astype(float), compute_uv=False)
    total = float(values.sum()) ** 2 / asked.weights.shape[1] / len(asked.keys)
    return math.sqrt(total * (1 / (2 * float(noising.size)) if noising.gaussian else laplace_deviation(1) ** 2))


def error(asked: LinearQueries, cells: Any, noising: Noising, name: str | None) -> float:
    """The root mean squared error by one strategy; infinite where it is no strategy for this."""
    try:
        return best_measurement(asked, cells, ONE, noising, name).rms
    except InvalidQuery:
        return math.inf


def compared(noising: Noising) -> Iterator[list[str]]:
    """One line for each workload."""
    for title, asked, cells in workloads():
        made, least = best_measurement(asked, cells, ONE, noising), limit(asked, noising)
        taken = seconds(lambda: best_measurement(asked, cells, ONE, noising))  # noqa: B023
        alone = [error(asked, cells, noising, name) for name in ("identity", "workload")]
        trees = min(error(asked, cells, noising, f"hierarchy of {branching}") for branching in (2, 4, 8, 16))
        told = [f"{each:.2f}" if math.isfinite(each) else "-" for each in (*alone, trees)]
        ratio = f"{made.rms / least:.2f}"
        yield [title, *told, f"{made.rms:.2f}", made.strategy.name, f"{least:.2f}", ratio, duration(taken)]


def main() -> None:
    announce()
    for title, noising in SIZES:
        least = Against(f"error over the least, {title}", "chosen", "limit", "chosen / limit")
        show(f"Root mean squared error, {title}", HEADINGS, compared(noising), against=[least])


if __name__ == "__main__":
    main()
