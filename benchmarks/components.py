"""Principal components of the built-in rows: error against the exact ones, what is promised, and noise entry by entry.

RAND health insurance (20,190 person-years in the package): age, chronic diseases, visits, spendings, coinsurance; each
row a unit, add/remove. The plain way releases every sum by itself with its part of rho.
"""

import sys
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import chary
from chary import Budget
from chary.calls import PrincipalComponents
from chary.data import NeighborRelation, RowTable
from chary.mechanisms import Gaussian
from chary.mechanisms.workloads import MomentNoise
from chary.noise import OperatingSystem
from measuring import machine, show

RAND = Path(chary.__file__).parent / "demo" / "randhie_stream.csv.gz"
RANGES = {"xage": (0, 65), "disea": (0, 60), "mdvis": (0, 20), "outpdol": (0, 500), "coins": (0, 100)}
RUNS = 15


def plain_error(truth: list[int], steps: int, rho: Fraction, squares: np.ndarray) -> float:
    """The distance of the matrix of squares whose every sum was released by itself."""
    source, d = OperatingSystem(), len(RANGES)
    each = Gaussian.for_rho(rho / len(truth), l2_squared=steps**4)
    found = np.zeros((d, d))
    found[np.triu_indices(d)] = [each.apply_one(value, source) for value in truth[d + 1 :]]
    found = (found + np.triu(found, 1).T) / truth[0] / steps**2
    return float(np.linalg.norm(found - squares, 2))


def main() -> None:
    """Print the errors at several sizes."""
    print(machine())
    rows = pyarrow.csv.read_csv(RAND)
    truth, squares, means = moments(rows, {"epsilon": 1})
    values = np.linalg.eigvalsh(squares - np.outer(means, means))
    print("exact eigenvalues:", ", ".join(f"{value:.4f}" for value in values[::-1]))
    show(
        f"{truth[0]} rows, {len(RANGES)} columns; medians of {RUNS} runs",
        (
            "size",
            "covariance off (L2)",
            "promised 95 %",
            "first angle",
            "promised",
            "squares off, ours",
            "plain",
            "ratio",
        ),
        [line(rows, name, size) for name, size in SIZES.items()],
    )


SIZES = {
    "rho 0.0005": {"rho": "0.0005"},
    "rho 0.005": {"rho": "0.005"},
    "rho 0.05": {"rho": "0.05"},
    "epsilon 0.1 (Laplace)": {"epsilon": "0.1"},
    "epsilon 1 (Laplace)": {"epsilon": 1},
    "rho 0.005, longest 1.2": {"rho": "0.005", "longest": "1.2"},
}


def moments(rows: pa.Table, size: dict[str, Any]) -> tuple[list[int], np.ndarray, np.ndarray]:
    """The exact answers, the matrix of mean products and the means, as rows are counted."""
    asked, d = PrincipalComponents(RANGES, **size).query(), len(RANGES)
    table = RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", None))
    truth = [int(value) for value in table.prepare(asked).run()]
    squares = np.zeros((d, d))
    squares[np.triu_indices(d)] = np.array(truth[d + 1 :]) / truth[0] / asked.steps**2
    return truth, squares + np.triu(squares, 1).T, np.array(truth[1 : d + 1]) / truth[0] / asked.steps


def line(rows: pa.Table, name: str, size: dict[str, Any]) -> tuple[str, ...]:
    """The figures of one size."""
    d, found = len(RANGES), []
    truth, squares, means = moments(rows, size)
    exact = squares - np.outer(means, means)
    first = np.linalg.eigh(exact)[1][:, -1]
    for _ in range(RUNS):
        with chary.open(rows, privacy_unit=None, budget=Budget(50, "1e-6"), ledger=":memory:") as session:
            answer = session.ask(PrincipalComponents(RANGES, **size))
        direction = np.array(list(answer.directions[0].values()))
        angle = np.degrees(np.arccos(min(1.0, abs(direction @ first))))
        off = float(np.linalg.norm(np.array(answer.covariance) - exact, 2))
        found.append((off, answer.within(), angle, answer.angle()))
    columns = [[each for each in column if each is not None] for column in zip(*found, strict=True)]
    told = [f"{median(column):.4f}" if column else "-" for column in columns]
    if "rho" not in size:
        return name, *told, "", "", ""
    ours, plain = [], []
    asked = PrincipalComponents(RANGES, **size).query()
    made = MomentNoise(d, asked.squared, asked.most, 1, False, rho=size["rho"])
    for _ in range(RUNS):
        noisy = made.apply(np.array(truth), OperatingSystem())[d + 1 :].astype(float)
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d)] = noisy / truth[0] / asked.steps**2
        ours.append(float(np.linalg.norm(matrix + np.triu(matrix, 1).T - squares, 2)))
        plain.append(plain_error(truth, asked.steps, Fraction(size["rho"]), squares))
    return name, *told, f"{median(ours):.4f}", f"{median(plain):.4f}", f"{median(plain) / median(ours):.2f}"


if __name__ == "__main__":
    sys.exit(main())
