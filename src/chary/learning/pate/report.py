"""What labelling achieved, beside what other ways would have."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chary.errors import InvalidParameter
from chary.numbers import plain


@dataclass(frozen=True)
class LabelReport:
    """The labels that a budget bought.

    - `points`: how many there were; `labels`: released.
    - `label_accuracy`, `student_accuracy`: against a test set, None where there was none. Neither is private by itself:
      both need true labels, which only a public test set may show.
    - `share`: of the budget, charged. `plain_share`: what the same labels take when each is paid for by ordinary
      composition, above 1 where the budget would not do. `confident`: how many labels Confident-GNMax released on the
      same votes at the same (epsilon, delta); None if it was not tried.

    >>> print(LabelReport(points=400, labels=380, label_accuracy=0.93, student_accuracy=0.9, share=0.8,
    ...     plain_share=21.0, confident=12))
    380 labels of 400 points, 93 % right; the student is right on 90 %. 80 % of the budget is charged; plain
    composition would take 2100 %. Confident-GNMax released 12 labels.
    """

    points: int
    labels: int
    label_accuracy: float | None
    student_accuracy: float | None
    share: float
    plain_share: float
    confident: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        right = "" if self.label_accuracy is None else f", {_percent(self.label_accuracy)} right"
        student = (
            "" if self.student_accuracy is None else f"; the student is right on {_percent(self.student_accuracy)}"
        )
        confident = "" if self.confident is None else f" Confident-GNMax released {self.confident} labels."
        return (
            f"{self.labels} labels of {self.points} points{right}{student}. {_percent(self.share)} of the budget is "
            f"charged; plain composition would take {_percent(self.plain_share)}.{confident}"
        )


def label_accuracy(released: Mapping[int, Hashable], truth: Sequence[Hashable]) -> float | None:
    """The share of the released labels that are true; `released` maps positions in `truth` to labels; None if empty.

    >>> label_accuracy({0: "yes", 2: "no"}, ["yes", "no", "yes"])
    0.5
    """
    if any(not 0 <= position < len(truth) for position in released):
        raise InvalidParameter("every released label needs its true one")
    if not released:
        return None
    return float(sum(bool(truth[position] == label) for position, label in released.items()) / len(released))


def _percent(share: float) -> str:
    return f"{plain(100 * share)} %"
