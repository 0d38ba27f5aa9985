"""The sparse vectors of a session: opening one, going on with it, and how accurate it would be."""

from fractions import Fraction
from typing import Any, Self

from chary.accounting import error_up, published_error
from chary.accounting.sparse_vector import Form
from chary.errors import InvalidParameter, UnknownHeld
from chary.ledger import State
from chary.mechanisms import HiddenThreshold
from chary.numbers import Number, plain
from chary.session.door import Door
from chary.session.interaction import Question
from chary.session.refusal import needed
from chary.session.sparse import AskSparse, AskSparseKeys, AskSparseOnce, OpenSparse
from chary.session.sparse_results import SparseAccuracy, SparseQuote, SparseTest, SparseWatch
from chary.session.spine import Spine


class SparseVector:
    """Questions against one hidden threshold until so many were above; made by `Session.sparse_vector`.

    Guarantee: epsilon-DP (or (epsilon, delta)-DP) for all answers together, however many, charged when it was opened.
    `call` is the number that opens it again after a restart. As a context manager it refuses further questions at the
    end of the block; what the ledger keeps stays.
    """

    def __init__(self, spine: Spine, call: int, started: OpenSparse) -> None:
        """Use `Session.sparse_vector`."""
        self.call, self._spine, self._started = call, spine, started
        self._closed = False

    def test(self, query: Question, *, above: Number | None = None, request: str | None = None) -> SparseTest:
        """Whether the query is at or above the threshold, up to noise. Nothing is charged; a yes uses up a hit.

        `above` moves the threshold for this question. Errors: `BudgetRefused` when all hits are used up, `InvalidQuery`
        for a mean, another grid, a larger sensitivity or a question that is not monotone where that was declared.
        """
        answer: SparseTest = self._spine.perform(self._asked(AskSparseOnce, query, above), request)
        return answer

    def watch(self, query: Question, *, above: Number | None = None, request: str | None = None) -> SparseWatch:
        """Test every key of a keyed query, in order and in one scan: the same as asking one by one.

        A unit may be in any number of keys. It ends at the last hit; later keys are `untested`.
        """
        answer: SparseWatch = self._spine.perform(self._asked(AskSparseKeys, query, above), request)
        return answer

    @property
    def left(self) -> int:
        """How many hits are left, which is public; `UnknownHeld` for an opening that was interrupted."""
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise UnknownHeld(f"call {self.call} keeps no threshold: it was interrupted; open a new sparse vector")
        return self._started.hits - HiddenThreshold.load(secret).used

    def accuracy(self, *, tests: int, confidence: Number = "0.95") -> SparseAccuracy:
        """How far off it may be over so many tests from its opening on; nothing is read."""
        return accuracy(self._started, tests, confidence)

    def _asked(self, kind: type[AskSparse], query: Question, above: Number | None) -> AskSparse:
        if self._closed:
            raise InvalidParameter(
                f"this block has ended; session.sparse_vector(call={self.call}) goes on with the sparse vector"
            )
        asked: Any = query
        return kind(self.call, self._started, asked, self._started.above if above is None else above)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True

    def __repr__(self) -> str:
        epsilon, hits = plain(Fraction(self._started.epsilon)), self._started.hits
        return f"SparseVector(call={self.call}, epsilon={epsilon}, hits={hits})"


def accuracy(started: OpenSparse, tests: int, confidence: Number) -> SparseAccuracy:
    """The exact error in the units of the questions, and the published one."""
    machine, grid = started.mechanism, Fraction(started.grid)
    steps = error_up(machine.sizes.scaled(machine.sensitivity), tests=tests, confidence=confidence)
    published = None
    if started.form == "published":
        sizes: dict[str, Any] = {"epsilon": started.epsilon, "delta": started.delta, "hits": started.hits}
        single = published_error(**sizes, tests=tests, confidence=confidence, values=started.values)
        published = single * float(started.sensitivity)
    return SparseAccuracy(tests, float(confidence), float(steps * grid), published)


class SparseVectors(Door):
    """Sparse vectors."""

    def sparse_vector(
        self,
        *,
        above: Number | None = None,
        hits: int | None = None,
        epsilon: Number | None = None,
        delta: Number = 0,
        form: Form = "tuned",
        monotone: bool | None = None,
        values: bool = False,
        sensitivity: Number = 1,
        grid: Number = 1,
        call: int | None = None,
        request: str | None = None,
    ) -> SparseVector:
        """Test any number of questions against one hidden threshold, until `hits` of them were above it.

        Guarantee: epsilon-DP for all of it, charged now and whole; (epsilon, delta)-DP in the published form with a
        `delta`. Afterwards questions are free, also those that hit. `values` publishes a noisy value with each hit, for
        which part of epsilon is kept. `monotone` says that adding a unit moves no question down, which halves the
        noise: it is the default under add/remove, counts and totals of values from 0 on are, and others are refused.
        `sensitivity` is how far one unit may move a question, `grid` their common step.

        `call=` goes on with an earlier one instead, also after a restart. Errors: `InvalidParameter` for a form
        without a proof, `BudgetRefused` if it does not fit, `UnknownHeld` for a call that opened no sparse vector.
        """
        if call is not None:
            sizes = (above, hits, epsilon, delta, form, monotone, values, sensitivity, grid, request)
            if sizes != (None, None, None, 0, "tuned", None, False, 1, 1, None):
                raise InvalidParameter("give call= alone: an open sparse vector keeps what it was opened with")
            return self._opened(call, self.earlier(call, OpenSparse.kind, "an opening of a sparse vector"))
        if above is None or hits is None or epsilon is None:
            raise InvalidParameter("open it with all three, such as sparse_vector(above=500, hits=10, epsilon=0.5)")
        neighbouring = self.spine.rows.neighbouring
        made = OpenSparse(neighbouring, above, hits, epsilon, delta, form, monotone, values, sensitivity, grid)
        return SparseVector(self.spine, self.spine.perform(made, request), made)

    def quote_sparse_vector(
        self,
        *,
        hits: int,
        epsilon: Number,
        tests: int,
        confidence: Number = "0.95",
        delta: Number = 0,
        form: Form = "tuned",
        monotone: bool | None = None,
        values: bool = False,
        sensitivity: Number = 1,
        grid: Number = 1,
    ) -> SparseQuote:
        """What such a sparse vector would cost and how accurate it would be over so many tests; nothing is read."""
        neighbouring, filter_ = self.spine.rows.neighbouring, self.spine.filter
        made = OpenSparse(neighbouring, 0, hits, epsilon, delta, form, monotone, values, sensitivity, grid)
        share = made.price(filter_).hit.main / max(1, filter_.capacity.main)
        fits = needed(made, filter_).fits_into(self.spine.left())
        return SparseQuote(share, fits, accuracy(made, tests, confidence), made.error_bar)

    @property
    def sparse_vectors(self) -> list[SparseVector]:
        """Every sparse vector of the dataset that was opened and not interrupted, oldest first."""
        calls = self.spine.ledger.calls(self.spine.dataset)
        opened = [call for call in calls if call.kind == OpenSparse.kind and call.state == State.SETTLED]
        return [self._opened(call.number, self.earlier(call.number, call.kind, "an opening")) for call in opened]

    def _opened(self, call: int, body: dict[str, Any]) -> SparseVector:
        return SparseVector(self.spine, call, OpenSparse.of_body(body, self.spine.rows.neighbouring))
