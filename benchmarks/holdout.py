"""What reusing a holdout does, and a reusable one beside it: labels that nothing predicts, 1,000 variables."""

import sys

from chary import Budget
from chary_research.reuse import Overfitting, random_labels
from measuring import duration, machine, seconds, show


def main() -> None:
    """Print both analyses."""
    print(machine())
    found: list[Overfitting] = []
    took = seconds(lambda: found.append(random_labels(rows=2000, tolerance="0.12", budget=Budget(2, "1e-6"))))
    [told] = found
    show(
        f"2,000 rows, 1,000 variables, (2, 1e-6): {told.asked} questions, {told.disagreements} disagreements, "
        f"{told.share:.1%} of the budget, {duration(took)}",
        ("variables", "naive: training", "holdout", "fresh", "reusable: training", "as told", "fresh"),
        [
            (
                str(a.variables),
                *(f"{part:.3f}" for part in (a.training, a.holdout, a.fresh, b.training, b.holdout, b.fresh)),
            )
            for a, b in zip(told.naive, told.reusable, strict=True)
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
