"""Teachers: one model a shard, whose votes change in one place when one privacy unit changes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.progress import track

from chary.data import Relation
from chary.errors import InvalidParameter
from chary.learning.linear_estimators import Model, Points, accepts, choose, learn, matrix, rehearse
from chary.learning.pate.labels import Labels, checked_classes, encode
from chary.learning.pate.shards import draw_shards, equal_shards, number_units
from chary.noise import OperatingSystem, Source, uniform_integers
from chary.numbers import whole

# Below 2**32, the limit of scikit-learn's random states.
SEEDS = 2**31
Result = TypeVar("Result")


class Teachers:
    """An ensemble of classifiers, each trained on a shard of its own; secret, and so are its votes.

    Guarantee: one privacy unit changes at most one teacher (see `draw_shards`), so for any point at most two of the
    counts that `votes` returns change, one going down by one and one going up by one. Every teacher votes for exactly
    one class on every point: a teacher without rows for a public default, one whose training fails for the most
    frequent class of its shard. Errors, warnings and `repr` show nothing of the rows.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> rows, labels = [[0.0], [0.1], [1.0], [1.1]] * 50, ["low", "low", "high", "high"] * 50
    >>> teachers = Teachers.train(
    ...     rows, labels, teachers=5, estimator=GaussianNB(), classes=["low", "high"], progress=False)
    >>> teachers
    Teachers(5, classes=('low', 'high'), <secret>)
    >>> teachers.votes([[0.05], [1.05]])
    array([[5, 0],
           [0, 5]])
    """

    def __init__(self, models: Sequence[Model], classes: tuple[Hashable, ...], rehearsed: Model, features: int) -> None:
        self._models = tuple(models)
        self._rehearsed = rehearsed
        self.features = features
        self.classes = classes

    @classmethod
    def train(
        cls,
        rows: ArrayLike,
        labels: Labels,
        *,
        estimator: Any,
        classes: Sequence[Hashable],
        teachers: int = 250,
        units: ArrayLike | None = None,
        relation: Relation | str = Relation.ADD_REMOVE,
        jobs: int | None = None,
        progress: bool = True,
        unsafe_noise: Source | None = None,
    ) -> "Teachers":
        """Deal the privacy units out to the teachers and train a clone of `estimator` on each shard.

        - `rows`: a table of numbers, one row a training example. `labels`: one of `classes` for each row.
        - `estimator`: a scikit-learn classifier. It is tried on made-up rows first.
        - `classes`: all labels there can be; public, so they are declared and never read off the labels.
        - `units`: the name of each row's privacy unit; None when each row is a unit of its own.
        - `relation`: "add/remove" draws each unit's shard independently; "replace" makes shards of equal size.
        - `jobs`: how many processes train (None: one; -1: as many as there are cores). Rows are never written to disk.

        Errors: `InvalidParameter` for fewer than two teachers or more teachers than units, an estimator that does not
        work, labels outside `classes`, rows that are no table of numbers. They hold no value of the rows, but that one
        is raised at all tells of them: training is for whoever holds the rows. `unsafe_noise` voids every guarantee;
        it is for tests.
        """
        table, declared = matrix(rows, "rows"), checked_classes(classes)
        choices = encode(labels, declared)
        if len(choices) != len(table):
            raise InvalidParameter("rows and labels must be equally many")
        source = unsafe_noise or OperatingSystem()
        shards = _shards(number_units(units, len(table)), whole(teachers, "teachers", least=2), relation, source)
        rehearsed = rehearse(estimator, table.shape[1], len(declared))
        seeds = uniform_integers(source, SEEDS, teachers).tolist()
        work = (
            delayed(learn)(estimator, table[shard], choices[shard], number % len(declared), seeds[number])
            for number, shard in enumerate(shards)
        )
        models = _run(work, teachers, jobs, "training teachers" if progress else None)
        return cls(list(models), declared, rehearsed, table.shape[1])

    def votes(self, points: ArrayLike, *, jobs: int | None = None, progress: bool = False) -> NDArray[np.int64]:
        """The exact counts of votes, secret: one row for each point, one column for each class.

        Every row adds up to the number of teachers. The points are public: errors may tell about them.

        Errors: `InvalidParameter` for points that are no table of as many columns as the training rows, or that the
        estimator does not accept (missing values, say).
        """
        table = matrix(points, "points", self.features)
        accepts(self._rehearsed, table)
        counts = np.zeros((len(table), len(self.classes)), dtype=np.int64)
        positions = np.arange(len(table))
        for chosen in self._choices(table, jobs, "asking teachers" if progress else None):
            counts[positions, chosen] += 1
        return counts

    def _choices(self, table: Points, jobs: int | None, title: str | None) -> Iterator[NDArray[np.int64]]:
        classes = len(self.classes)
        work = (delayed(choose)(model, table, classes, number % classes) for number, model in enumerate(self._models))
        return _run(work, len(self), jobs, title)

    def __len__(self) -> int:
        return len(self._models)

    def __repr__(self) -> str:
        return f"Teachers({len(self)}, classes={self.classes!r}, <secret>)"


def _shards(
    units: NDArray[np.int64], teachers: int, relation: Relation | str, source: Source
) -> list[NDArray[np.int64]]:
    """The row numbers of each teacher's shard."""
    if relation not in (Relation.ADD_REMOVE, Relation.REPLACE):
        raise InvalidParameter(f"relation must be 'add/remove' or 'replace', got {relation!r}")
    if len(np.unique(units)) < teachers:
        raise InvalidParameter("there are more teachers than privacy units: train fewer teachers")
    deal = draw_shards if relation == Relation.ADD_REMOVE else equal_shards
    shard_of_row = deal(units, teachers, source)
    return [np.flatnonzero(shard_of_row == number) for number in range(teachers)]


def _run(
    work: Iterable[tuple[Callable[..., Result], Any, Any]], total: int, jobs: int | None, title: str | None
) -> Iterator[Result]:
    """The results in order, behind a progress bar on standard error when there is a title; arrays stay in memory."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise InvalidParameter("jobs must be None or a whole number other than 0")
    results = Parallel(n_jobs=jobs, max_nbytes=None, return_as="generator")(work)
    console = Console(stderr=True)
    yield from track(results, title or "", total=total, console=console, transient=True, disable=title is None)
