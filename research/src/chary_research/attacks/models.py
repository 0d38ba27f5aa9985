"""Attacks on classifiers that show their confidences: membership by shadow models, and model inversion.

Needs the extra `learning`: `pip install 'chary[learning]'`. What an attack finds in secret data is secret.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from chary.errors import InvalidParameter
from chary.learning import PrivateLogisticRegression
from chary.numbers import Number, set_fields, whole
from chary_research.attacks.limits import Figures, Progress, checked, generator, in_turn, source_of, value_limit
from chary_research.attacks.membership import Power
from chary_research.attacks.plots import panes, roc_curves

# People whom a classifier is trained on, and two classifiers: one that memorises and one that is private.

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Attackers are never surer of a confidence than this, so that logarithms stay finite.
LEAST = 1e-4
# Rows of numbers in [0, 1], five of which are not 0 in the built-in cases: none of them is clipped.
RADIUS, LAM = 3, "0.01"


@dataclass(frozen=True)
class Cases:
    """One row of numbers in [0, 1] for each person, and a label of 0 or 1. `sensitive` is a column of zeros and ones.

    Errors: `InvalidParameter` for arrays that are not of this kind; it shows no value.
    """

    rows: Floats
    labels: Whole
    sensitive: int = 0

    def __post_init__(self) -> None:
        rows, labels = np.asarray(self.rows), np.asarray(self.labels)
        if rows.ndim != 2 or labels.shape != (len(rows),) or not np.isin(labels, (0, 1)).all():
            raise InvalidParameter("cases need a table of numbers, and one label of 0 or 1 for each row")
        if not np.all((rows >= 0) & (rows <= 1)):
            raise InvalidParameter("the numbers of cases lie between 0 and 1")
        column = whole(self.sensitive, "sensitive", least=0)
        if column >= rows.shape[1] or not np.isin(rows[:, column], (0, 1)).all():
            raise InvalidParameter("sensitive is the position of a column of zeros and ones")
        set_fields(self, rows=rows.astype(np.float64), labels=labels.astype(np.int64))

    def split(self, rng: np.random.Generator, sizes: Sequence[int]) -> list["Cases"]:
        """Disjoint random parts of these sizes; `InvalidParameter` if there are too few people."""
        if sum(sizes) > len(self.rows):
            raise InvalidParameter(f"the attack needs {sum(sizes)} people")
        parts = np.split(rng.permutation(len(self.rows))[: sum(sizes)], np.cumsum(sizes)[:-1])
        return [Cases(self.rows[part], self.labels[part], self.sensitive) for part in parts]

    def with_sensitive(self, value: int) -> Floats:
        """The rows as if everybody had this value."""
        rows = self.rows.copy()
        rows[:, self.sensitive] = value
        return rows


def memorising(seed: int) -> Any:
    """A classifier that fits every row it can: a decision tree of any depth."""
    return DecisionTreeClassifier(random_state=seed)


def private(epsilon: Number, delta: Number, rng: np.random.Generator, seed: int | None) -> PrivateLogisticRegression:
    """Logistic regression that is (epsilon, delta)-DP when one row is replaced."""
    source = source_of(rng, seed)
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=delta, lam=LAM, radius=RADIUS, classes=(0, 1), unsafe_noise=source
    )


def confidences(model: Any, rows: Floats, labels: Whole) -> Floats:
    """A trained model's confidence in each label."""
    shown = np.clip(model.predict_proba(rows), LEAST, 1 - LEAST)
    place = np.searchsorted(model.classes_, labels) if hasattr(model, "classes_") else labels
    return np.asarray(shown[np.arange(len(labels)), place])


def built_in_cases(table: pa.Table) -> Cases:
    """Cases of the built-in panel: do people see a doctor three times a year? `sensitive`: are they more ill than most?

    The other columns are age, sex, site and insurance plan.
    """
    ill = table["disea"].to_numpy()
    age, female = table["xage"].to_numpy() / 100, table["female"].to_numpy()
    places = [_one_hot(table[name].to_numpy()) for name in ("site", "plan")]
    rows = np.column_stack([ill > np.median(ill), age.clip(0, 1), female, *places]).astype(np.float64)
    return Cases(rows, (table["mdvis"].to_numpy() >= 3).astype(np.int64))


def _one_hot(values: NDArray[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.equal.outer(values, np.unique(values))
    return found


# Membership in the training data of a classifier, by shadow models (Shokri 2017; Carlini 2022).


@dataclass(frozen=True)
class Shadows(Figures):
    """How well an attacker found out who was in the training data of a classifier.

    - `rows` in the training data of each of `models`, as many outsiders next to them, and `shadows` models that the
      attacker trains on people of his own.
    - `raw`: against a classifier that memorises. `private`: against one that is (`epsilon`, `delta`)-DP. `limit`: the
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
    """Trace people in the training data of a model that shows its confidence in each label.

    The attacker trains `shadows` models of the same kind on people of his own, none of whom is a member or an outsider.
    From them he learns the confidence of a model in somebody it has never seen. The score of a person is the log-odds
    of the model's confidence in the true label, less the mean of those of the shadows. `raw` is a scikit-learn
    classifier with `predict_proba` (default: a decision tree). The private one is
    `chary.learning.PrivateLogisticRegression`.

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
    for done in in_turn(range(whole(models, "models")), on_progress):
        members, outsiders, others = cases.split(rng, [size, size, len(cases.rows) - 2 * size])
        kinds = [clone(memorising(done) if raw is None else raw), private(epsilon, delta, rng, seed)]
        scores.append([_scores(kind, members, outsiders, others, rng, own) for kind in kinds])
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


# Model inversion: a classifier's confidences say a secret column of those it was trained on (Fredrikson 2014).


@dataclass(frozen=True)
class Inversion(Figures):
    """How often the attacker named the sensitive bit of somebody whose other columns and label he knew.

    - `rows` in the training data of each of `models`.
    - `raw`, `raw_outsiders`: with a classifier that memorises, of the people in its training data and of others.
    - `private`, `private_outsiders`: with one that is (`epsilon`, `delta`)-DP.
    - `baseline`: the proportion of the commoner value. `limit`: the most of the people in the data if neighbours
      replace a row, delta is 0 and the attacker knows of the bit only how common it is. It is None with a delta.

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
    """Guess the sensitive column from a model that shows its confidence in each label.

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
    for done in in_turn(range(whole(models, "models")), on_progress):
        members, outsiders = cases.split(rng, [size, size])
        open_model = clone(memorising(done) if raw is None else raw).fit(members.rows, members.labels)
        closed = private(epsilon, delta, rng, seed).fit(members.rows, members.labels)
        pairs = [(model, people) for model in (open_model, closed) for people in (members, outsiders)]
        shares.append([_right(model, people, share) for model, people in pairs])
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
    """The proportion of the people whose sensitive bit is guessed."""
    weights = [
        prior * confidences(model, people.with_sensitive(value), people.labels)
        for value, prior in enumerate((1 - share, share))
    ]
    guessed = weights[1] > weights[0]
    return float(np.mean(guessed == people.rows[:, people.sensitive]))


# Pictures of the attacks on classifiers, written to a file (PNG, PDF or SVG by its ending).


def draw_inversion(found: Inversion, path: Path | str) -> None:
    """The proportion of sensitive bits named, of those in the training data and of others."""
    places = np.arange(2)
    with panes(path) as (axes,):
        axes.bar(places - 0.2, [found.raw, found.private], 0.4, color="tab:red", label="in the training data")
        axes.bar(places + 0.2, [found.raw_outsiders, found.private_outsiders], 0.4, color="tab:gray", label="others")
        axes.axhline(found.baseline, color="black", linestyle=":", label="commoner value")
        if found.limit is not None:
            axes.axhline(found.limit, color="black", linestyle="--", label=f"limit, epsilon {found.epsilon:g}")
        axes.set_xticks(places, ["memorising", "private"])
        axes.set(title="A secret column, from a classifier", ylabel="share right", ylim=(0.4, 1.05))
        axes.legend()


def draw_shadows(found: Shadows, path: Path | str) -> None:
    """The ROC curves of the attack next to the limit."""
    with panes(path) as (axes,):
        roc_curves(axes, found, "memorising classifier", "private classifier")
        axes.set_title("People in the training data")
