"""Selection with exact Gaussian noise: how long noise, choices, prices and calls take, and what runs lose.

Run as `python benchmarks/gaussian_runs.py`. The noisy maximum is beside float64 Gaussian noise, which leaks; a step of
a run beside `session.test` of the same query on the same ledger. Losses are for values in [0, 1], sensitivity 1/1000
and the threshold 1/2, beside the epsilon of Laplace noise of the same standard deviation (AboveThreshold, [SVT]).
"""

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

import chary
from chary import Budget, count
from chary.calls import AboveThreshold
from chary.calls.gaussian import run_state
from chary.calls.gaussian.run_state import RunTerms
from chary.mechanisms import GaussianMax, GaussianThreshold
from chary.noise import OperatingSystem, deviate, normals
from measuring import announce, best, seconds, show, side_by_side
from recording import Against

KEYS = 100_000
STEPS = 10_000
SENSITIVITY = Fraction(1, 1000)
NOISES = ("0.02", "0.05", "0.1", "0.2", "0.5")


def noise() -> list[list[str]]:
    """Deviates, comparisons, maxima."""
    source, values = OperatingSystem(), np.random.default_rng(1).integers(0, 1000, KEYS)
    largest, test = GaussianMax(50), GaussianThreshold("0.5", "0.1")
    held = test.start(source)
    floats = np.random.default_rng()
    exact, rounded = side_by_side(
        [lambda: largest.step(values, source), lambda: (values + 50 * floats.standard_normal(KEYS)).argmax()]
    )
    return [
        ["one deviate", f"{best(lambda: deviate(source), repeats=1000) * 1e6:.0f} us", ""],
        [
            "a test of one value",
            f"{best(lambda: test.step(Fraction(1, 3), held, source), repeats=1000) * 1e6:.0f} us",
            "",
        ],
        [f"{KEYS:,} deviates", f"{best(lambda: normals(source, KEYS)) * 1e3:.0f} ms", ""],
        [f"a maximum of {KEYS:,}", f"{exact * 1e3:.0f} ms", f"{rounded * 1e3:.1f} ms, leaks"],
    ]


def prices() -> list[list[str]]:
    """The time of all losses of a long run, step by step, and of calibrating the noise of a maximum."""
    mechanism = GaussianThreshold("0.5", "0.1")

    def stepwise() -> None:
        run_state._losses.cache_clear()
        terms = RunTerms(mechanism, Fraction(0), Fraction(1))
        for step in range(1, STEPS + 1):
            terms.losses(SENSITIVITY, step).worst(step, step)

    return [[f"losses of {STEPS:,} steps, one by one", f"{seconds(stepwise) / STEPS * 1e6:.1f} us a step", ""]]


def calls() -> list[list[str]]:
    """A step of a run and a test, ledger in a file."""
    rows = {"patient": list(range(1000)), "age": [i % 100 for i in range(1000)]}
    with tempfile.TemporaryDirectory() as folder:
        ledger, query = Path(folder) / "visits.ledger", count("age < 30")
        with chary.open(pa.table(rows), privacy_unit="patient", budget=Budget(epsilon=10**6), ledger=ledger) as session:
            run = session.start(AboveThreshold(threshold=700, threshold_noise=50, low=0, high=1000))
            ours, test = side_by_side(
                [lambda: run.ask(query), lambda: session.test(query, above=900, epsilon="0.1")], repeats=20
            )
    return [["a step of a run, ledger in a file", f"{ours * 1e3:.1f} ms", f"{test * 1e3:.1f} ms, session.test"]]


def losses() -> list[list[str]]:
    """What runs lose that halt early, late, or not, beside Laplace noise as large as that of a query."""
    lines = []
    for own in NOISES:
        terms = RunTerms(GaussianThreshold("0.5", own), Fraction(0), Fraction(1))
        found = terms.losses(SENSITIVITY, STEPS)
        shown = [found.of(step, halted=True) for step in (1, 10, 100, STEPS)] + [found.of(STEPS, halted=False)]
        laplace = 4 * math.sqrt(2) * float(SENSITIVITY) / float(terms.mechanism.scales[1])
        lines.append([own, *(f"{loss:.4f}" for loss in shown), f"{laplace:.4f}"])
    return lines


def main() -> None:
    announce()
    against = [Against("time", "ours", "beside")]
    show("Gaussian selection: time", ["what", "ours", "beside"], noise() + prices() + calls(), against=against)
    headings = ["noise", "halted at 1", "at 10", "at 100", f"at {STEPS:,}", f"running after {STEPS:,}", "Laplace, any"]
    show("Loss of a run", headings, losses())


if __name__ == "__main__":
    main()
