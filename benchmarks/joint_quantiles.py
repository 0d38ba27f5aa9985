"""Three quartiles at once: halving, a third of epsilon each, and the joint exponential mechanism as a peer.

Run as `python benchmarks/joint_quantiles.py [--full]`. The peer (`chary_research.joint_quantiles`) is in floats and on
a continuous range. Values are samples of 500 rows of Adult's fnlwgt, or of a log-normal law where that file is absent;
the grid of ours has steps of 1,000 from 0 to 1,500,000. Errors are means over samples, runs and quartiles: ranks, and
distances in the unit of the column. `chary reproduce quantiles-by-number` compares them by the number of quantiles.
"""

import gzip
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.csv as arrow

from chary.mechanisms import HalvedQuantiles, Order
from chary.noise import Seeded
from chary_research.joint_quantiles import Floats, JointExponential
from measuring import announce, full, show
from recording import Against

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
SIZE, SAMPLES, RUNS, SEED = 500, 40 if full() else 8, 20, 20_261_122
STEP, TOP = 1000, 1_500_000
HEADINGS = ["epsilon", "halving", "thirds", "joint", "best of ours / joint", "halving, off by", "thirds", "joint"]
PEER = Against("ranks off, halving beside the joint mechanism", "halving", "joint", kind="peer")
Chooser = Callable[[], Floats]


def population() -> Floats:
    """What is sampled from."""
    if not ADULT.exists():
        return np.random.default_rng(SEED).lognormal(12.0, 0.55, 48_842).clip(0, TOP)
    with gzip.open(ADULT) as file:
        found: Floats = arrow.read_csv(file)["fnlwgt"].to_numpy().astype(float)
    return found


def choosers(values: Floats, epsilon: Fraction, source: Seeded, generator: np.random.Generator) -> list[Chooser]:
    """Halving, a third of epsilon for each quartile, and the peer."""
    places, counts = np.unique(np.rint(values / STEP).astype(np.int64), return_counts=True)
    order = Order(places, counts, TOP // STEP + 1)
    halving = HalvedQuantiles(QUARTILES, epsilon, replace=False)
    thirds = [HalvedQuantiles((q,), epsilon / 3, replace=False, flip=True) for q in QUARTILES]
    joint = JointExponential(values, float(epsilon), tuple(map(float, QUARTILES)), float(TOP))
    return [
        lambda: STEP * np.array(halving.step(order, source), dtype=float),
        lambda: STEP * np.array(sorted(each.step(order, source)[0] for each in thirds), dtype=float),
        lambda: joint.draw(generator),
    ]


def errors(epsilon: Fraction) -> tuple[Floats, Floats]:
    """Mean errors of rank and of value for each mechanism."""
    generator, source, everybody = np.random.default_rng(SEED), Seeded(SEED), population()
    ranks, apart = np.zeros(3), np.zeros(3)
    wanted = np.array([float(q) for q in QUARTILES])
    for _ in range(SAMPLES):
        values = np.sort(generator.choice(everybody, SIZE, replace=False))
        truth = np.quantile(values, wanted, method="inverted_cdf")
        for place, choose in enumerate(choosers(values, epsilon, source, generator)):
            found = np.array([choose() for _ in range(RUNS)])
            ranks[place] += np.abs(np.searchsorted(values, found, "right") - wanted * SIZE).mean() / SAMPLES
            apart[place] += np.abs(found - truth).mean() / SAMPLES
    return ranks, apart


def rows() -> Iterator[list[str]]:
    """All lines of the table."""
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2)):
        ranks, apart = errors(epsilon)
        figures = [f"{value:.1f}" for value in ranks]
        ratio = f"{min(ranks[:2]) / ranks[2]:.2f}"
        yield [f"{float(epsilon):g}", *figures, ratio, *(f"{value:,.0f}" for value in apart)]


def main() -> int:
    """Print the table."""
    announce()
    show("Three quartiles of 500 values, add/remove: ranks off, then distance", HEADINGS, rows(), against=[PEER])
    return 0


if __name__ == "__main__":
    sys.exit(main())
