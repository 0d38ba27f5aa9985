"""400,000 charges (or a million) against each filter: how many a second, and whether the last are as fast as the first.

Run as `python benchmarks/filters.py [--full]`. A charge prices its event, adds the price to what is spent and checks
that the sum fits; one that does not fit is refused, which takes the same steps. Every block of charges shows its best
round.
"""

import time
from fractions import Fraction

from chary.accounting import Event, Targeted
from chary.amounts import Amount
from chary.filters import Budget, ExactFilter, Filter, PureFilter, RenyiFilter
from measuring import announce, full, show

BLOCK = 100_000
BLOCKS = 10 if full() else 4
ROUNDS = 2
SMALL = Targeted(Fraction(1, 10**6))
BASIC = Targeted(Fraction(1, 50))
CASES: list[tuple[str, Filter, Event]] = [
    ("pure", PureFilter(Budget(epsilon=1)), SMALL),
    ("Renyi", RenyiFilter.best(Budget(epsilon=1, delta=1e-6)), SMALL),
    ("exact", ExactFilter.with_revisions(Budget(epsilon=1, delta=1e-6), Fraction(1, 50)), BASIC),
]


def charge(filter_: Filter, event: Event, spent: Amount, capacity: Amount) -> Amount:
    """What is spent after one more hit, or as before if it does not fit."""
    after = spent + filter_.price(event).hit
    return after if after.fits_into(capacity) else spent


def charges(filter_: Filter, event: Event) -> tuple[list[float], Amount]:
    """The time of each block of charges, and what they spent together."""
    spent, capacity, times = Amount(0), filter_.capacity, []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(BLOCK):
            spent = charge(filter_, event, spent, capacity)
        times.append(time.perf_counter() - start)
    return times, spent


def row(name: str, filter_: Filter, event: Event) -> list[str]:
    """One line of the table."""
    rounds = [charges(filter_, event) for _ in range(ROUNDS)]
    blocks = [min(times) for times in zip(*(times for times, _ in rounds), strict=True)]
    accepted = rounds[0][1].main // filter_.price(event).hit.main
    rates = [BLOCK * BLOCKS / sum(blocks), BLOCK / blocks[0], BLOCK / blocks[-1]]
    microseconds = sum(blocks) / (BLOCK * BLOCKS) * 1e6
    figures = [f"{rate:,.0f}" for rate in rates]
    return [name, *figures, f"{blocks[0] / blocks[-1]:.2f}", f"{microseconds:.2f}", f"{accepted:,}"]


def main() -> None:
    announce()
    headings = ["filter", "charges/s", f"first {BLOCK:,}", f"last {BLOCK:,}", "last / first", "us each", "accepted"]
    show(f"Filters: {BLOCK * BLOCKS:,} charges", headings, [row(*case) for case in CASES])


if __name__ == "__main__":
    main()
