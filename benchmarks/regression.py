"""Linear regression of the built-in rows: how wide its intervals are, how often they hold, and with simulated samples.

RAND health insurance (20,190 person-years in the package): visits by age, chronic diseases and coinsurance; each row a
unit, add/remove. Simulated: 20,000 rows of a linear model with two dependent columns.
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import chary
from chary.calls import LinearRegression, Regression
from chary.data import NeighborRelation, RowTable
from chary.mechanisms.workloads import MomentNoise
from chary.noise import OperatingSystem
from measuring import machine, show

RAND = Path(chary.__file__).parent / "demo" / "randhie_stream.csv.gz"
VISITS = {"xage": (0, 65), "disea": (0, 60), "coins": (0, 100), "mdvis": (0, 20)}
MODEL = {"a": (-2, 2), "b": (-2, 2), "y": (-4, 4)}
TRUTH = {"intercept": 0.3, "a": 0.5, "b": -0.2}
SIZES: dict[str, dict[str, Any]] = {
    "rho 0.005": {"rho": "0.005"},
    "rho 0.02": {"rho": "0.02"},
    "rho 0.1": {"rho": "0.1"},
    "epsilon 1 (Laplace)": {"epsilon": 1},
    "epsilon 4 (Laplace)": {"epsilon": 4},
}
NEAR = NeighborRelation("add_remove", None)
RUNS = 300


def noise_of(call: LinearRegression) -> MomentNoise:
    """The noise on the sums of a call."""
    query = call.query()
    given: dict[str, Any] = {"rho": call.rho} if call.rho is not None else {"epsilon": call.epsilon}
    return MomentNoise(len(query.bounds), query.squared, query.most, 1, False, **given)


def regression(call: LinearRegression, sums: Any, noise: MomentNoise) -> Regression:
    """What a call tells of these sums."""
    told = [int(each) for each in sums]
    return Regression.of(1, told, call.query(), noise, call.response, call.regressors, "0.95")


def main() -> None:
    """Print both tables."""
    print(machine())
    rows = RowTable.open(pd.read_csv(RAND), neighbor_relation=NEAR)
    show(
        f"visits by age, diseases and coinsurance; {RUNS} draws; widths in standard errors of the noise, and of both",
        ("size", "told", "covered", "noise error / sampling error", "half-width", "population's"),
        [of_rows(name, LinearRegression("mdvis", VISITS, **size), rows) for name, size in SIZES.items()],
    )
    show(
        f"a simulated model, {RUNS} samples of 20,000 rows",
        ("size", "told", "population covered", "by the rows' interval", "noise error / sampling error", "population's"),
        [of_samples(name, LinearRegression("y", MODEL, **size)) for name, size in SIZES.items()],
    )


def of_rows(name: str, call: LinearRegression, rows: RowTable) -> tuple[str, ...]:
    """The intervals of the rows' coefficients."""
    exact, noise, source = rows.prepare(call.query()).run(), noise_of(call), OperatingSystem()
    quiet: Any = {"rho": 10**9} if call.rho is not None else {"epsilon": 10**9}
    truth = regression(call, exact, replace(noise, **quiet)).value
    found = [regression(call, noise.apply(exact, source), noise) for _ in range(RUNS)]
    told = [row for answer in found if answer.value["xage"] is not None for row in answer]
    covered = [row["low"] <= truth[row["term"]] <= row["high"] for row in told]
    return name, share(found), f"{np.mean(covered):.3f}", *widths(told)


def of_samples(name: str, call: LinearRegression) -> tuple[str, ...]:
    """The intervals of the population's coefficients."""
    noise, source, draw, found = noise_of(call), OperatingSystem(), np.random.default_rng(1), []
    for _ in range(RUNS):
        a = draw.normal(0.2, 0.4, 20_000)
        b = 0.5 * a + draw.normal(0, 0.3, 20_000)
        y = 0.3 + 0.5 * a - 0.2 * b + draw.normal(0, 0.7, 20_000)
        counted = np.rint(np.column_stack([a / 2, b / 2, y / 4]).clip(-1, 1) * 1000)
        squares = counted.T @ counted
        sums = np.array([20_000, *counted.sum(axis=0), *squares[np.triu_indices(3)]], dtype=np.int64)
        found.append(regression(call, noise.apply(sums, source), noise))
    told = [row for answer in found if answer.value["a"] is not None for row in answer]
    both = [inside(row, "population_low", "population_high") for row in told]
    alone = [inside(row, "low", "high") for row in told]
    ratio, _, population = widths(told)
    return name, share(found), f"{np.mean(both):.3f}", f"{np.mean(alone):.3f}", ratio, population


def inside(row: dict[str, Any], low: str, high: str) -> bool:
    """Whether an interval has the population's coefficient; one without ends has."""
    return row[low] is None or row[low] <= TRUTH[row["term"]] <= row[high]


def share(found: list[Regression]) -> str:
    """Of how many draws anything was told."""
    return f"{np.mean([answer.value['intercept'] is not None for answer in found]):.2f}"


def widths(told: list[dict[str, Any]]) -> tuple[str, str, str]:
    """Medians: noise against sample, and the half-widths in their standard errors."""
    if not told:
        return "-", "-", "-"
    ratio = median(row["noise_error"] / row["sampling_error"] for row in told if row["sampling_error"])
    near = median((row["high"] - row["low"]) / 2 / row["noise_error"] for row in told)
    both = [
        (row["population_high"] - row["population_low"])
        / 2
        / float(np.hypot(row["noise_error"], row["sampling_error"]))
        for row in told
        if row["population_low"] is not None and row["sampling_error"]
    ]
    return f"{ratio:.2f}", f"{near:.2f}", f"{median(both):.2f}" if both else "-"


if __name__ == "__main__":
    sys.exit(main())
