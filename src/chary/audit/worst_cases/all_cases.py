"""Every kind of call that is audited, by its name."""

from collections.abc import Sequence
from functools import cache

from chary.audit.worst_cases import (
    of_candidates,
    of_choices,
    of_numbers,
    of_runs,
    of_sketches,
    of_sparse,
    of_sums,
    of_thresholds,
)
from chary.audit.worst_cases.worst_case import WorstCase
from chary.errors import InvalidParameter

# One of each way in which neighbours are told apart: what a minute is enough for.
QUICK = ("test", "test: a hit", "release", "label", "watch", "sparse_watch in the tuned form")


@cache
def worst_cases() -> dict[str, WorstCase]:
    """All of them; some kinds have several, such as one for what a hit costs.

    >>> {"test", "release", "sparse_test"} <= worst_cases().keys()
    True
    """
    modules = of_numbers, of_sums, of_choices, of_candidates, of_thresholds, of_sparse, of_runs, of_sketches
    found = [case for module in modules for case in module.CASES]
    return {case.kind: case for case in found}


def named(kinds: Sequence[str]) -> list[WorstCase]:
    """Those of these names, where "test" also stands for "test: a hit"; `InvalidParameter` for an unknown one."""
    found = []
    for kind in kinds:
        meant = [case for name, case in worst_cases().items() if name == kind or name.startswith(f"{kind}: ")]
        if not meant:
            raise InvalidParameter(f"there is no kind {kind!r} to audit, only {', '.join(worst_cases())}")
        found += meant
    return list({case.kind: case for case in found}.values())
