"""Sparse vectors as runs: opening one, asking it, and how accurate it is."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

from chary.calls.call import call
from chary.calls.fields import Exact, Flag, Positive, Whole
from chary.calls.keyed_run import KeyedRun
from chary.calls.run import Kept, Opening, keeps
from chary.calls.sparse.sparse_questions import AskSparse, AskSparseKeys, AskSparseOnce, Form, OpenSparse
from chary.calls.sparse.sparse_results import SparseTest, SparseWatch
from chary.core.plan import Question, Within
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import RequestConflict, UnknownHeld
from chary.mechanisms import HiddenThreshold
from chary.numbers import Number, whole


@dataclass(frozen=True)
class SparseState:
    """What is public of a sparse vector: `left` hits are left of those it was opened with."""

    started: OpenSparse
    left: int

    def accuracy(self, *, tests: int, confidence: Number = "0.95") -> Within:
        """How far off it may be over so many tests from its opening on; nothing is read."""
        return self.started.within(whole(tests, "tests"), confidence)


@keeps
class KeptSparse(Kept[Any, SparseState]):
    """`run.ask(query)`: is it at or above the threshold, up to noise? Of a keyed query each key in order, in one scan.

    Nothing is charged; a yes uses up a hit. `above` moves the threshold for this question. A unit may be in any number
    of keys; a keyed question ends at the last hit, and later keys are `untested`. Errors: `BudgetRefused` when all hits
    are used up, `InvalidQuery` for a mean, another grid, a larger sensitivity or a question that is not monotone where
    that was declared.
    """

    kind = OpenSparse.kind
    names = "sparse_vector"

    @cached_property
    def started(self) -> OpenSparse:
        """The opening."""
        return OpenSparse.of_body(self.terms, self.spine.rows.neighbouring)

    def opened(self) -> KeyedRun[SparseTest, SparseWatch, SparseState]:
        return KeyedRun(self)

    def question(self, query: Question, *, above: Number | None = None) -> AskSparse:
        asked: Any = query
        kind = AskSparseKeys if isinstance(query, Query) and query.keys is not None else AskSparseOnce
        return kind(self.number, self.started, asked, self.started.above if above is None else above)

    @property
    def state(self) -> SparseState:
        secret = self.spine.ledger.secret(self.number)
        if secret is None:
            raise UnknownHeld(f"call {self.number} keeps no threshold: it was interrupted; open a new sparse vector")
        return SparseState(self.started, self.started.hits - HiddenThreshold.load(secret).used)


@call("sparse_vector", subject="sparse")
class SparseVector(Opening[KeyedRun[SparseTest, SparseWatch, SparseState]]):
    """Test any number of questions against one hidden threshold, until `hits` of them were above it.

    Guarantee: epsilon-DP for all of it, charged now and whole; (epsilon, delta)-DP in the published form with a
    `delta`. Afterwards questions are free, also those that hit. `values` publishes a noisy value with each hit, for
    which part of epsilon is kept, with noise of its own. `form` is one-sided where none is said; its bar is placed so
    that `tests` (1,000 where none are said) err least together, but any number may be asked. `monotone` says that
    adding a unit moves no question down, which halves the noise: it is the default under add/remove, counts and totals
    of values from 0 on are, and others are refused. `sensitivity` is how far one unit may move a question, `grid` their
    common step. How accurate it would be, before it is paid: `Session.quote(..., tests=)`.

    Errors: `InvalidParameter` for a form without a proof, `BudgetRefused` if it does not fit.

    >>> SparseVector(above=500, hits=3, epsilon="0.1").hits
    3
    """

    _: KW_ONLY
    above: Exact
    hits: Whole
    epsilon: Positive
    delta: Exact = 0
    form: Form | None = None
    monotone: Flag | None = None
    values: Flag = False
    sensitivity: Positive = 1
    grid: Positive = 1
    tests: Whole | None = None

    def perform(self, spine: Spine, request: str | None = None) -> KeyedRun[SparseTest, SparseWatch, SparseState]:
        """Open it; a request that says no form finds one opened when the tuned form was what that meant."""
        try:
            return super().perform(spine, request)
        except RequestConflict:
            if self.form is not None:
                raise
            return replace(self, form="tuned", tests=None).perform(spine, request)

    def bind(self, spine: Spine) -> OpenSparse:
        form = "one-sided" if self.form is None else self.form
        sizes = (self.delta, form, self.monotone, self.values, self.sensitivity, self.grid, self.tests)
        return OpenSparse(spine.rows.neighbouring, self.above, self.hits, self.epsilon, *sizes)
