"""How long the exact curve, the price of a hit and planning take; nothing is kept from one round to the next.

Run as `python benchmarks/accounting.py`. Every figure is the best of several rounds of this run.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

from chary.accounting import Targeted, exact_total, hit_price_up, plan, target_total
from chary.filters import Budget, ExactFilter, RenyiFilter
from measuring import Work, announce, best, duration, show
from recording import Against

DELTA = Fraction(1, 10**6)
GRAIN = Fraction(1, 50)
ORDER = Fraction(18)
ROUNDS = 7
opened = itertools.count(1)


@dataclass(frozen=True)
class Task:
    """Something to time; `limit` is in seconds, None where there is none."""

    what: str
    work: Work
    limit: float | None = None
    repeats: int = 1

    def row(self) -> list[str]:
        """One line of the table."""
        taken = best(self.work, ROUNDS, self.repeats)
        if self.limit is None:
            return [self.what, duration(taken), "-", "-"]
        return [self.what, duration(taken), duration(self.limit), f"{taken / self.limit:.3f}"]


def curve(hits: int) -> Work:
    """The exact curve of NotPrior hits, in closed recursion."""
    return lambda: exact_total(epsilon_per_call=GRAIN, hits=hits, delta=DELTA)


def target_curve(hits: int) -> Work:
    """The exact curve of q-target hits, by policy iteration."""
    return lambda: target_total(epsilon_per_call=GRAIN, hits=hits, delta=DELTA, q=Fraction(3, 10))


def budget() -> Budget:
    """A budget that was never opened before, since filters keep what they computed for a budget."""
    return Budget(epsilon=1, delta=DELTA * (1 - Fraction(next(opened), 10**9)))


TASKS = [
    Task("exact total, 100 hits", curve(100), limit=0.05, repeats=10),
    Task("exact total, 1,000 hits", curve(1000)),
    Task("exact total of q-targets, q = 0.3, 10 hits", target_curve(10)),
    Task("exact total of q-targets, q = 0.3, 100 hits", target_curve(100)),
    Task("price of a hit (60 digits, uncached)", lambda: hit_price_up(Targeted(GRAIN), ORDER), repeats=200),
    Task("plan: hits", lambda: plan(epsilon=1, delta=DELTA, epsilon_per_call=GRAIN)),
    Task("plan: epsilon per call, 50 hits", lambda: plan(epsilon=1, delta=DELTA, hits=50)),
    Task("plan: delta, 50 hits", lambda: plan(epsilon=1, hits=50, epsilon_per_call=GRAIN), repeats=10),
    Task("new Renyi filter: choice of the order", lambda: RenyiFilter.best(budget(), grain=GRAIN)),
    Task("new exact filter with its menu", lambda: ExactFilter.with_revisions(budget(), GRAIN)),
]


def main() -> None:
    announce()
    title = f"Accounting: calls of epsilon {float(GRAIN):g} at delta {float(DELTA):g}"
    against = Against("time", "time", "limit", "time / limit")
    show(title, ["what", "time", "limit", "time / limit"], (task.row() for task in TASKS), against=[against])


if __name__ == "__main__":
    main()
