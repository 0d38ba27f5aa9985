"""Continual counting: how far off a count is at every step, by several ways for one budget, and what a step costs.

Run as `python benchmarks/continual.py [--full]`. A table of 10,000 rows grows by 100 rows a step, all of which are
counted, so that answers go stale as fast as they can. Errors are in rows: the root of the mean square over all steps,
and the largest of a run (its median over all runs). The budget is epsilon = 1, or rho = 0.02 (about epsilon 1 at delta
1e-6).
"""

import math
import time
from collections.abc import Callable

import numpy as np
import polars as pl

import chary
from chary import Budget, NeighborRelation, count
from chary.accounting.continual import (
    MOST_ROOT_STEPS,
    MOST_STEPS,
    best_tree,
    error_up,
    gaussian_beyond,
    laplace_beyond,
    root_deviations,
    root_length,
)
from chary.accounting.schedules import EpochRuns, best_growth
from chary.calls import ContinualCount
from chary.growth import CountsBox
from chary.mechanisms import Gaussian, Laplace
from chary.mechanisms.continual import BinaryTree, Continual, RootFactorisation
from chary.noise import OperatingSystem
from measuring import announce, duration, full, show

START, BATCH, BETA, RUNS = 10_000, 100, 0.05, 40 if full() else 8
EPSILON, RHO, DELTA = 1, "0.02", 1e-6
ROWS = NeighborRelation("replace", None)
SOURCE = OperatingSystem()

Errors = Callable[[], np.ndarray]


def errors() -> None:
    """Measured and promised, for each way and length."""
    table = []
    for steps in (100, 1000, 10_000):
        for name, (drawn, promised) in ways(steps).items():
            found = [drawn() for _ in range(RUNS)]
            square = math.sqrt(np.mean([run**2 for run in found]))
            largest = np.median([np.abs(run).max() for run in found])
            table.append([f"{steps:,}", name, f"{square:,.1f}", f"{largest:,.0f}", f"{promised:,.0f}"])
    show(
        "Errors in rows, epsilon = 1 or rho = 0.02",
        ["steps", "way", "root mean square", "largest", "promised, 95 %"],
        table,
    )


def ways(steps: int) -> dict[str, tuple[Errors, float]]:
    """How errors of all steps are drawn, and what all of them keep to with 0.95."""
    laplace, gauss = BinaryTree.for_epsilon(EPSILON, steps=steps), BinaryTree.for_rho(RHO, steps=steps)
    single, each = Laplace.for_epsilon(EPSILON, sensitivity=1, times=steps), Gaussian.for_rho(RHO, l2_squared=steps)
    levels, root = steps.bit_length(), RootFactorisation.for_rho(RHO, steps=steps)
    return {
        "Laplace: a release a step": every_step(single, steps),
        "Laplace: binary tree": full_tree(Laplace.for_epsilon(EPSILON, sensitivity=1, times=levels), steps),
        "Laplace: best tree": (lambda: stacked(laplace.noise, laplace.tree.heights()), laplace.worst_error()),
        "Laplace: schedule": schedule(steps, CountsBox(count()), {"epsilon": EPSILON}),
        "Gaussian: a release a step": every_step(each, steps),
        "Gaussian: binary tree": full_tree(Gaussian.for_rho(RHO, l2_squared=levels), steps),
        "Gaussian: best tree": (lambda: stacked(gauss.noise, gauss.tree.heights()), gauss.worst_error()),
        "Gaussian: root": (lambda: root_errors(root), root.worst_error()),
        "Gaussian: schedule": schedule(steps, CountsBox(count(), gaussian=True), {"rho": RHO}),
    }


def every_step(noise: Laplace | Gaussian, steps: int) -> tuple[Errors, float]:
    """A fresh release at every step."""
    return lambda: noise.draw(SOURCE, steps), promised({1: steps}, noise)


def promised(heights: dict[int, int], noise: Laplace | Gaussian) -> int:
    """What all steps keep to, where so many add up so many sums."""
    law = [(beyond_of(noise, height), times) for height, times in heights.items()]
    return error_up(lambda rows: sum(times * beyond(rows) for beyond, times in law), confidence=1 - BETA)


def beyond_of(noise: Laplace | Gaussian, height: int) -> Callable[[int], float]:
    """The tails of a sum of so many noises."""
    if isinstance(noise, Laplace):
        return laplace_beyond(noise.scale, height)
    return gaussian_beyond(noise.sigma_squared, height)


def stacked(noise: Laplace | Gaussian, heights: np.ndarray) -> np.ndarray:
    """The noise of running counts that add up so many sums, each of which drops the last ones and takes a new one."""
    held, found = np.zeros(int(heights.max()) + 1, dtype=np.int64), []
    for height, fresh in zip(heights.tolist(), noise.draw(SOURCE, len(heights)).tolist(), strict=True):
        held[height] = held[height - 1] + fresh
        found.append(held[height])
    return np.array(found)


def full_tree(noise: Laplace | Gaussian, steps: int) -> tuple[Errors, float]:
    """The textbook tree: the sums of a step are the bits of its number."""
    heights = np.array([step.bit_count() for step in range(1, steps + 1)])
    often = dict(enumerate(np.bincount(heights).tolist()))
    return lambda: stacked(noise, heights), promised({height: times for height, times in often.items() if times}, noise)


def root_errors(root: RootFactorisation) -> np.ndarray:
    """Errors of all steps, before they are rounded to whole rows: noise through the series of the estimates."""
    told = np.sqrt(np.diff(root_deviations(root.steps) ** 2, prepend=0.0))
    size = 2 * root.steps
    noise = root.noise.draw(SOURCE, root.steps).astype(float)
    return np.fft.irfft(np.fft.rfft(told, size) * np.fft.rfft(noise, size), size)[: root.steps]


def schedule(steps: int, box: CountsBox, budget: dict[str, object]) -> tuple[Errors, float]:
    """BBScheduler on the same stream: noise of the last run, and the rows that came since."""
    growth = best_growth(box.law, start=START, beta=str(BETA), **budget)
    runs = EpochRuns(start=START, growth=growth, beta=str(BETA), **budget)
    sizes = START + BATCH * np.arange(1, steps + 1)

    def drawn() -> np.ndarray:
        found, last, told = [], None, 0
        for size in sizes.tolist():
            due = runs.last(size)
            if due != last:
                noise = box.noise(runs.epsilon_down(0 if last is None else last + 1, due))
                told, last = noise.apply_one(size, SOURCE), due
            found.append(told - size)
        return np.array(found)

    final = int(sizes[-1])
    return drawn, (runs.error(box.law, 0) + runs.staleness) * final


def trees() -> None:
    """The largest variance of a count, in units of 2/epsilon^2 and 1/(2 rho)."""
    table = []
    for steps in (10, 100, 1000, 10_000, 100_000, MOST_STEPS):
        levels, most = steps.bit_length(), max(step.bit_count() for step in range(1, steps + 1))
        laplace, gauss = best_tree(steps, power=2), best_tree(steps, power=1)
        root = "" if steps > MOST_ROOT_STEPS else f"{root_length(steps) * root_deviations(steps)[-1] ** 2:.1f}"
        row = [levels**2 * most, f"{laplace.reach**2 * laplace.parts} ({laplace.reach}, {laplace.parts})"]
        row += [levels * most, f"{gauss.reach * gauss.parts} ({gauss.reach}, {gauss.parts})", root]
        table.append([f"{steps:,}", *map(str, row)])
    show(
        "Largest variance of a count, in units of 2/epsilon^2 and of 1/(2 rho)",
        ["steps", "binary tree", "best tree (a, b)", "Gaussian binary tree", "best tree (a, b)", "root"],
        table,
    )


def times() -> None:
    """The best of 100 steps at the start and at the end, of the mechanism and in a session, beside a plain release."""
    table = []
    for name, made in (
        ("tree", BinaryTree.for_epsilon(EPSILON, steps=10_000)),
        ("root", RootFactorisation.for_rho(RHO, steps=10_000)),
    ):
        table.append([f"{name}, mechanism alone", *(duration(each) for each in mechanism_times(made))])
    data = pl.DataFrame({"key": np.arange(10**5) % 20})
    options = {"privacy_unit": None, "neighbors": "replace", "budget": Budget(epsilon=10, delta=DELTA)}
    with chary.open(data, ledger=":memory:", **options) as session:
        for name, terms in (("tree", {"epsilon": "0.1"}), ("root", {"rho": "0.001"})):
            counting = session.start(ContinualCount("key = 3", steps=1500, **terms))
            spent = [elapsed(counting.ask) for _ in range(1500)]
            ends = (min(spent[:100]), min(spent[-100:]))
            table.append([f"{name}, a step in a session, 1,500 steps", *map(duration, ends)])
        plain = [elapsed(lambda: session.release(count("key = 3"), epsilon="0.0001")) for _ in range(100)]
        table.append(["a plain release", duration(min(plain)), ""])
    show("Time, 100,000 rows", ["step", "first steps", "last steps"], table)


def mechanism_times(made: Continual) -> tuple[float, float]:
    """Seconds of one step near the start, and of the last one."""
    state, counts, spent = made.start(), np.array([0]), []
    for step in range(1, made.steps + 1):
        began = time.perf_counter()
        _, state = made.tell(step, state, counts, SOURCE)
        spent.append(time.perf_counter() - began)
    return min(spent[:100]), min(spent[-100:])


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    announce()
    trees()
    errors()
    times()
