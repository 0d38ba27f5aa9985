"""The session: everything an analyst does with a dataset, under the one budget its ledger keeps."""

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from chary.amounts import Amount, steps_down
from chary.data import Query, Series, Values
from chary.errors import InvalidParameter, InvalidQuery, LedgerError, UnknownHeld
from chary.numbers import Number, exact, whole
from chary.session.conditional import ReleaseIf, Revise
from chary.session.interaction import Interaction, Question
from chary.session.quoting import Quote, quote
from chary.session.releasing import Release
from chary.session.reporting import (
    Entry,
    PlainComposition,
    Spending,
    entries,
    plain_composition,
    spending,
    statement,
)
from chary.session.results import Answer, Answers, Conditional, WatchResult
from chary.session.spine import Spine
from chary.session.testing import Test, WatchKeys, keyed


@dataclass(frozen=True)
class Session:
    """Questions to one dataset under one hard budget; made by `chary.open` or `chary.open_series`.

    Guarantee: all answers to all analysts together, whatever they ask and however often the session is reopened, are
    (epsilon, delta)-DP for every privacy unit under the neighbouring relation of the session (see `statement`).
    A call that cannot be right raises before anything is charged; one that does not fit raises `BudgetRefused`; one
    that fails in the engine (`EngineFailure`) stays charged.

    Every asking method takes `request=`: a key of your choice under which a repeated request (after a crash, say)
    returns the stored answer for free; the same key with another question raises `RequestConflict`.
    Sessions may be used from several threads, and several processes may open the same ledger.
    """

    spine: Spine

    def release(
        self,
        query: Question,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        request: str | None = None,
    ) -> Answer | Answers:
        """An ordinary noisy answer: discrete Laplace noise for `epsilon`, discrete Gaussian noise for `rho`.

        Guarantee: epsilon-DP or rho-zCDP for the whole answer (all keys of a keyed query together). Always charged.
        """
        made = Release(query, self.spine.rows.neighbouring, epsilon, rho)
        answer: Answer | Answers = self.spine.perform(made, request)
        return answer

    def test(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> bool:
        """Whether the query is at or above a threshold, up to noise: True is charged, False is free.

        Guarantee: an epsilon-DP call with the NotPrior target "True" ([TCT] section 4).
        """
        answer: bool = self.spine.perform(Test(query, self.spine.rows.neighbouring, above, epsilon), request)
        return answer

    def release_if(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> Conditional:
        """The noisy value if it is at or above the bar, otherwise nothing, which is free; see `Conditional.revise`.

        Guarantee: an epsilon-DP call with the NotPrior target "published" ([TCT] Algorithm 2).
        """
        made = ReleaseIf(query, self.spine.rows.neighbouring, above, epsilon, self.revise)
        answer: Conditional = self.spine.perform(made, request)
        return answer

    def revise(self, call: int, *, above: Number, request: str | None = None) -> Conditional:
        """Lower the bar for the outcome held by an earlier call, also after a restart.

        Guarantee: a 2 epsilon-DP call with a NotPrior target. Errors: `UnknownHeld` when that call holds nothing,
        `InvalidParameter` when the bar is not below the last one tried.
        """
        made = Revise(call, self._held_body(call), above, self.revise)
        answer: Conditional = self.spine.perform(made, request)
        return answer

    def watch(self, query: Question, *, above: Number, epsilon: Number, request: str | None = None) -> WatchResult:
        """Test every key of a keyed query, in order and in one scan; keys that hit come with their noisy value.

        Guarantee: each key is an epsilon-DP call with the NotPrior target "published". One unit can be in only so many
        keys (`keep_per_unit`, `stated_per_unit`, or all of them), and at most that many hits are charged. When the
        budget cannot pay for that many, the watch halts at the last hit that fits; later keys are `untested`.
        """
        made = WatchKeys(keyed(query), self.spine.rows.neighbouring, above, epsilon)
        answer: WatchResult = self.spine.perform(made, request)
        return answer

    def series(self) -> Values:
        """The question for all values of a series; only sessions of `open_series` have one."""
        if not isinstance(self.spine.rows, Series):
            raise InvalidQuery("this session asks a table: use count, total or mean")
        return self.spine.rows.series()

    def quote(
        self,
        query: Question,
        *,
        above: Number | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        distance: Number | None = None,
    ) -> Quote:
        """What a question would cost and how accurate it would be, for free: with `above` as a test, a conditional
        release or a watch (they cost the same), without it as an ordinary release.
        """
        return quote(self.spine, self._planned(query, above, epsilon, rho), distance)

    def append(self, rows: Any) -> int:
        """Add rows to the growing dataset; returns how often it has grown. Nothing is charged.

        All rows or none are added. Errors: `SchemaMismatch` if columns or types differ. How many rows came is not
        recorded, since under add/remove the size of the dataset is secret.
        """
        self.spine.rows.append(rows)
        self.spine.ledger.note(self.spine.dataset, "append", "{}")
        return self.spine.ledger.version(self.spine.dataset)

    def set_share(self, analyst: str, share: Number) -> None:
        """Cap one analyst at a share of the dataset's budget, inside the dataset's own cap."""
        part, capacity = exact(share, "share"), self.spine.filter.capacity
        if not 0 <= part <= 1:
            raise InvalidParameter("share must lie between 0 and 1, such as set_share('alice', 0.5)")
        cap = Amount(steps_down(part, capacity.main), steps_down(part, capacity.delta))
        self.spine.ledger.set_share(self.spine.dataset, analyst, cap)

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types, which are public; nothing is read."""
        return self.spine.rows.schema

    @property
    def spent(self) -> Spending:
        """What is spent by all analysts together, open reservations included."""
        return spending(self.spine.filter, self.spine.ledger.balance(self.spine.dataset).spent)

    @property
    def remaining(self) -> Spending:
        """What this session's analyst could still spend."""
        return spending(self.spine.filter, self.spine.left())

    @property
    def history(self) -> list[Entry]:
        """Every call of every analyst, oldest first; all of it is public."""
        return list(entries(self.spine.ledger, self.spine.dataset, self.spine.filter))

    @property
    def plain_composition(self) -> PlainComposition:
        """What the same questions would have cost by ordinary composition, every test paid."""
        return plain_composition(self.history, self.spine.filter.budget)

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far, to whom, under which relation and assumptions."""
        return statement(self.spine.ledger, self.spine.dataset, self.spine.filter, self.spine.rows.neighbouring)

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

    def _planned(
        self, query: Question, above: Number | None, epsilon: Number | None, rho: Number | None
    ) -> Interaction:
        neighbouring = self.spine.rows.neighbouring
        if above is None:
            return Release(query, neighbouring, epsilon, rho)
        if epsilon is None or rho is not None:
            raise InvalidParameter(
                "a quote for a threshold needs epsilon= alone, such as quote(q, above=500, epsilon=0.02)"
            )
        if isinstance(query, Query) and query.keys is not None:
            return WatchKeys(query, neighbouring, above, epsilon)
        return Test(query, neighbouring, above, epsilon)

    def _held_body(self, call: int) -> dict[str, Any]:
        try:
            stored = self.spine.ledger.call(whole(call, "call"))
        except (LedgerError, InvalidParameter):
            raise UnknownHeld("there is no call of that number") from None
        if stored.kind != "release_if" or stored.dataset != self.spine.dataset:
            raise UnknownHeld(f"call {call} is not a conditional release of this dataset")
        body: dict[str, Any] = json.loads(stored.body)
        return body
