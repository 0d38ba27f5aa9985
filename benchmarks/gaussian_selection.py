"""Selection with Gaussian noise: how long a loss takes, and how it compares with published bounds.

Run as `python benchmarks/gaussian_selection.py`. Times are the best of several rounds of this run.
"""

import math

from chary.accounting import (
    above_threshold_epsilons_up,
    above_threshold_noise,
    halted_epsilon_up,
    noisy_max_epsilon_up,
    noisy_max_noise,
    running_epsilon_up,
)
from chary.accounting.gaussian_selection import nonnegative_epsilon, whitehouse_filter_epsilon
from chary_research.published import post_processed_epsilon, zhu_wang_epsilon
from measuring import Work, announce, best, duration, show
from recording import Against

DELTA = 1e-6
ONE, ALL = 0.3e-3, 12e-6
ROUNDS, REPEATS, STEPS = 9, 20, 1000
NOISES = (0.05, 0.1, 0.2, 0.5)


def run(noise: float, sensitivity: float = 0.001, threshold: float = 0.5) -> dict[str, float]:
    """A run on queries in [0, 1] whose noise is sqrt(3) times the threshold's, rounded up."""
    query = math.nextafter(math.sqrt(3) * noise, 9) * (1 + 1e-12)
    return {"sensitivity": sensitivity, "threshold_noise": noise, "query_noise": query, "threshold": threshold}


def one(noise: float, steps: int, sensitivity: float, threshold: float) -> list[tuple[str, Work]]:
    setting = run(noise, sensitivity, threshold)
    label = f"noise {noise:g}, D = {sensitivity:g}, r = {threshold:g}"
    return [
        (f"halted at {steps:,}, {label}", lambda: halted_epsilon_up(steps, **setting)),
        (f"running after {steps:,}, {label}", lambda: running_epsilon_up(steps, **setting)),
    ]


def timed() -> list[list[str]]:
    """Each kind of figure against its limit."""
    singles: list[tuple[str, Work]] = [
        ("noisy max of 10, noise 0.1", lambda: noisy_max_epsilon_up(10, sensitivity=0.001, noise=0.1)),
        ("noisy max of 10,000, noise 0.05", lambda: noisy_max_epsilon_up(10_000, sensitivity=0.01, noise=0.05)),
        *one(0.1, 1, 0.001, 0.5),
        *one(0.05, 1000, 0.01, 0.8),
        *one(0.01, 10**6, 1e-9, 1.0),
        *one(10, 100, 0.001, 0.0),
    ]
    rows = [_row(name, best(work, ROUNDS, REPEATS), ONE) for name, work in singles]
    for noise in (0.05, 0.2):
        taken = best(lambda noise=noise: above_threshold_epsilons_up(STEPS, **run(noise)), ROUNDS) / STEPS
        rows.append(_row(f"all of 1 to {STEPS:,}, halted and running, noise {noise:g}, each", taken, ALL))
    calibrations: list[tuple[str, Work]] = [
        ("noise of noisy max of 1,000", lambda: noisy_max_noise(1, 1000, sensitivity=0.001)),
        ("noise of 1,000 queries", lambda: above_threshold_noise(1, 1000, sensitivity=0.001, threshold=0.5)),
    ]
    return rows + [[name, duration(best(work, 3)), "-", "-"] for name, work in calibrations]


def _row(name: str, taken: float, limit: float) -> list[str]:
    return [name, duration(taken), duration(limit), f"{taken / limit:.2f}"]


def maxima() -> list[list[str]]:
    """Epsilon of noisy max, ours with delta 0."""
    rows = []
    for queries in (10, 365, 10_000):
        for noise in NOISES:
            ours = noisy_max_epsilon_up(queries, sensitivity=0.001, noise=noise)
            other = post_processed_epsilon(queries=queries, sensitivity=0.001, noise=noise, delta=DELTA)
            rows.append([f"{queries:,} queries, noise {noise:g}", f"{ours:.4f}", f"{other:.4f}", f"{other / ours:.2f}"])
    return rows


def runs() -> list[list[str]]:
    """Epsilon of one run: ours ex post with delta 0, the others beforehand."""
    rows = []
    for steps in (10, 100, 1000):
        for noise in NOISES:
            setting = run(noise)
            noises = {name: value for name, value in setting.items() if name != "threshold"}
            ours = halted_epsilon_up(steps, **setting), running_epsilon_up(steps, **setting)
            peers = (
                zhu_wang_epsilon(steps=steps, **noises, delta=DELTA),
                nonnegative_epsilon(**setting, delta=DELTA),
                post_processed_epsilon(queries=steps + 1, sensitivity=0.001, noise=noise, delta=DELTA),
            )
            rows.append([f"{steps:,} queries, noise {noise:g}", *(f"{figure:.4f}" for figure in (*ours, *peers))])
    return rows


def sequences() -> list[list[str]]:
    """Runs that halt at 100: how many fit into epsilon 1, by adding losses, and by the filter for adaptive calls."""
    rows = []
    for noise in NOISES:
        setting = run(noise)
        halted, running = above_threshold_epsilons_up(100, **setting)
        worst = max(halted[-1], running[-1])
        noises = {name: value for name, value in setting.items() if name != "threshold"}
        beforehand = zhu_wang_epsilon(steps=100, **noises, delta=DELTA / 100)
        filtered = 0
        while whitehouse_filter_epsilon([beforehand] * (filtered + 1), delta=DELTA / 2) <= 1 and filtered < 50:
            filtered += 1
        rows.append([f"noise {noise:g}", str(math.floor(1 / worst)), str(filtered)])
    return rows


def main() -> None:
    announce()
    headings = ["what", "time", "limit", "time / limit"]
    show("Time of one figure", headings, timed(), against=[Against("time", *headings[1:])])
    title = "Noisy max, range 1, D = 0.001: epsilon (ours: delta 0; other: delta 1e-6)"
    headings = ["queries", "ours", "post-processed Gaussian", "other / ours"]
    peer = Against("epsilon of noisy max, post-processed Gaussian", *headings[1:3], kind="peer")
    show(title, headings, maxima(), against=[peer])
    headings = ["run", "halted", "running", "Zhu-Wang", "non-negative", "post-processed"]
    show("Above threshold, r = 0.5, D = 0.001: epsilon (ours: ex post, delta 0; others: delta 1e-6)", headings, runs())
    title = "Runs of at most 100 queries within epsilon 1 (filter: delta 1e-6)"
    show(title, ["run", "sum of losses, delta 0", "Zhu-Wang in the filter"], sequences())


if __name__ == "__main__":
    main()
