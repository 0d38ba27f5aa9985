"""Selection with exact Gaussian noise: how long noise, choices, prices and calls take, and what runs lose.

Run as `python benchmarks/gaussian_runs.py`. The noisy maximum is beside float64 Gaussian noise, which leaks; a step of
a run beside `session.test` of the same query on the same ledger. Losses are for values in [0, 1], sensitivity 1/1000
and the threshold 1/2, beside the epsilon of Laplace noise of the same standard deviation (GaussianAboveThreshold,
[SVT]). Runs that restart themselves are beside the published rules for when they stop. Their days are made up: a year
of values within [0, 1], high in one week of ten."""

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

import chary
from chary import Budget, count
from chary.accounting import gaussian_runs as run_moments
from chary.accounting.composition import choose_order
from chary.accounting.gaussian_runs import run_moments_up
from chary.amounts import MAIN_STEPS
from chary.calls import GaussianAboveThreshold, SelfReporting
from chary.calls import gaussian_runs as run_state
from chary.calls.gaussian_runs import RunTerms
from chary.filters import RenyiFilter
from chary.mechanisms import GaussianMax, GaussianThreshold
from chary.noise import OperatingSystem, deviate, normals
from measuring import announce, best, seconds, show, side_by_side
from recording import Against

KEYS = 100_000
STEPS = 10_000
SENSITIVITY = Fraction(1, 1000)
NOISES = ("0.02", "0.05", "0.1", "0.2", "0.5")
DELTA = Fraction(1, 10**6)
ORDER = choose_order(Fraction(1), DELTA)
RULES = (
    {"stop": "pure"},
    {"stop": "renyi", "delta": DELTA},
    {"stop": "self-reporting", "delta": DELTA, "runs": 40},
    {"stop": "whitehouse", "delta": DELTA},
)
# A year may take so many draws before its figures are told; the middle one of each is.
YEARS = 21


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

    def stepwise() -> None:
        run_state._losses.cache_clear()
        terms = run_terms("0.1")
        for step in range(1, STEPS + 1):
            terms.losses(SENSITIVITY, step).worst(step, step)

    def at_an_order() -> None:
        run_moments._moments.cache_clear()
        run_moments_up(ORDER, **noises("0.1"))

    return [
        [f"losses of {STEPS:,} steps, one by one", f"{seconds(stepwise) / STEPS * 1e6:.1f} us a step", ""],
        ["a run at an order", f"{best(at_an_order) * 1e3:.0f} ms", ""],
    ]


def calls() -> list[list[str]]:
    """A step of a run and a test, ledger in a file."""
    rows = {"patient": list(range(1000)), "age": [i % 100 for i in range(1000)]}
    with tempfile.TemporaryDirectory() as folder:
        ledger, query = Path(folder) / "visits.ledger", count("age < 30")
        with chary.open(pa.table(rows), privacy_unit="patient", budget=Budget(epsilon=10**6), ledger=ledger) as session:
            run = session.start(GaussianAboveThreshold(threshold=700, threshold_noise=50, low=0, high=1000))
            ours, test = side_by_side(
                [lambda: run.ask(query), lambda: session.test(query, above=900, epsilon="0.1")], repeats=20
            )
    return [["a step of a run, ledger in a file", f"{ours * 1e3:.1f} ms", f"{test * 1e3:.1f} ms, session.test"]]


def losses() -> list[list[str]]:
    """What runs lose that halt early, late, or not, beside Laplace noise as large as that of a query."""
    lines = []
    for own in NOISES:
        terms = run_terms(own)
        found = terms.losses(SENSITIVITY, STEPS)
        shown = [found.of(step, halted=True) for step in (1, 10, 100, STEPS)] + [found.of(STEPS, halted=False)]
        laplace = 4 * math.sqrt(2) * float(SENSITIVITY) / float(terms.mechanism.scales[1])
        lines.append([own, *(f"{loss:.4f}" for loss in shown), f"{laplace:.4f}"])
    return lines


def run_terms(own: str) -> RunTerms:
    """A run of values in [0, 1] against 1/2, with this noise."""
    return RunTerms(GaussianThreshold("0.5", own), Fraction(0), Fraction(1))


def noises(own: str) -> dict[str, Fraction]:
    """What a run with this noise is priced by."""
    threshold_noise, query_noise = run_terms(own).mechanism.scales
    placed = {"threshold": Fraction(1, 2), "sensitivity": SENSITIVITY}
    return {"threshold_noise": threshold_noise, "query_noise": query_noise} | placed


def at_an_order() -> list[list[str]]:
    """What a run costs at the order of a filter for (1, 1e-6), as a part of what the filter has."""
    room = RenyiFilter(Budget(1, DELTA), ORDER).capacity.main / MAIN_STEPS
    lines = []
    for own in NOISES[1:]:
        found, terms = run_moments_up(ORDER, **noises(own)), run_terms(own)
        lost = float(ORDER - 1) * terms.losses(SENSITIVITY, STEPS).of(100, halted=True)
        sizes = {name: size for name, size in noises(own).items() if name != "threshold"}
        bar, query = (float(SENSITIVITY / sizes[name]) ** 2 for name in ("threshold_noise", "query_noise"))
        zhu_wang = float(ORDER * (ORDER - 1)) * (bar / 2 + 2 * query) + math.log(STEPS)
        shares = [lost, zhu_wang] if found is None else [found.opening, found.hit, found.whole, lost, zhu_wang]
        lines.append([own, *["none"] * (5 - len(shares)), *(f"{share / room:.2%}" for share in shares)])
    return lines


def a_year() -> list[Fraction]:
    """Days within [0, 1]: about 0.3, and about 0.8 in one week of ten."""
    random = np.random.default_rng(11)
    high = np.arange(365) // 7 % 10 == 4
    return [
        Fraction(str(value))
        for value in np.clip(np.where(high, 0.8, 0.3) + 0.05 * random.normal(size=365), 0, 1).round(4)
    ]


def stopping() -> list[list[str]]:
    """How far runs come in a year under each rule, and the F1 score of their hits among all days."""
    days, lines = a_year(), []
    truth = np.array([value >= Fraction(1, 2) for value in days])
    for own in NOISES[1:]:
        for rule in RULES:
            call = SelfReporting(
                epsilon=1, threshold="0.5", threshold_noise=own, low=0, high=1, sensitivity=SENSITIVITY, **rule
            )
            found = []
            for _ in range(YEARS):
                source = OperatingSystem()
                above, tested, _ = call.machine.scan(days, call.machine.start(source), source)
                hits = np.isin(np.arange(len(days)), above)
                found.append((len(above), tested, 2 * int((hits & truth).sum()) / int(hits.sum() + truth.sum())))
            hits, tested, score = np.median(np.array(found), axis=0)
            lines.append([own, rule["stop"], f"{hits:.0f}", f"{tested:.0f}", f"{score:.2f}"])
    return lines


def main() -> None:
    announce()
    against = [Against("time", "ours", "beside")]
    show("Gaussian selection: time", ["what", "ours", "beside"], noise() + prices() + calls(), against=against)
    headings = ["noise", "halted at 1", "at 10", "at 100", f"at {STEPS:,}", f"running after {STEPS:,}", "Laplace, any"]
    show("Loss of a run", headings, losses())
    headings = ["noise", "ours: opening", "hit", "whole", "its loss, halted at 100", f"Zhu-Wang, {STEPS:,} tests"]
    show(f"A run at order {float(ORDER):g}: parts of (1, 1e-6)", headings, at_an_order())
    headings = ["noise", "rule", "hits", "days tested", "F1"]
    show("A year within epsilon 1 (pure), or (1, 1e-6): medians", headings, stopping())


if __name__ == "__main__":
    main()
