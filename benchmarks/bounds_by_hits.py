"""Bounds of target charging against the number of hits: published, exact tail, one Renyi order, exact curve; a picture.

Run as `python benchmarks/bounds_by_hits.py [FILE.png]`: total epsilon at delta 1e-6 for calls of 0.1, 0.02 and 0.005, a
table of each, and with a file name the picture. Plain composition of as many calls as hits is the floor that no method
of paying for hits can pass.
"""

import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import matplotlib

from chary.accounting import Targeted, compose, epsilon_up, exact_tail_total, exact_total, hit_price_up, published_total

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DELTA = Fraction(1, 10**6)
SIZES = ("0.1", "0.02", "0.005")
HITS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# Every order gives a bound. A session takes the best for its budget, and these lie at most a part in 50 from any.
ORDERS = tuple(1 + Fraction(f"{1.02**step:.4g}") for step in range(-60, 400))


def renyi_total(*, epsilon_per_call: str, hits: int) -> float:
    """The least total epsilon of so many hits at one Renyi order, of these orders."""
    prices = [(order, hit_price_up(Targeted(epsilon_per_call), order)) for order in ORDERS]
    return min(float(epsilon_up(hits * price, order, DELTA)) for order, price in prices if price is not None)


def bounds(size: str, hits: Sequence[int] = HITS) -> dict[str, list[float]]:
    """Total epsilon by each bound, for these numbers of hits."""
    asked = {"epsilon_per_call": size, "delta": DELTA}
    return {
        "published": [published_total(hits=number, **asked) for number in hits],
        "exact tail": [exact_tail_total(hits=number, **asked) for number in hits],
        "one Renyi order": [renyi_total(epsilon_per_call=size, hits=number) for number in hits],
        "exact curve": [exact_total(hits=number, **asked) for number in hits],
        "as many plain calls": [compose(epsilon=size, times=number, delta=DELTA).optimal for number in hits],
    }


def draw(path: Path, sizes: Sequence[str] = SIZES, hits: Sequence[int] = HITS) -> None:
    """Write the picture: one field for each size of a call."""
    figure, fields = plt.subplots(1, len(sizes), figsize=(4 * len(sizes), 3.6), layout="constrained", squeeze=False)
    for field, size in zip(fields[0], sizes, strict=True):
        for name, totals in bounds(size, hits).items():
            field.loglog(hits, totals, "k:" if name.startswith("as many") else "o-", markersize=3, label=name)
        field.set(title=f"calls of epsilon {size}", xlabel="hits", ylabel="total epsilon at delta 1e-6")
    fields[0][0].legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    for size in SIZES:
        found = bounds(size)
        print(f"\nTotal epsilon at delta 1e-6, calls of {size}\n")
        print(f"| hits | {' | '.join(found)} |", f"|---{'|---' * len(found)}|", sep="\n")
        for at, hits in enumerate(HITS):
            print(f"| {hits} | {' | '.join(f'{totals[at]:.4g}' for totals in found.values())} |")
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
