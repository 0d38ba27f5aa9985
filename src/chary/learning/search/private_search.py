"""Private hyper-parameter search: every candidate is a private training run, only what is published is paid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from rich.console import Console
from rich.progress import Progress
from sklearn.base import clone

from chary.accounting import Event, Extendable, Pure, Targeted
from chary.calls import Algorithm, Compute, Select, Top
from chary.calls.answers import Chosen
from chary.core.charges import spending
from chary.data import Neighbouring
from chary.errors import InvalidParameter
from chary.learning.search.candidate import Candidate, PrivateLearner
from chary.learning.search.stopping import random_stopping
from chary.numbers import Number, exact, positive, whole
from chary.session import Session

Hyper = dict[str, Any]
# What the search itself sets: a grid over any of them would be one over privacy.
IMPOSED = {"epsilon", "relation", "source"}


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
    """What a search published, best score first; the first `tested` of `candidates` ran (None: random ones did).

    `share` is the part of the budget that the search was charged.
    """

    call: int
    found: tuple[Found, ...]
    candidates: int
    tested: int | None
    share: float

    @property
    def best(self) -> Found | None:
        """The first one; None when no candidate reached the bar."""
        return self.found[0] if self.found else None


@dataclass(frozen=True)
class SearchQuote:
    """What a search costs, as shares of the budget: for each model that is published, and without any."""

    candidates: int
    if_published: float
    if_not: float


class PrivateSearch:
    """Try all hyper-parameters of a grid, and publish the best trained models.

    Guarantee: each candidate is epsilon-DP (see `Candidate`). With `k`, the best k are published with their noisy
    scores, one `Extendable` hit each, whatever the size of the grid ([TCT] Algorithm 3); with `above` as well, only
    those of them whose score reaches it, perhaps none, free. With `k=None`, all that reach `above`, one hit each.
    Under a pure filter, or when epsilon is too large for the filter's order, every candidate is paid (see `quote`).
    With `runs`, random candidates run, so many in the mean, and the best one is published: one release of 3 epsilon
    (see `random_stopping`). That is the better choice where few models are ever published, see docs/model_selection.md.

    - `learner`: a `PrivateLearner`, such as `CountingBayes`; its own epsilon, relation and source are replaced.
    - `grid`: the values of each hyper-parameter, in JSON. `label`: the column to be predicted.
    - `epsilon`: of each candidate, for training as well as for its score.
    - `validation`: the chance of a unit to validate rather than train.
    - `baseline`: the score counts right answers beyond this share, best near the accuracy that is expected.
    - `progress`: a bar on standard error; never with `runs`, since how many run is secret.

    Errors: `InvalidParameter` for an empty grid, hyper-parameters that the learner refuses or that occur twice, or k
    above their number.

    >>> import chary, pyarrow as pa
    >>> from chary.learning.pate.counting_bayes import CountingBayes
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
            raise InvalidParameter("epsilon, relation and source are those of the search: leave them out of the grid")
        if len({_named(hyper) for hyper in self.hypers}) < len(self.hypers):
            raise InvalidParameter("the grid lists the same hyper-parameters twice")
        _check_rule(k, above, runs, len(self.hypers))
        self._k, self._above, self._runs = k, above, runs
        self._candidates(Neighbouring("add/remove", None))

    def quote(self, session: Session) -> SearchQuote:
        """What it would cost; nothing is read, nothing is charged."""
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

        Errors: `BudgetRefused` when it does not fit; `AlgorithmFailed`, charged, when every candidate fails.
        """
        candidates = self._candidates(session.spine.rows.neighbouring)
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
    ) -> tuple[int, tuple[Chosen, ...], int | None]:
        """The number of the call, what was published, and how many were tested."""
        if self._runs is not None:
            outcome = session.ask(Compute(random_stopping(algorithms, runs=self._runs)), request=request)
            return outcome.call, (Chosen(**outcome.value),), None
        if self._k is None:
            selected = session.ask(Select(algorithms, above=self._above or 0), request=request)
            return selected.call, selected.above, selected.tested
        top = session.ask(Top(algorithms, k=self._k, above=self._above), request=request)
        return top.call, top.best, len(algorithms)

    def _found(self, candidates: list[Candidate], place: int, score: int | float | None, state: Any) -> Found:
        model = None if score is None else candidates[place].restored(state)
        return Found(self.hypers[place], score, model)

    def _candidates(self, neighbouring: Neighbouring) -> list[Candidate]:
        return [
            Candidate(self._set(hyper), _named(hyper), self._label, neighbouring, self.epsilon, **self._split)
            for hyper in self.hypers
        ]

    def _set(self, hyper: Hyper) -> Any:
        """A learner with these hyper-parameters; cloning it has its constructor check them."""
        refused = None
        try:
            return clone(clone(self._learner).set_params(**hyper))
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
