"""Private search of hyper-parameters: every candidate is a private training run, only published ones are charged."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, product
from operator import eq
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sklearn.base import clone

from chary.accounting import Event, Extendable, Pure, Targeted
from chary.calls import Algorithm, RunAlgorithm, answers, compute, selection
from chary.core.charges import spending
from chary.data import NeighborRelation, Neighbors
from chary.errors import InvalidParameter
from chary.learning.features import Cells, Column, listed
from chary.mechanisms import Laplace
from chary.noise import Enclosure, Source, bernoulli, uniform_integers
from chary.numbers import Number, exact, natural_number, positive, probability, whole, work_out
from chary.session import Session

# One private training run: split the units by coins, train on one part, count right answers on the other.

# The most that `uniform_integers` draws from: two of n keys are equal with a probability below n**2 / 2**63. An equal
# pair would be ordered by its place, which costs evenness and no privacy.
KEYS = 2**62


class PrivateLearner(Protocol):
    """A scikit-learn classifier (`get_params`, `set_params`) of Arrow tables whose training is private.

    It has the parameters `epsilon`, `neighbors` and `unsafe_noise`. Guarantee needed of it: what `fit` learns, raising
    included, is epsilon-DP under the relation when each unit has one row, with all randomness from the source. A row's
    prediction depends on what was learnt and on that row, not on the other rows. `CountingBayes` is one.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, apart from the labels."""

    def check(self) -> None:
        """Refuse parameters that cannot be right; nothing is read."""

    def fit(self, rows: Any, labels: Any, /) -> Any:
        """Train."""

    def predict(self, rows: Any, /) -> NDArray[Any]:
        """One label for each row."""

    def state(self) -> dict[str, Any]:
        """The learnt state, as JSON."""

    def restore(self, state: dict[str, Any], /) -> Any:
        """Take over the state of a learner with the same parameters."""

    def body(self) -> dict[str, Any]:
        """Its public parameters, as JSON."""


def _quiet() -> None:
    """A progress callback that does nothing."""


@dataclass(frozen=True)
class Candidate:
    """A learner whose hyper-parameters are set, as an `Algorithm` that returns [score, what was learnt].

    The learner gets the candidate's epsilon and relation, whatever it had.

    Guarantee: epsilon-DP under the neighbouring relation. One row of each unit is drawn, and a coin for each unit says
    whether it validates or trains. All other units have the same draws with and without a unit, so given these the
    neighbours differ in one row of one part. In the training part: the model is epsilon-DP by the learner's guarantee,
    and the score is a randomized function of the model and of equal rows. In the validation part: the model has one
    distribution, and given the model the score is epsilon-DP. The coin has the same distribution for every unit (theory
    1.1, mixture).

    The score is the number of right answers beyond a proportion of `baseline`, right (1 - baseline) - wrong baseline,
    with discrete Laplace noise. How many units validate is random; that moves the score less the closer `baseline` is
    to the accuracy (0 counts right answers, 1 counts wrong ones).

    Errors: `InvalidParameter` for a baseline outside [0, 1], a proportion outside (0, 1), a learner that reads the
    label, or a series of counts."""

    learner: PrivateLearner
    name: str
    label: str
    neighbor_relation: NeighborRelation
    epsilon: Number
    validation: Number
    baseline: Number

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        probability(self.validation, "validation")
        if not 0 <= exact(self.baseline, "baseline") <= 1:
            raise InvalidParameter("baseline must lie between 0 and 1")
        if self.neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidParameter("a series of counts has no privacy units to train on")
        if self.label in self.learner.columns:
            raise InvalidParameter(f"the label {self.label!r} is one of the columns it would be predicted from")
        work_out(self.noise)  # refuses noise out of range

    @property
    def noise(self) -> Laplace:
        """The noise of the score, in steps of one over the baseline's denominator."""
        right, wrong = self._gains
        replaced = self.neighbor_relation.neighbors is Neighbors.REPLACE
        return Laplace.for_epsilon(self.epsilon, sensitivity=right - wrong if replaced else max(right, -wrong))

    def algorithm(self, done: Callable[[], None] = _quiet) -> Algorithm:
        """The algorithm for a session; `done` is called after each run."""

        def run(rows: pa.Table, source: Source, **_: Any) -> list[Any]:
            try:
                return self.run(rows, source)
            finally:
                done()

        unit = self.neighbor_relation.unit
        columns = dict.fromkeys([*map(str, self.learner.columns), self.label, *([] if unit is None else [unit])])
        return Algorithm(self.name, run, self.epsilon, columns=list(columns), parameters=self.body())

    def body(self) -> dict[str, Any]:
        """Its identity, as JSON."""
        split = {"label": self.label, "validation": str(self.validation), "baseline": str(self.baseline)}
        return self.learner.body() | split

    def run(self, rows: pa.Table, source: Source) -> list[Any]:
        """The score and the learnt state. Warnings are suppressed, since they depend on the rows."""
        kept = one_row_each(rows, self.neighbor_relation.unit, source)
        validates = bernoulli(source, Enclosure.rational(self.validation), len(kept))
        trained, judged = kept.filter(~validates), kept.filter(validates)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self._private(source)
            model.fit(trained.drop_columns(self.label), trained[self.label])
            predicted = np.asarray(model.predict(judged))
        if predicted.shape != (len(judged),):
            raise InvalidParameter("a learner predicts one label for each row")
        correct = sum(map(eq, predicted.tolist(), listed(judged[self.label])))
        return [self._noisy(correct, len(judged), source), model.state()]

    def restored(self, state: dict[str, Any]) -> Any:
        """The learner with this state."""
        return self._private(None).restore(state)

    def _private(self, source: Source | None) -> Any:
        """A fresh learner of this epsilon, under this relation."""
        imposed = {"epsilon": self.epsilon, "neighbors": str(self.neighbor_relation.neighbors), "unsafe_noise": source}
        return clone(self.learner).set_params(**imposed)

    def _noisy(self, correct: int, judged: int, source: Source) -> int | float:
        """The score with its noise."""
        right, wrong = self._gains
        steps = correct * right + (judged - correct) * wrong
        return natural_number(Fraction(self.noise.apply_one(steps, source), right - wrong))

    @property
    def _gains(self) -> tuple[int, int]:
        """The steps that a right and a wrong prediction add to the score."""
        baseline = exact(self.baseline, "baseline")
        return baseline.denominator - baseline.numerator, -baseline.numerator


def one_row_each(rows: pa.Table, unit: str | None, source: Source) -> pa.Table:
    """One row of each unit, drawn at random; all rows when each is a unit of its own.

    A unit's row is drawn by random keys of its own rows, so with and without another unit it has the same distribution.
    Rows whose unit is NULL belong to nobody and are left out; 0 and -0 are one unit.

    >>> from chary.noise import OperatingSystem
    >>> visits = pa.table({"patient": ["ann", "bob", "ann", None], "age": [1, 2, 3, 4]})
    >>> sorted(one_row_each(visits, "patient", OperatingSystem())["patient"].to_pylist())
    ['ann', 'bob']
    """
    if unit is None:
        return rows
    owned = rows.filter(rows[unit].is_valid())
    column = owned[unit].combine_chunks()
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)
    units: Cells = column.dictionary_encode().indices.to_numpy()
    order = np.lexsort((uniform_integers(source, KEYS, len(units)), units))
    first = np.diff(units[order], prepend=-1) != 0
    return owned.take(order[first])


# Private hyper-parameter search.

Hyper = dict[str, Any]
# Parameters that the search sets: a grid over them would be one over privacy.
IMPOSED = {"epsilon", "neighbors", "unsafe_noise"}


@dataclass(frozen=True)
class Found:
    """A published candidate: hyper-parameters, noisy score, and the private model itself, which needs no refit.

    `score` and `model` are None for a candidate that failed and was published all the same.
    """

    hyper: Hyper
    score: int | float | None
    model: Any


@dataclass(frozen=True)
class SearchResult:
    """The published candidates, best score first; the first `tested` of `candidates` ran (None: random ones did).

    `share` is the fraction of the budget that the search was charged.
    """

    call: int
    found: tuple[Found, ...]
    candidates: int
    tested: int | None
    share: float

    @property
    def best(self) -> Found | None:
        """The best one; None if no candidate reached the threshold."""
        return self.found[0] if self.found else None


@dataclass(frozen=True)
class SearchQuote:
    """The cost of a search, in fractions of the budget: for each published model, and without any."""

    candidates: int
    if_published: float
    if_not: float


class PrivateSearch:
    """Try all hyper-parameters of a grid, and publish the best trained models.

    Guarantee: each candidate is epsilon-DP (see `Candidate`). With `k`, the best k are published with their noisy
    scores, one `Extendable` hit each, whatever the size of the grid ([TCT] Algorithm 3). With `above` as well, only
    those of them whose score reaches it are published; if there are none, it is free. With `k=None`, all that reach
    `above`, one hit each. Under a pure filter, or when epsilon is too large for the filter's order, every candidate is
    paid (see `quote`). With `runs`, random candidates run, this many in the mean, and the best one is published: one
    release of 3 epsilon (see `random_stopping`). That is the better choice where few models are ever published, see
    docs/howto/learning.md#hyper-parameters.

    - `learner`: a `PrivateLearner`, such as `CountingBayes`; its own epsilon, relation and noise are replaced.
    - `grid`: the values of each hyper-parameter, in JSON. `label`: the column to be predicted.
    - `epsilon`: of each candidate, for training as well as for its score.
    - `validation`: the probability of a unit to validate rather than train.
    - `baseline`: the score counts right answers beyond this share, best near the accuracy that is expected.
    - `progress`: a progress bar on standard error; never with `runs`, since how many run is secret.

    Errors: `InvalidParameter` for an empty grid, hyper-parameters that the learner refuses or that occur twice, or k
    above their number.

    >>> import chary, pyarrow as pa
    >>> from chary.learning.estimators import CountingBayes
    >>> from chary.learning.features import Span
    >>> rows = pa.table({"age": [20, 30, 60, 70] * 5000, "ill": ["no", "no", "yes", "no"] * 5000})
    >>> learner = CountingBayes([Span("age", 0, 100)], classes=["no", "yes"], epsilon=None)
    >>> search = PrivateSearch(learner, {"bins": [1, 2, 10]}, label="ill", epsilon=0.02, progress=False)
    >>> session = chary.open(rows, privacy_unit=None, budget=chary.Budget(1, 1e-6), ledger=":memory:", grain=0.02)
    >>> result = search.run(session)
    >>> result.best.hyper, result.best.model.predict({"age": [20, 60]}).tolist(), round(result.share, 3)
    ({'bins': 10}, ['no', 'yes'], 0.027)
    """

    def __init__(
        self,
        learner: PrivateLearner,
        grid: Mapping[str, Sequence[Any]],
        *,
        label: str,
        epsilon: Number,
        k: int | None = 1,
        above: Number | None = None,
        runs: int | None = None,
        validation: Number = 0.25,
        baseline: Number = 0.75,
        progress: bool = True,
    ) -> None:
        self._learner, self._label, self._progress = learner, label, progress and runs is None
        self._split = {"validation": exact(validation, "validation"), "baseline": exact(baseline, "baseline")}
        self.epsilon = positive(epsilon, "epsilon")
        self.hypers = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())] if grid else []
        if not self.hypers:
            raise InvalidParameter('the grid is empty: give lists of values, such as {"bins": [4, 8]}')
        if not IMPOSED.isdisjoint(grid):
            raise InvalidParameter("epsilon, relation and noise are those of the search: leave them out of the grid")
        if len({_named(hyper) for hyper in self.hypers}) < len(self.hypers):
            raise InvalidParameter("the grid lists the same hyper-parameters twice")
        _check_rule(k, above, runs, len(self.hypers))
        self._k, self._above, self._runs = k, above, runs
        self._candidates(NeighborRelation("add_remove", None))

    def quote(self, session: Session) -> SearchQuote:
        """The cost; nothing is read or charged."""
        filter_ = session.spine.filter
        price = filter_.price(self._event)
        number = len(self.hypers) if self._runs is None else 1
        return SearchQuote(
            len(self.hypers),
            spending(filter_, price.total(1, 1 if price.free_miss else number)).share,
            spending(filter_, price.total(0, number)).share,
        )

    def run(self, session: Session, *, request: str | None = None) -> SearchResult:
        """Search the rows of a session.

        Errors: `BudgetExceeded` when it does not fit; `AlgorithmFailed`, charged, when every candidate fails.
        """
        candidates = self._candidates(session.spine.rows.neighbor_relation)
        with Progress(console=Console(stderr=True), transient=True, disable=not self._progress) as bar:
            task = bar.add_task("training candidates", total=len(candidates))
            algorithms = [candidate.algorithm(lambda: bar.advance(task)) for candidate in candidates]
            call, chosen, tested = self._ask(session, algorithms, request)
        names = [candidate.name for candidate in candidates]
        found = [self._found(candidates, names.index(str(one.name)), one.score, one.solution) for one in chosen]
        found.sort(key=lambda one: (one.score is None, -(one.score or 0)))
        price = session.spine.ledger.call(call).price
        share = 0.0 if price is None else spending(session.spine.filter, price).share
        return SearchResult(call, tuple(found), len(candidates), tested, share)

    @property
    def _event(self) -> Event:
        if self._runs is not None:
            return Pure(3 * self.epsilon)
        return Targeted(self.epsilon) if self._k is None else Extendable(self.epsilon)

    def _ask(
        self, session: Session, algorithms: list[Algorithm], request: str | None
    ) -> tuple[int, tuple[answers.Chosen, ...], int | None]:
        """The number of the call, what was published, and how many were tested."""
        if self._runs is not None:
            outcome = session.ask(RunAlgorithm(random_stopping(algorithms, runs=self._runs)), request=request)
            return outcome.call, (answers.Chosen(**outcome.value),), None
        if self._k is None:
            selected = session.ask(selection.Select(algorithms, above=self._above or 0), request=request)
            return selected.call, selected.above, selected.tested
        top = session.ask(selection.TopK(algorithms, k=self._k, above=self._above), request=request)
        return top.call, top.best, len(algorithms)

    def _found(self, candidates: list[Candidate], place: int, score: int | float | None, state: Any) -> Found:
        model = None if score is None else candidates[place].restored(state)
        return Found(self.hypers[place], score, model)

    def _candidates(self, neighbor_relation: NeighborRelation) -> list[Candidate]:
        return [
            Candidate(self._set(hyper), _named(hyper), self._label, neighbor_relation, self.epsilon, **self._split)
            for hyper in self.hypers
        ]

    def _set(self, hyper: Hyper) -> Any:
        """A learner with these hyper-parameters, checked."""
        refused, learner = None, clone(self._learner)
        try:
            learner.set_params(**hyper).check()
            return learner
        except (ValueError, TypeError) as error:
            refused = InvalidParameter(f"the learner refuses {_named(hyper)}: {error}")
        raise refused


def _check_rule(k: int | None, above: Number | None, runs: int | None, candidates: int) -> None:
    """Refuse what does not say which candidates to publish."""
    if k is None and above is None:
        raise InvalidParameter("say how many to publish (k=1) or from which score on (above=)")
    if above is not None:
        exact(above, "above")
    if k is not None and whole(k, "k") > candidates:
        raise InvalidParameter(f"k is {k}, but the grid has only {candidates} candidates")
    if runs is not None and (whole(runs, "runs"), k, above) != (runs, 1, None):
        raise InvalidParameter("random candidates (runs=) publish the best one: leave k and above out")


def _named(hyper: Hyper) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in hyper.items())


def _text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


# The best of random candidates, as many as a coin says: 3 epsilon-DP, however many run (Liu and Talwar 2019).


def random_stopping(algorithms: Sequence[Algorithm], *, runs: int, name: str = "random stopping") -> Algorithm:
    """One algorithm that runs a random one of several again and again, and stops after each run with probability
    1/runs. It returns the best: {"name", "score", "solution"}, of equal scores the first.

    Guarantee: if each algorithm's [score, solution] is epsilon-DP, the whole is 3 epsilon-DP (pure), whatever `runs`,
    which is how many there are in the mean. The number that ran is secret: with it, more is revealed, so the adversary
    must not see how long it takes. Proof, with c = 1/runs: one run has an epsilon-DP distribution p, and

        P(y is published) = c p(y) / ((c + (1-c) P(a run ranks as high as y)) (c + (1-c) P(a run ranks higher))),

    the sum over the runs before and after y; each of the three changes by e^epsilon at most. A run that fails ranks
    below all scores; if all fail, so does the whole.

    Errors: `InvalidParameter` for what is no list of algorithms with different names, or one with a delta.

    >>> coin = Algorithm("coin", lambda rows, source: [0, "heads"], epsilon=0.1)
    >>> random_stopping([coin], runs=20).size[0]
    Fraction(3, 10)
    """
    if any(not isinstance(each, Algorithm) for each in compute.named(algorithms).values()):
        raise InvalidParameter("random stopping takes algorithms: a call alone is asked in a session")
    if any(algorithm.size[1] for algorithm in algorithms):
        raise InvalidParameter("random stopping needs pure algorithms: none with a delta")
    stop = Enclosure.rational(Fraction(1, whole(runs, "runs")))

    def run(rows: Any, source: Source, **_: Any) -> dict[str, Any]:
        best: selection.Scored = None
        winner = ""
        going = True
        while going:
            algorithm = algorithms[int(uniform_integers(source, len(algorithms), 1)[0])]
            found = selection.scored(
                algorithm, rows if algorithm.columns is None else rows.select(algorithm.columns), source
            )
            if found is not None and (best is None or found[0] > best[0]):
                best, winner = found, algorithm.name
            going = not bernoulli(source, stop, 1)[0]
        if best is None:
            raise InvalidParameter("every run failed")
        return {"name": winner, "score": best[0], "solution": best[1]}

    body = {"algorithms": [algorithm.body() for algorithm in algorithms], "runs": runs}
    epsilon = 3 * max(algorithm.size[0] for algorithm in algorithms)
    return Algorithm(name, run, epsilon, columns=_columns(algorithms), parameters=body)


def _columns(algorithms: Sequence[Algorithm]) -> list[str] | None:
    """What any of them reads; None for everything."""
    read = [algorithm.columns for algorithm in algorithms]
    named = [columns for columns in read if columns is not None]
    return list(dict.fromkeys(chain(*named))) if len(named) == len(read) else None
