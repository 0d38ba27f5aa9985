"""What reusing a holdout does: labels that nothing predicts, and very many variables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.filters import Budget, largest_call
from chary.learning.holdout import ReusableHoldout
from chary.noise import Seeded
from chary.numbers import Number, probability, whole
from chary.session import open

Signs = NDArray[np.int8]


@dataclass(frozen=True)
class Reused:
    """Accuracies of a classifier of the `variables` that looked best: on the training rows, as the holdout reported it,
    and on fresh rows, which is the truth."""

    variables: int
    training: float
    holdout: float
    fresh: float


@dataclass(frozen=True)
class Overfitting:
    """Both analyses of the same rows: with a holdout that is simply looked at, and with a reusable one, which cost
    `share` of its budget for `disagreements`."""

    naive: tuple[Reused, ...]
    reusable: tuple[Reused, ...]
    asked: int
    disagreements: int
    share: float


@dataclass(frozen=True)
class _Rows:
    """Variables of 1 and -1 and labels of the same, each by a fair coin of its own but for the informative ones."""

    variables: Signs
    labels: Signs

    @classmethod
    def drawn(cls, rows: int, variables: int, draw: np.random.Generator, informative: int, agreement: float) -> "_Rows":
        signs = draw.integers(0, 2, (rows, variables + 1), dtype=np.int8) * 2 - 1
        if informative:
            agrees = draw.random((rows, informative)) < agreement
            signs[:, 1 : informative + 1] = np.where(agrees, 1, -1) * signs[:, :1]
        return cls(signs[:, 1:], signs[:, 0])

    def agreement(self) -> NDArray[np.float64]:
        """For each variable the proportion of rows in which it is the label."""
        found: NDArray[np.float64] = (self.variables == self.labels[:, None]).mean(axis=0)
        return found

    def table(self) -> pa.Table:
        names = {f"x{k}": self.variables[:, k] for k in range(self.variables.shape[1])}
        return pa.table(names | {"y": self.labels})


def random_labels(
    *,
    rows: int = 5000,
    variables: int = 1000,
    chosen: Sequence[int] = (1, 10, 30, 100, 300),
    budget: Budget,
    tolerance: Number = "0.08",
    informative: int = 0,
    agreement: Number = "0.53",
    seed: int = 0,
) -> Overfitting:
    """Choose the variables that predict random labels best, vote with them, and ask how good the vote is.

    `rows` train, as many are held out, and ten times as many are fresh. The naive analyst takes the variables of which
    training and holdout say the same, and judges the vote on the holdout; the other asks a `ReusableHoldout` for all
    of it. No vote is right more often than every second time, but of the first `informative` variables each is the
    label in this `agreement` of all rows. For experiments: rows and noise follow from the seed.

    >>> found = random_labels(rows=2000, variables=200, chosen=[100], budget=Budget(4, "1e-6"))
    >>> found.naive[0].holdout > 0.55, abs(found.reusable[0].holdout - 0.5) < 0.05, found.asked
    (True, True, 201)
    """
    draw = np.random.default_rng(seed)
    size, width = whole(rows, "rows"), whole(variables, "variables")
    known = whole(informative, "informative", least=0), float(probability(agreement, "agreement"))
    training, held, fresh = (_Rows.drawn(times * size, width, draw, *known) for times in (1, 1, 10))
    near = training.agreement() - 0.5
    naive = _picked(near, held.agreement() - 0.5, chosen)
    told = [
        Reused(len(picked), *(_accuracy(each, picked, near) for each in (training, held, fresh))) for picked in naive
    ]
    hits = len(chosen) + 3
    given: dict[str, Any] = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:"}
    given |= {"budget": budget, "grain": largest_call(budget, hits, "renyi"), "unsafe_noise": Seeded(seed + 1)}
    with open(held.table(), **given) as session:
        holdout = ReusableHoldout(session, training.table(), tolerance=tolerance, hits=hits)
        seen = np.array([_asked(holdout, [k], np.ones(width)) for k in range(width)]) - 0.5
        kept = []
        for picked in _picked(near, seen, chosen):
            answer = _asked(holdout, picked, near)
            kept.append(Reused(len(picked), _accuracy(training, picked, near), answer, _accuracy(fresh, picked, near)))
        share = float(session.spent.share)
    return Overfitting(tuple(told), tuple(kept), width + len(kept), holdout.disagreements, share)


def _picked(near: NDArray[np.float64], seen: NDArray[np.float64], chosen: Sequence[int]) -> list[list[int]]:
    """For each number as many variables: those of which both say the same, the strongest first."""
    strength = np.where(np.sign(near) == np.sign(seen), np.minimum(np.abs(near), np.abs(seen)), -1)
    order = np.argsort(-strength, kind="stable")
    return [[int(k) for k in order[: whole(number, "chosen")]] for number in chosen]


def _accuracy(rows: _Rows, picked: Sequence[int], near: NDArray[np.float64]) -> float:
    """Of the vote; an even one is right by half."""
    votes = np.sign(rows.variables[:, picked] @ np.sign(near[picked]))
    return float(np.where(votes == 0, 0.5, votes == rows.labels).mean())


def _asked(holdout: ReusableHoldout, picked: Sequence[int], near: NDArray[np.float64]) -> float:
    """What the holdout says of a vote, or of one variable."""
    names, signs = [f"x{k}" for k in picked], np.sign(near[list(picked)])

    def right(rows: pa.Table) -> NDArray[np.float64]:
        votes = np.sign(np.column_stack([rows[name].to_numpy() for name in names]) @ signs)
        return np.where(votes == 0, 0.5, votes == rows["y"].to_numpy())

    label = names[0] if len(names) == 1 else f"vote of {len(names)}"
    return holdout.ask(label, right, columns=[*names, "y"]).value
