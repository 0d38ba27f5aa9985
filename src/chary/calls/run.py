"""Runs: mechanisms kept open, their openings, questions and stored state; answers of a session from its ledger."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, overload

from chary.accounting import Event
from chary.amounts import Amount
from chary.answers import NoisyNumber, NoisyNumbers, Spending, counting
from chary.calls.call import Call, kinds, of_ledger
from chary.core.charges import charged_in
from chary.core.forecast import Forecast
from chary.core.plan import ENCODER, PREPAID, Cost, Data, Json, PerHit, Plan, Result, nothing_read, nothing_refused
from chary.core.quote import Quote, quote
from chary.core.transaction import AnswerLog, Spine, numbered
from chary.data import Query, Reading, Rows
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current, stored_kinds
from chary.errors import InvalidParameter, InvalidQuery, LedgerLocked, NotWithheld
from chary.ledger import CallRecord as Stored
from chary.ledger import Parts, State, together
from chary.numbers import work_out

# Runs: mechanisms kept open, their openings, questions and stored state.

# An opening is charged the whole cost of its event.
_WHOLE: Final = PerHit()


def opening(
    call: Call[Any],
    spine: Spine,
    event: Event,
    start: Callable[[Data], bytes],
    *,
    body: Json | None = None,
    answer: Json | None = None,
    cost: Cost = _WHOLE,
    reads: Callable[[Rows], Sequence[Reading]] = nothing_read,
    forecast: Callable[[], Forecast] = Forecast,
    check: Callable[[bytes | None], None] = nothing_refused,
) -> Plan[int]:
    """The plan that opens a run and answers its number; `start` makes the secret state that is stored with it.

    `body` is the stored question where it differs from that of the call, `answer` the public part of the opening.
    """

    def run(data: Data) -> Result:
        return Result(answer or {}, 0, 0, secret=start(data))

    def number(answer: Json, number: int) -> int:
        return number

    return call.planned(spine, event, run, number, reads, cost, forecast, body=body, check=check)


AnswerT = TypeVar("AnswerT")
StateT = TypeVar("StateT")
ToldT = TypeVar("ToldT")


class Run(ABC, Generic[AnswerT, StateT]):
    """An open run: made by `Session.start`, and again, after a restart, by `Session.resume` and its `call`.

    Guarantee: that of the call that opened it, which was charged when it began. As a context manager it refuses further
    questions at the end of the block; what the ledger keeps stays.
    """

    call: int
    """The number of the call that opened it."""
    kind: str
    """The kind of that call, as ledgers hold it."""
    _closed = False

    @abstractmethod
    def ask(self, *question: Any, request: str | None = None, **options: Any) -> AnswerT:
        """Put a question to the run. Under an idempotency key, `request`, a repeated one returns the stored answer."""

    @abstractmethod
    def quote(self, *question: Any, **options: Any) -> Quote:
        """What a question would cost now, and how accurate it would be; nothing is charged or read.

        An exhausted run refuses it. A question that only has to wait is quoted.
        """

    @property
    @abstractmethod
    def state(self) -> StateT:
        """The public state of the run now, which changes with every answer."""

    @property
    @abstractmethod
    def words(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of a question to the run, such as `query` and `above`, by name."""

    @property
    @abstractmethod
    def spent(self) -> Spending:
        """What the opening and all questions of the run were charged together."""

    @abstractmethod
    def follow(self) -> object:
        """Do what is due; after `Session.start(..., follow=True)` the session calls this after each append."""

    def close(self) -> None:
        """Refuse further questions; `Session.resume` goes on."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise InvalidParameter(f"this run was closed; session.resume({self.call}) continues it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({self.kind}, call={self.call})"


class AskedKind(NamedTuple):
    """A stored kind of call, or of question to a run.

    - `publishes`: its values have known noise. `again`: it publishes a single value repeatedly, as time goes on.
    - `prepaid`: the epsilon in its answer is part of what the opening was charged.
    - `title`: how people read it; a question without one has the opening's title and the last word of its kind, which
      is "of groups" for a watch.
    """

    kind: str
    publishes: bool = False
    again: bool = False
    prepaid: bool = False
    title: str | None = None


class RunKind(Run[AnswerT, StateT]):
    """A run on the rows and the ledger of a session. Each subclass defines its questions and its public state.

    - `kind`: the kind of the call that opens it. `questions`: the kinds of its questions.
    - `names`: the field of a stored question with the number of the run.
    - `keeps`: a word for the state that is stored with the opening, for errors.
    - `most`: the field of the opening that limits how many values are published.
    - `beside`: options of a question that are not stored.
    - `anywhere`: the state is public, so questions may read, and are charged in, other blocks than the opening.
    """

    questions: ClassVar[tuple[AskedKind, ...]]
    names: ClassVar[str]
    keeps: ClassVar[str] = "state"
    most: ClassVar[str | None] = None
    anywhere: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            _RUNS[cls.kind] = cls
            _QUESTIONS.update((asked.kind, (asked, cls)) for asked in cls.questions)

    def __init__(self, spine: Spine, call: int, terms: Json, brought: Any = None) -> None:
        """Use `Session.start` or `Session.resume`.

        `terms` is the stored body of the opening, and `brought` what ledgers cannot store, such as the algorithm of a
        schedule.
        """
        self.call, self._spine, self._terms, self._brought = call, spine, terms, brought
        self._charges = _Charges(spine, call, self.names)

    @abstractmethod
    def plan(self, *asked: Any, **options: Any) -> Plan[Any]:
        """The plan of a question to the run; nothing is charged or read.

        Errors: those of the question.
        """

    def recorded(self, body: Json) -> Plan[Any]:
        """The plan of a stored question with this body, to present its stored answer again."""
        said = {name: value for name, value in current(body).items() if name in self.words}
        return self.plan(**said | ({"query": query_of(said["query"])} if "query" in said else {}))

    def ask(self, *question: Any, request: str | None = None, **options: Any) -> AnswerT:
        self._open()
        answer: AnswerT = self._ask(question, options, request)
        return counting(answer, *question, *options.values())

    def quote(self, *question: Any, **options: Any) -> Quote:
        self._open()
        plan = self.plan(*question, **options)
        with suppress(LedgerLocked, InvalidParameter):
            plan.check(None if plan.state is None else self._spine.ledger.secret(plan.state))
        return quote(self._spine, plan)

    @property
    def words(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.plan).parameters

    @property
    def spent(self) -> Spending:
        spine = self._spine
        return charged_in(spine.ledger, spine.dataset, spine.filter, *self._charges.total())

    def follow(self) -> object:
        self._open()
        return self._follow()

    def _ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Any:
        """Put the question. A run whose questions may take several plans overrides this."""
        return self._spine.perform(self.plan(*asked, **options), request)

    def _follow(self) -> object:
        """Refused by runs that do not follow arrivals."""
        raise InvalidParameter(f"{self.kind} is asked, it does not follow arrivals: leave follow= out")

    def _plan(
        self,
        kind: str,
        body: Json,
        event: Event,
        run: Callable[[Data], Result],
        present: Callable[[Json, int], Any],
        *,
        reads: Callable[[Rows], Sequence[Reading]] = nothing_read,
        cost: Cost = PREPAID,
        forecast: Callable[[], Forecast] = Forecast,
        check: Callable[[bytes], None] = lambda held: None,
        parts: Parts | None = None,
    ) -> Plan[Any]:
        """The plan of a question on the state stored with the opening; `check` refuses what that state rules out."""
        return Plan(
            kind,
            ENCODER.encode(body | {self.names: self.call}),
            event,
            run,
            present,
            reads,
            cost,
            forecast,
            self.call,
            lambda held: check(self._kept(held)),
            parts=parts,
            anywhere=self.anywhere,
        )

    def _refuse_earlier(self, seen: int) -> None:
        """`InvalidQuery` where rows are read as of a version before one that the run saw: it goes on, never back."""
        if self._spine.version is not None and self._spine.version < seen:
            raise InvalidQuery(
                f"this run has seen the rows as of version {seen}, and does not go back to version "
                f"{self._spine.version}: start another one there"
            )

    def _answered(self, kind: str, present: Callable[[Json, int], ToldT]) -> AnswerLog[ToldT]:
        """The answers of the run to questions of one kind, from the ledger."""
        return AnswerLog(self._spine, kind, {self.names: self.call}, present, after=self.call)

    def _kept(self, held: bytes | None) -> bytes:
        """The state stored with the opening; `NotWithheld` where that was interrupted."""
        if held is None:
            raise self._interrupted()
        return held

    def _secret(self) -> bytes:
        """The state stored with the opening now."""
        return self._kept(self._spine.ledger.secret(self.call))

    def _opening(self) -> Json:
        """The stored answer of the opening; `NotWithheld` where it was interrupted."""
        answer = self._spine.ledger.call(self.call).answer
        if answer is None:
            raise self._interrupted()
        told: Json = json.loads(answer)
        return told

    def _interrupted(self) -> NotWithheld:
        return NotWithheld(f"call {self.call} keeps no {self.keeps}: it was interrupted; open a new one")


_RUNS: dict[str, type[RunKind[Any, Any]]] = {}
_QUESTIONS: dict[str, tuple[AskedKind, type[RunKind[Any, Any]]]] = {}


class _Charges:
    """What the calls of a run were charged, kept between looks at the ledger: only what came since is read.

    Calls that were under way are looked at again, one by one, since one that was killed stays so.
    """

    def __init__(self, spine: Spine, opened: int, names: str) -> None:
        self._spine, self._opened, self._names = spine, opened, names
        # Stored bodies are JSON without spaces, so a search for this text rules most calls out without parsing them.
        self._named = f'"{names}":{opened}'
        self._known: tuple[int, Mapping[Parts | None, Amount], int, tuple[int, ...]] = (opened - 1, {}, 0, ())

    def total(self) -> tuple[Amount, int]:
        """All of them together, at what is reserved for those under way, and what they add to the basic account; of
        blocks what the most expensive one holds of them."""
        ledger, (after, known, basic, began) = self._spine.ledger, self._known
        done, waiting = dict(known), list[Stored]()
        for stored in chain(map(ledger.call, began), ledger.calls(self._spine.dataset, after=after)):
            after = max(after, stored.number)
            if stored.state == State.RESERVED and self._is_of_run(stored):
                waiting.append(stored)
            elif self._is_of_run(stored):
                done[stored.parts] = done.get(stored.parts, Amount(0)) + stored.charged
                basic += stored.basic
        self._known = after, done, basic, tuple(stored.number for stored in waiting)
        under_way = ((stored.parts, stored.charged) for stored in waiting)
        return together(chain(done.items(), under_way)), sum((stored.basic for stored in waiting), basic)

    def _is_of_run(self, stored: Stored) -> bool:
        if stored.number == self._opened:
            return True
        return self._named in stored.body and json.loads(stored.body).get(self._names) == self._opened


class Opening(Call[AnswerT]):
    """A call that opens a run and answers that run."""

    def perform(self, spine: Spine, request: str | None = None) -> AnswerT:
        plan: Plan[Any] = self.plan(spine)
        run: AnswerT = resumed(spine, spine.perform(plan, request), self.brought())
        return run

    def brought(self) -> Any:
        """What the run needs and ledgers cannot store, such as a black box; None for most runs."""
        return None


def resumed(spine: Spine, number: int, brought: Any = None) -> Any:
    """The run that an earlier call left open; `NotWithheld` if there is none of that number in the dataset."""
    stored = numbered(spine, number)
    if stored.kind not in _RUNS or stored.dataset != spine.dataset or stored.state == State.VOIDED:
        raise NotWithheld(f"call {number} opened no run of this dataset")
    if not spine.has(stored.parts):
        of = "all rows" if stored.parts is None else f"part {', '.join(stored.parts.names)}"
        raise NotWithheld(f"call {number} opened a run of {of}: session.resume({number}) of the session of that")
    if stored.parts != spine.parts and spine.blocks and stored.parts and not _RUNS[stored.kind].anywhere:
        spine = spine.of_blocks(spine.blocks.between(stored.parts.names[0], stored.parts.names[-1]))
    run = _RUNS[stored.kind](spine, number, json.loads(stored.body), brought)
    if stored.state != State.SETTLED:
        raise run._interrupted()
    work_out(run.state)  # refuses what is brought to another one
    return run


class OpenRun(NamedTuple):
    """A run that can be continued: its number and its kind."""

    call: int
    kind: str


def run_kinds() -> tuple[str, ...]:
    """The kinds of call that open runs."""
    return tuple(_RUNS)


def run_of(kind: str) -> type[RunKind[Any, Any]]:
    """The runs that a kind of call opens."""
    return _RUNS[kind]


def run_asked(kind: str) -> type[RunKind[Any, Any]] | None:
    """The runs to which this kind of question is put; None for a kind that is no question to a run."""
    return _QUESTIONS[kind][1] if kind in _QUESTIONS else None


def declared(kind: str) -> AskedKind:
    """The declaration of a stored kind; an empty one for a kind that is not known."""
    known = of_ledger(kind)
    if known is not None:
        return AskedKind(kind, known.publishes in (True, kind), known.again, title=known.title)
    return _QUESTIONS[kind][0] if kind in _QUESTIONS else AskedKind(kind)


def publishing() -> list[str]:
    """The kinds of calls, and of questions to runs, that publish values whose noise is known, as ledgers hold them."""
    words = [word for kind in (*kinds(), *_QUESTIONS) for word in stored_kinds(kind)]
    return [word for word in words if declared(word).publishes]


# Ledgers hold questions about groups under a word of their own.
_READ: Final = {"watch": "of groups"}


def titled(kind: str) -> str:
    """The title of a stored kind: that of the call, or that of the run followed by a word for the question.

    >>> [titled(kind) for kind in ("fraction", "multiplicative_weights_ask", "agreed_watch")]
    ['Proportion', 'PMW ask', 'Prepaid tests of groups']
    """
    known, run, words = declared(kind), run_asked(kind), kind.split("_")
    if known.title is not None:
        return known.title
    if run is None:
        return " ".join(words).capitalize()
    return f"{titled(run.kind)} {_READ.get(words[-1], words[-1])}"


# Runs that are asked one question, or one for each group at once.

TableT = TypeVar("TableT")


class KeyedRun(RunKind[AnswerT, StateT], Generic[AnswerT, TableT, StateT]):
    """A run whose answer to a query with public keys is a table, in one scan, and to any other query one answer."""

    if TYPE_CHECKING:
        # A run of any kind takes any words; those of this one begin with the query, whose type says what is answered.
        @overload  # type: ignore[override]
        def ask(self, query: Query[NoisyNumber], *, request: str | None = None, **options: Any) -> AnswerT: ...

        @overload
        def ask(self, query: Query[NoisyNumbers], *, request: str | None = None, **options: Any) -> TableT: ...

        def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
            """As for any run."""
