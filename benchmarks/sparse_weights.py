"""Multiplicative weights in rounds of sparse vector: what the published and the exact constants promise.

Run as `python benchmarks/sparse_weights.py`; half a minute. `growing_queries.py` puts them to work.
"""

from typing import Any

from chary.accounting.weights import published_weights_alpha, round_alpha_up, sparse_weights_alpha, weight_rounds
from measuring import announce, show

CELLS, QUERIES, ALPHA, START, MANY = 103_488, 1000, "0.1", 5000, 1_000_000
RHO, ROUNDS = "0.0243", 60
PUBLISHED: dict[str, Any] = {"constants": "published", "update": "published", "mixing": 1}
FORMS: dict[str, dict[str, Any]] = {
    "published, epsilon 1": PUBLISHED | {"epsilon": 1},
    "published, epsilon 1, delta 1e-6": PUBLISHED | {"epsilon": 1, "delta": "1e-6"},
    "exact, epsilon 1": {"epsilon": 1, "mixing": "0.1"},
    f"exact, rho {RHO}": {"rho": RHO, "mixing": "0.1"},
    f"exact, rho {RHO}, {ROUNDS} rounds": {"rho": RHO, "rounds": ROUNDS, "mixing": "0.1"},
}


def reached(form: dict[str, Any], size: int) -> float:
    """What so many queries at this size are all within, opened there with an alpha of 0.1."""
    rounds = weight_rounds(alpha=ALPHA, cells=CELLS, start=size, **form)
    spread = min(QUERIES, rounds.allowance.most(size))
    return round_alpha_up(rounds.noise(1, size), size=size, queries=QUERIES, rounds=spread)


def least_size(form: dict[str, Any]) -> int:
    """The number of rows, to two digits, from which on an alpha of 0.1 is kept."""
    low, high = 1.0, 1.0
    while reached(form, int(10**high)) > float(ALPHA):
        low, high = high, high + 1
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(form, int(10**middle)) <= float(ALPHA) else (middle, high)
    return int(10**high)


def promised(name: str, form: dict[str, Any]) -> list[str]:
    """The noise of a test, the accuracy at two sizes, and from which size on the form is good for an alpha of 0.1."""
    noise = weight_rounds(alpha=ALPHA, cells=CELLS, start=START, **form).noise(1, START)
    alphas = [sparse_weights_alpha(cells=CELLS, size=size, queries=QUERIES, **form) for size in (START, MANY)]
    told = ["none" if alpha >= 1 else f"{alpha:.3f}" for alpha in alphas]
    return [name, f"{float(noise.test):,.0f}", f"{reached(form, START):.3g}", *told, f"{least_size(form):,}"]


def theorem(name: str, form: dict[str, Any]) -> list[str]:
    """The published theorems."""
    known = {"cells": CELLS, "queries": QUERIES, "epsilon": 1, "delta": form.get("delta", 0)}
    sizes = (START, MANY, 10**8, 10**10)
    return [name, *(f"{published_weights_alpha(size=size, **known):.3g}" for size in sizes)]


def main() -> None:
    announce()
    headings = [
        "",
        "scale of a test",
        f"within, {START:,} rows",
        f"alpha, {START:,}",
        f"alpha, {MANY:,}",
        "rows for 0.1",
    ]
    show(f"{QUERIES:,} queries, {CELLS:,} cells", headings, [promised(*form) for form in FORMS.items()])
    headings = ["", *(f"{size:,} rows" for size in (START, MANY, 10**8, 10**10))]
    show("The published theorems", headings, [theorem(*form) for form in list(FORMS.items())[:2]])


if __name__ == "__main__":
    main()
