"""Model inversion: a classifier's confidences tell a secret column of those it was trained on (Fredrikson 2014)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from chary.audit.limits import value_limit
from chary.audit.models.cases import Cases, confidences, memorising, private
from chary.audit.simulating import Progress, checked, generator
from chary.numbers import Number, whole


@dataclass(frozen=True)
class Inversion:
    """How often the attacker named the sensitive bit of somebody whose other columns and label he knew.

    - `rows` in the training data of each of `models`.
    - `raw`, `raw_outsiders`: with a classifier that memorises, of the people in its training data and of others.
    - `private`, `private_outsiders`: with one that is (`epsilon`, `delta`)-DP.
    - `baseline`: the share of the commoner value. `limit`: the most of the people in the data if neighbours replace a
      row, delta is 0 and the attacker knows of the bit no more than how common it is; None with a delta.

    What holds of outsiders too was learned from the population, which is no breach: the breach is `raw` less
    `raw_outsiders`.
    """

    rows: int
    models: int
    epsilon: float
    delta: float
    raw: float
    raw_outsiders: float
    private: float
    private_outsiders: float
    baseline: float
    limit: float | None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


def inversion(
    cases: Cases,
    *,
    epsilon: Number,
    delta: Number = 0,
    rows: int = 1000,
    models: int = 10,
    raw: Any = None,
    seed: int | None = 0,
    on_progress: Progress | None = None,
) -> Inversion:
    """Guess the sensitive column from a model that shows how sure it is of each label.

    The attacker knows all other columns and the label y of a person, how common each value v is, and the model. He says
    the v with the largest product of v's share and the model's confidence in y given v. Each model is trained on random
    people of `cases`, and as many others are outsiders. `raw` is a scikit-learn classifier with `predict_proba` (a
    decision tree unless said); the private one is `chary.learning.PrivateLogisticRegression`.

    Errors: `InvalidParameter` for sizes that no budget has, or too few people.

    >>> rng = np.random.default_rng(0)
    >>> made_up = Cases((rng.random((900, 8)) < 0.5).astype(float), rng.integers(0, 2, 900))
    >>> found = inversion(made_up, epsilon=1, rows=400, models=3)
    >>> found.raw > found.raw_outsiders + 0.1, found.private < 0.6
    (True, True)
    """
    budget, rng = checked(epsilon, delta), generator(seed)
    size, share = whole(rows, "rows", least=10), float(cases.rows[:, cases.sensitive].mean())
    shares = []
    for done in range(whole(models, "models")):
        members, outsiders = cases.split(rng, [size, size])
        open_model = clone(memorising(done) if raw is None else raw).fit(members.rows, members.labels)
        closed = private(epsilon, delta, rng, seed).fit(members.rows, members.labels)
        pairs = [(model, people) for model in (open_model, closed) for people in (members, outsiders)]
        shares.append([_right(model, people, share) for model, people in pairs])
        if on_progress is not None:
            on_progress(done + 1, models)
    baseline = max(share, 1 - share)
    exact_epsilon, exact_delta = budget.exact
    limit = None if exact_delta else value_limit(epsilon, [baseline, 1 - baseline])
    raw_share, raw_others, private_share, private_others = np.mean(shares, axis=0).tolist()
    return Inversion(
        rows=size,
        models=models,
        epsilon=float(exact_epsilon),
        delta=float(exact_delta),
        raw=raw_share,
        raw_outsiders=raw_others,
        private=private_share,
        private_outsiders=private_others,
        baseline=baseline,
        limit=limit,
    )


def _right(model: Any, people: Cases, share: float) -> float:
    """The share of the people whose sensitive bit is guessed."""
    weights = [
        prior * confidences(model, people.with_sensitive(value), people.labels)
        for value, prior in enumerate((1 - share, share))
    ]
    guessed = weights[1] > weights[0]
    return float(np.mean(guessed == people.rows[:, people.sensitive]))
