"""What a budget for one entry promises to a unit with several, and the other way round."""

import math
from fractions import Fraction

from chary.data import Rows, RowTable
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import plain, whole

# Exponents up to 709 are rounded to floats, which moves their exponential by 2**-43 at most.
_ROUNDED_UP = Fraction(1) + Fraction(1, 2**40)


def entry_budget(budget: Budget, entries_per_unit: int) -> Budget:
    """The budget for one replaced entry that keeps `budget` for c of them; delta is rounded down.

    Guarantee: with epsilon' = epsilon / c and delta' = delta / (1 + e^epsilon' + ... + e^((c-1) epsilon')), whatever is
    (epsilon', delta')-DP when one entry is replaced is (epsilon, delta)-DP when c are: by a walk over c + 1 streams,
    `P_0(S) <= e^epsilon' P_1(S) + delta' <= ... <= e^(c epsilon') P_c(S) + delta' (1 + ... + e^((c-1) epsilon'))`.

    >>> entry_budget(Budget(epsilon=3), 3)
    Budget(epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    >>> float(entry_budget(Budget(epsilon=1, delta="1e-6"), 2).delta)
    3.7754066879...e-07
    """
    epsilon, delta = budget.exact
    each = epsilon / whole(entries_per_unit, "entries_per_unit")
    return Budget(each, delta / _deltas_up(each, entries_per_unit) if delta else 0)


def unit_budget(budget: Budget, entries_per_unit: int) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that a budget for one replaced entry gives a unit with that many; delta rounded up.

    >>> [plain(part) for part in unit_budget(entry_budget(Budget(epsilon=1, delta="1e-6"), 3), 3)]
    ['1', '1e-06']
    """
    epsilon, delta = budget.exact
    most = whole(entries_per_unit, "entries_per_unit")
    return most * epsilon, delta * _deltas_up(epsilon, most) if delta else Fraction(0)


def promised_to_units(rows: Rows, budget: Budget) -> str:
    """The sentence of a statement that says what units with several entries have; empty where there are none."""
    limit = rows.limit if isinstance(rows, RowTable) else None
    if limit is None:
        return ""
    epsilon, delta = unit_budget(budget, limit.most)
    return (
        f" For all entries of one {limit.of}, at most {limit.most} of which were let in, that is "
        f"({plain(epsilon)}, {plain(delta)})-differential privacy."
    )


def _deltas_up(epsilon: Fraction, steps: int) -> Fraction:
    """1 + e^epsilon + ... + e^((steps - 1) epsilon), a little too large; 1 exactly for one step."""
    if steps == 1:
        return Fraction(1)
    try:
        return Fraction(math.fsum(math.exp(step * epsilon) for step in range(steps))) * _ROUNDED_UP
    except OverflowError:
        raise InvalidParameter("so large an epsilon leaves no delta for a single entry") from None
