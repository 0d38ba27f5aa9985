"""A session: asks questions about one dataset under one budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from chary.accounting import Findings
from chary.advise.equal_price import alternatives
from chary.answers import Spending
from chary.calls.call import AnswerT, Call, asked
from chary.calls.history import told_so_far
from chary.calls.run import Opening, OpenRun, Run, resumed, run_kinds
from chary.core.charges import spent_of
from chary.core.history import openings
from chary.core.quote import Quote, compared_with, quote
from chary.data import Series, Values
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number, exact
from chary.session.entry_budgets import promised_to_units
from chary.session.growth import Growing
from chary.session.reading import types_told
from chary.session.reporting import Entry, PlainComposition, entries, plainly_composed, statement
from chary.session.verbs import Verbs

RunT = TypeVar("RunT")


@dataclass(frozen=True)
class Session(Verbs, Growing):
    """Questions to one dataset under one hard budget; made by `chary.open` or `chary.open_series`.

    Guarantee: all answers to all analysts together, whatever they ask and however often the session is reopened, are
    (epsilon, delta)-DP for every privacy unit under the neighbouring relation of the session (see `statement`).
    A call that cannot be right raises before anything is charged; one that does not fit raises `BudgetRefused`; one
    that fails in the engine (`EngineFailure`) stays charged.

    Every asking method takes `request=`: a key of your choice under which a repeated request (after a crash, say)
    returns the stored answer for free; the same key with another question raises `RequestConflict`. A key is taken
    with the charge: used again while its call still runs, anywhere, it waits for that answer, for seconds at most
    (`RequestInFlight`). A call that was interrupted after it had read stays charged; its key is charged anew.
    Sessions may be used from several threads, and several processes may open the same ledger.
    """

    def ask(self, call: Call[AnswerT], *, request: str | None = None) -> AnswerT:
        """Ask any call, such as `session.ask(Quantiles("age", [0.5], bounds=(0, 120), epsilon=0.1))`.

        Guarantee: that of the call; it is reserved before anything is read and settled before it is answered. Under a
        `request` key that came before the stored answer is returned for free; the same key with another question raises
        `RequestConflict`. Errors: `BudgetRefused` for a call that does not fit, untouched; those of the call.
        """
        answer: AnswerT = asked(call).perform(self.spine, request)
        return answer

    def quote(
        self,
        call: Call[Any],
        *,
        distance: Number | None = None,
        tests: int | None = None,
        truth: Number | None = None,
        hits: int | None = None,
        confidence: Number = "0.95",
    ) -> Quote:
        """What a call would cost and how accurate it would be; nothing is charged, read or written.

        `distance` is how far from its bar a value might be, for `wrong_call` (default: the error bar). `tests` is how
        many tests are expected (default: the keys of the question, or those that the call names), for `outlook`: the
        margin, how many false alarms to expect where truths are at most `truth` (default: 0 for counts), the smallest
        bar without one; and for `within`, how far off all may be; with `confidence`. `alternatives` are what else would
        do at the price of `hits` hits (default: as many as the call names, or as can be charged and fit), with the
        calls to write. Errors: those of a call that cannot be right for this dataset.
        """
        made = asked(call)
        bound = made.bind(self.spine)
        found = quote(self.spine, bound, distance, tests, confidence, truth)
        return compared_with(found, partial(alternatives, self.spine, made, bound, found, hits))

    def start(self, opening: Opening[RunT], *, request: str | None = None, follow: bool = False) -> RunT:
        """Open what stays open, such as `session.start(SparseVector(above=500, hits=3, epsilon=0.1))`.

        Guarantee: that of the opening, which is charged now; `run.call` is the number by which `resume` finds it again.
        With `follow`, the run is asked after each `append`, and now if something is due. Errors: as for `ask`.
        """
        if not isinstance(opening, Opening):
            raise InvalidQuery("start what stays open, such as chary.calls.SparseVector(...); ask other calls")
        return self._followed(opening.perform(self.spine, request), follow)

    def resume(self, call: int, *, bring: Any = None, follow: bool = False) -> Run[Any, Any]:
        """Go on with a run, also after a restart; nothing is charged.

        `bring` is what no ledger can hold: the black box of a schedule. Errors: `UnknownHeld` for a call that opened no
        run of this dataset.
        """
        return self._followed(resumed(self.spine, call, bring), follow)

    @property
    def runs(self) -> list[OpenRun]:
        """The runs that were opened and not interrupted, oldest first: `resume(run.call)` goes on with one."""
        return [OpenRun(call.number, call.kind) for call in openings(self.spine, *run_kinds())]

    def _followed(self, run: RunT, follow: bool) -> RunT:
        if follow:
            asked: Any = run
            asked.follow()
            self._followers.append(asked.follow)
        return run

    def series(self) -> Values:
        """The question for all values of a series; only sessions of `open_series` have one."""
        if not isinstance(self.spine.rows, Series):
            raise InvalidQuery("this session asks a table: use count, total or mean")
        return self.spine.rows.series()

    def set_share(self, analyst: str, share: Number) -> None:
        """Cap one analyst at a share of the dataset's budget, inside the dataset's own cap."""
        part = exact(share, "share")
        if not 0 <= part <= 1:
            raise InvalidParameter("share must lie between 0 and 1, such as set_share('alice', 0.5)")
        self.spine.ledger.set_share(self.spine.dataset, analyst, self.spine.filter.shares.cap(part))

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types, which are public; nothing is read."""
        return self.spine.rows.schema

    @property
    def spent(self) -> Spending:
        """What is spent by all analysts together, open reservations included."""
        return spent_of(self.spine.ledger, self.spine.dataset, self.spine.filter)

    @property
    def remaining(self) -> Spending:
        """What this session's analyst could still spend."""
        return self.spine.remaining()

    @property
    def history(self) -> list[Entry]:
        """Every call of every analyst, oldest first; all of it is public."""
        return list(entries(self.spine.ledger, self.spine.dataset))

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far, to whom, under which relation and assumptions."""
        said = statement(self.spine.ledger, self.spine.dataset, self.spine.filter, self.spine.rows.neighbouring)
        inferred = types_told(self.spine.rows, self.spine.ledger, self.spine.dataset)
        return said + inferred + promised_to_units(self.spine.rows, self.spine.filter.budget)

    def close(self) -> None:
        """Close the table and the ledger; everything can be reopened."""
        self.spine.rows.close()
        self.spine.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.spine.dataset!r}, {self.spine.filter.budget}, spent {self.spent})"


def findings(session: Session, *, run: int | None = None) -> Findings:
    """What all calls of all analysts published, or the questions to one run: intervals, p-values, alarms, together.

    Nothing is read or charged: it is worked out from the ledger. `findings(session).intervals(simultaneous=True)` hold
    for the whole ledger at once, wherever one stops; see `chary.accounting.Findings`. Left out is what published no
    value with known noise, such as outcomes of algorithms, and quantiles, running counts and answers of public weights.
    Errors: `UnknownHeld` for a call that opened no run.
    """
    return told_so_far(session.spine, run)


def plain_composition(session: Session) -> PlainComposition:
    """What the questions of a session would have cost by ordinary composition, every test paid."""
    return plainly_composed(session.history, session.spine.filter.budget)
