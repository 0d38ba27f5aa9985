"""The command that plans a budget: what fits into it."""

from dataclasses import asdict
from typing import Final

from chary import accounting
from chary.accounting.sharp_widths import laplace_width, sharp_menu
from chary.cli import commands, output
from chary.errors import InvalidParameter

# What is told of each number of hits, in this order, and its heading.
_MENU: Final = {
    "hits": "hits",
    "sparse": "sparse vector",
    "laplace": "Laplace tests",
    "alone": "optimal tests",
    "agreed": "number fixed",
    "within": "with values",
    "value_error": "error of values",
}


@commands.plainly
def plan(
    budget_epsilon: str | None = None,
    budget_delta: str | None = None,
    hits: int | None = None,
    epsilon: str | None = None,
    tests: int | None = None,
    value: str = "1/4",
) -> commands.Found:
    """Compute the fourth of --budget-epsilon, --budget-delta, --hits, --epsilon; from the first two, a table.

    These are limits of the exact curve, for calls of one size alone; chary quote says what a ledger charges.

    With --tests the table has the error of all tests together for several numbers of hits, in sensitivities. Its
    columns are a sparse vector, Laplace noise, and optimal tests: without values, for a fixed number of tests, and with
    values, whose own error is the last column.

    budget_epsilon: Total epsilon.
    budget_delta: Total delta.
    hits: Hits to pay for.
    epsilon: Epsilon of each call.
    tests: Tests in all: how near to a threshold they are right.
    value: With --tests: of the cost of a hit, the part for its value.
    """
    if budget_epsilon is not None and budget_delta is not None and hits is None and epsilon is None:
        whole = (budget_epsilon, budget_delta)
        yield _choices(*whole) if tests is None else _menu(*whole, tests, value)
        return
    if tests is not None:
        raise InvalidParameter(
            "--tests is for a menu of what a budget pays for: give --budget-epsilon and --budget-delta alone"
        )
    if [budget_epsilon, budget_delta, hits, epsilon].count(None) != 1:
        raise InvalidParameter(
            "give three of --budget-epsilon, --budget-delta, --hits and --epsilon, or the budget alone, as in: "
            "chary plan --budget-epsilon 1 --budget-delta 1e-6"
        )
    with output.spinning("planning"):
        asked = accounting.plan(epsilon=budget_epsilon, delta=budget_delta, hits=hits, epsilon_per_call=epsilon)
    yield commands.Shown(asked.as_dict(), output.show_pairs)


def _choices(epsilon: str, delta: str) -> commands.Shown:
    plans = accounting.trade_offs(epsilon=epsilon, delta=delta)
    if not plans:
        raise InvalidParameter("nothing fits into this budget")
    rows, title = (
        [(p.hits, p.epsilon_per_call) for p in plans],
        f"Hits, with free misses, for epsilon {epsilon}, delta {delta}",
    )
    columns = ["hits", "largest epsilon of a test"]
    return commands.Shown([found.as_dict() for found in plans], lambda _: output.show_table(columns, rows, title))


def _menu(epsilon: str, delta: str, tests: int, value: str) -> commands.Shown:
    """The plans with the figures of their numbers of hits."""
    with output.spinning("looking for the best orders"):
        choices = sharp_menu(epsilon=epsilon, delta=delta, tests=tests, value=value)
        found = {choice.hits: asdict(choice) for choice in choices}
        plans = accounting.trade_offs(epsilon=epsilon, delta=delta, hits=tuple(found))
    told = [
        plan.as_dict() | found[plan.hits] | {"laplace": laplace_width(plan.epsilon_per_call, tests=tests)}
        for plan in plans
    ]
    within = f"{tests:,} tests within epsilon {epsilon}, delta {delta}"
    title = f"{within}: errors in multiples of the sensitivity, 95 % confidence"
    rows = [[_short(plan[name]) for name in _MENU] for plan in told]
    return commands.Shown(told, lambda _: output.show_table(list(_MENU.values()), rows, title))


def _short(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:,.0f}"
