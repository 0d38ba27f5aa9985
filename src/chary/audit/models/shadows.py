"""Membership in the training data of a classifier, by shadow models (Shokri 2017; Carlini 2022)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import clone

from chary.audit.membership import Power
from chary.audit.models.cases import Cases, Floats, confidences, memorising, private
from chary.audit.simulating import Progress, checked, generator
from chary.numbers import Number, whole


@dataclass(frozen=True)
class Shadows:
    """How well an attacker found out who was in the training data of a classifier.

    - `rows` in the training data of each of `models`, as many outsiders beside them, and `shadows` models that the
      attacker trains on people of his own.
    - `raw`: against a classifier that memorises; `private`: against one that is (`epsilon`, `delta`)-DP; `limit`: the
      most against any such release where neighbours replace a row.
    """

    rows: int
    models: int
    shadows: int
    epsilon: float
    delta: float
    raw: Power
    private: Power
    limit: Power

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


def shadows(
    cases: Cases,
    *,
    epsilon: Number,
    delta: Number = 0,
    rows: int = 500,
    models: int = 10,
    shadows: int = 8,
    raw: Any = None,
    seed: int | None = 0,
    on_progress: Progress | None = None,
) -> Shadows:
    """Trace people in the training data of a model that shows how sure it is of each label.

    The attacker trains `shadows` models of the same kind on people of his own, none of whom is a member or an outsider,
    and learns from them how sure a model is of somebody it has never seen. The score of a person is the log-odds of the
    model's confidence in the true label, less the mean of those of the shadows. `raw` is a scikit-learn classifier with
    `predict_proba` (a decision tree unless said); the private one is `chary.learning.PrivateLogisticRegression`.

    Errors: `InvalidParameter` for sizes that no budget has, or fewer than three times `rows` people.

    >>> rng = np.random.default_rng(0)
    >>> made_up = Cases(rng.random((900, 8)).round(), rng.integers(0, 2, 900))
    >>> found = shadows(made_up, epsilon=1, rows=200, models=3, shadows=4)
    >>> found.raw.auc > 0.6, found.private.auc < 0.6, round(found.limit.auc, 2)
    (True, True, 0.73)
    """
    budget, rng = checked(epsilon, delta), generator(seed)
    size, own = whole(rows, "rows", least=10), whole(shadows, "shadows")
    scores = []
    for done in range(whole(models, "models")):
        members, outsiders, others = cases.split(rng, [size, size, len(cases.rows) - 2 * size])
        kinds = [clone(memorising(done) if raw is None else raw), private(epsilon, delta, rng, seed)]
        scores.append([_scores(kind, members, outsiders, others, rng, own) for kind in kinds])
        if on_progress is not None:
            on_progress(done + 1, models)
    exact, closed = (_pooled([each[kind] for each in scores]) for kind in (0, 1))
    exact_epsilon, exact_delta = map(float, budget.exact)
    return Shadows(size, models, own, exact_epsilon, exact_delta, exact, closed, Power.limit(epsilon, delta))


def _scores(
    model: Any, members: Cases, outsiders: Cases, others: Cases, rng: np.random.Generator, own: int
) -> tuple[Floats, Floats]:
    """Members' and outsiders' scores."""
    trained = clone(model).fit(members.rows, members.labels)
    expected = [np.zeros(len(members.rows)), np.zeros(len(outsiders.rows))]
    for _ in range(own):
        [mine] = others.split(rng, [len(members.rows)])
        shadow = clone(model).fit(mine.rows, mine.labels)
        expected = [
            sum_ + _sure(shadow, people) / own for sum_, people in zip(expected, (members, outsiders), strict=True)
        ]
    member, outsider = (
        _sure(trained, people) - known for people, known in zip((members, outsiders), expected, strict=True)
    )
    return member, outsider


def _sure(model: Any, people: Cases) -> Floats:
    return np.asarray(logit(confidences(model, people.rows, people.labels)))


def _pooled(scores: list[tuple[Floats, Floats]]) -> Power:
    members, outsiders = (np.concatenate(side) for side in zip(*scores, strict=True))
    return Power.measured(members, outsiders)
