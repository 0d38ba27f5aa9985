"""The only way from a question to an answer: reserve, run, settle; and the answers of earlier calls."""

import ctypes
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

from chary import errors, noise
from chary.amounts import Accounts, Amount
from chary.answers import Spending, handed_out
from chary.core.charges import accounts_of, charged_of, held_by_part, refused, remaining
from chary.core.plan import ENCODER, AnswerT, Data, Json, Plan, Result
from chary.data import Blocks, Reading, Rows, RowTable, read_one_version
from chary.filters import Filter, Price
from chary.interruption import Uninterrupted
from chary.ledger import CallRecord, Ledger, Parts, RequestAnswered, RequestUnanswered, Reservation, SecretMoved, State
from chary.numbers import counted, set_fields, whole

# How many of an analyst's calls are searched for the same question.
_RECENT: Final = 100

# The only way from a question to an answer: reserve, run, settle.

# A session belongs to the process that opened it: a forked child can neither use nor close what it inherited. After
# a fork the child finds neither `rows` nor `ledger` in any of these.

_held: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _Lost:
    """What a child has in their place."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise errors.ForkedSession(
            "this session belongs to the process that opened it, and this is a fork of that: open the same rows with "
            "the same ledger here, which shares the budget"
        )

    def close(self) -> None:
        """Nothing here is to be closed: the parent goes on."""


def _after_fork() -> None:
    """Engines do not outlive a fork, and would wait for threads that are not there: the child never ends them."""
    for held in list(_held.values()):
        for lost in (held.rows, held.ledger):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))  # not even the end of the interpreter ends them
        set_fields(held, rows=_Lost(), ledger=_Lost())


os.register_at_fork(after_in_child=_after_fork)

# Threads of one process that change the same held state take turns, so that none is overtaken again and again.

# While somebody waits, so often is looked whether an interrupt arrived.
_LOOK_EVERY: Final = 0.1
_guard = threading.Lock()
# Each lives as long as somebody works on what it is for, or waits.
_turns: WeakValueDictionary[tuple[str, int], threading.RLock] = WeakValueDictionary()


@contextmanager
def turn(dataset: str, held: int | None, patience: float, given_up: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other thread works on what that call holds, at most this many seconds and until it is given up; for
    None nothing is waited for.

    A courtesy and no guarantee: other processes do not see it, and after that the block runs all the same. What was
    drawn on a state that moved meanwhile is thrown away by the ledger, anyone who waited for whom. To be entered where
    no interrupt can tear it: one between taking and giving back would leave others waiting.
    """
    if held is None:
        yield
        return
    lock = _lock_of((dataset, held))
    taken = _taken(lock, time.monotonic() + patience, given_up)
    try:
        yield
    finally:
        if taken:
            lock.release()


def _lock_of(held: tuple[str, int]) -> threading.RLock:
    with _guard:
        return _turns.setdefault(held, threading.RLock())


def _taken(lock: threading.RLock, until: float, given_up: Callable[[], bool]) -> bool:
    while not lock.acquire(timeout=max(0.0, min(_LOOK_EVERY, until - time.monotonic()))):
        if given_up() or time.monotonic() >= until:
            return False
    return True


def _turns_after_fork() -> None:
    """Anyone who had a turn in the parent is not here to give it back."""
    global _guard, _turns
    _guard, _turns = threading.Lock(), WeakValueDictionary()


os.register_at_fork(after_in_child=_turns_after_fork)

# Reserve - run - settle: the one place where data, noise, filter and ledger meet.

STEPS = ("asked", "reserved", "evaluated", "ran", "settled")
# Others must have charged, or moved the held state, each time in between; then a refusal says so instead of a wait.
ATTEMPTS = 5
# A call that takes longer than this is better asked for later; looking again takes the write lock for a millisecond.
PATIENCE: Final = 10.0
PAUSE: Final = 0.02
# Seconds for another thread that changes the same held state; twice as many after each time that it moved.
WAIT: Final = 1.0


@dataclass(frozen=True)
class Spine:
    """Carries plans through the transaction on the budget.

    Guarantees: nothing is read before the worst cost is charged durably. No answer is handed out before its cost and
    the answer itself are stored durably. A crash in between leaves the worst cost charged. `on_step` is called with
    each of `STEPS` as it is reached (for progress and for crash tests). With `replays`, nothing is asked: where the
    ledger has no answer under the idempotency key, `RequestUnanswered` is raised instead of a charge. `parts` are the
    parts that are read, where these are not all rows. Then only they are charged, and what is left is what they have
    left. `version` is the version of the rows that is read, None for the present one. With `renews`, the blocks up to
    today's are read, more of them as time goes on. `dated` has the calls that were asked of earlier versions here.
    """

    rows: Rows
    filter: Filter
    ledger: Ledger
    dataset: str
    analyst: str
    source: noise.Source
    on_step: Callable[[str], None]
    replays: bool = False
    parts: Parts | None = None
    version: int | None = None
    renews: bool = False
    dated: set[int] = field(default_factory=set, compare=False, repr=False)

    def __post_init__(self) -> None:
        _held[id(self)] = self

    @property
    def blocks(self) -> Blocks | None:
        """The blocks of the rows, each with a budget of its own, if they are in any."""
        return self.rows.blocks if isinstance(self.rows, RowTable) else None

    def of_now(self) -> "Spine":
        """With `renews`, the spine that reads the blocks up to today's; otherwise this one."""
        rows = self.rows
        blocks = getattr(rows, "blocks", None) if self.renews else None
        return self if blocks is None else self.of_blocks(blocks.readable(), renews=True)

    def of_blocks(self, names: tuple[str, ...], *, renews: bool = False) -> "Spine":
        """The spine that reads these consecutive blocks."""
        blocks: Any = self.blocks
        if (self.parts and self.parts.names, self.renews) == (names, renews):
            return self
        rows: Any = self.rows
        return replace(self, rows=rows.of_blocks(names), parts=Parts(blocks.text, 1, names), renews=renews)

    def has(self, parts: Parts | None) -> bool:
        """Whether a call on these parts belongs to this spine, which reads the same parts, or all blocks."""
        if parts is None or self.parts is None or not self.renews:
            return parts == self.parts
        return parts.partition == self.parts.partition

    def placed(self, plan: Plan[Any]) -> "Spine":
        """The spine that performs a plan. A plan that continues a call on some blocks is about those blocks."""
        if plan.state is None or plan.anywhere or not self.renews or self.blocks is None:
            return self
        made = self.ledger.call(plan.state).parts
        if made is None or made == self.scope(plan) or not self.has(made):
            return self
        return self.of_blocks(self.blocks.between(made.names[0], made.names[-1]))

    def perform(self, plan: Plan[AnswerT], request: str | None = None) -> AnswerT:
        """Answer a plan, or a repeated request from the ledger for free.

        An idempotency key is taken with the charge. Where another call under it still runs, in any thread or process,
        this one waits for its answer, at most `PATIENCE` seconds (`RequestInFlight`). A call that failed or was killed
        after it was charged keeps its worst cost and gives no answer: asking again under its key is charged anew.
        """
        placed = self.placed(plan)
        return self._performed(plan, request) if placed is self else placed._performed(plan, request)

    def _performed(self, plan: Plan[AnswerT], request: str | None) -> AnswerT:
        self.on_step("asked")
        stored = self.stored(plan, request)
        if stored is None:
            with Uninterrupted() as block:
                try:
                    running = self._start(plan, request, block)
                except errors.CharyError:
                    stored = self.stored(plan, request)  # another call under the key was faster
                    if stored is None:
                        raise
                else:
                    try:
                        answer, number = self._finish(running, block), running.reservation.call
                    except RequestAnswered:  # the claim on the key was lost on the way, with a connection
                        stored = self.stored(plan, request)
        if stored is not None:
            answer, number = stored.outcome, stored.number
        if self.version is not None:
            self.dated.add(number)
        # The answer reports what is left of the parts that were read.
        teller = self if plan.parts is None else replace(self, parts=plan.parts)
        return handed_out(plan.present(answer, number), teller, repeated=stored is not None)

    def _start(self, plan: Plan[Any], request: str | None, block: Uninterrupted) -> "_Running":
        """Check and reserve, once no other call under the idempotency key runs any more."""
        self._check_scope(plan)
        self._check_kept(plan)
        with block.torn():
            plan.check(self._secret(plan))
            readings = plan.reads(self.rows)
            price = plan.price(self.filter)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                reservation, most = self._reserve(plan, price, request)
                return _Running(plan, readings, price, reservation, most)
            except errors.RequestInFlight:
                if time.monotonic() >= until:
                    raise
            with block.torn():
                time.sleep(PAUSE)

    def _finish(self, running: "_Running", block: Uninterrupted) -> Json:
        """Until the first read an interruption gives the reservation back, afterwards it stays. Whatever happens to the
        ledger then, the interruption is what is reported."""
        try:
            return self._answer(running, block)
        except BaseException:
            block.hold()
            if not running.touched:
                with suppress(errors.LedgerError):
                    self.ledger.void(running.reservation)
            raise
        finally:
            running.reservation.leave()

    def _check_scope(self, plan: Plan[Any]) -> None:
        """Refuse to continue a state elsewhere than where it was made: only the units there have paid for it."""
        if plan.state is None or plan.anywhere:
            return
        made, asked = self.ledger.call(plan.state).parts, self.scope(plan)
        if made != asked:
            raise errors.InvalidQuery(
                f"call {plan.state} keeps what was read of {told(made)}, and this question is about {told(asked)}: "
                "ask it where that call was made, whose rows alone it has paid for"
            )

    def _check_kept(self, plan: Plan[Any]) -> None:
        """Refuse blocks that were closed after this session, or a run of theirs, was made."""
        blocks, read = self.blocks, self.scope(plan)
        if blocks is not None and read is not None and read.partition == blocks.text and not plan.anywhere:
            blocks.between(read.names[0], read.names[-1])

    def stored(self, plan: Plan[Any], request: str | None) -> CallRecord | None:
        """The call that was settled under this key; `RequestConflict` for a key of another question."""
        if request is None:
            return None
        asked = self.dataset, self.analyst, request, plan.kind, plan.body
        # What is asked of all blocks is the same question tomorrow, when there is one more.
        return self.ledger.replay(*asked, self.scope(plan), anywhere=self._anywhere(plan))

    def _anywhere(self, plan: Plan[Any]) -> bool:
        """Whether a key has the same question about other blocks, such as those of another day."""
        return self.renews or plan.anywhere

    def _reserve(self, plan: Plan[Any], price: Price, request: str | None) -> tuple[Reservation, int]:
        """Charge the worst cost; a plan that can halt takes as many hits as fit, at least one.

        Another process may take what is left between looking and charging, so looking is repeated a few times.
        """
        parts = self.scope(plan)
        for _ in range(ATTEMPTS):
            most = self._affordable(plan, price)
            worst, basic = plan.worst(price, most), plan.epsilons(price)
            if self.replays and self.accounts(parts).fits(worst, basic):
                raise RequestUnanswered("the ledger has no answer under this idempotency key")
            if self.replays:
                break
            try:
                asked = (plan.kind, plan.body, worst, request)
                told: dict[str, Any] = {"basic": basic, "parts": parts, "anywhere": self._anywhere(plan)}
                return self.ledger.reserve(self.dataset, self.analyst, *asked, **told), most
            except errors.BudgetExceeded:
                if most == 1 or not plan.may_halt(price):
                    break
        raise refused(plan, self.filter, self.accounts(parts), self.tightest(parts))

    def _affordable(self, plan: Plan[Any], price: Price) -> int:
        if not plan.may_halt(price):
            return plan.cost.most
        accounts = self.accounts(self.scope(plan))
        fits = Amount(price.hit.main).copies_in(accounts.left)
        # Rather fewer hits than the end of the account whose misses are free.
        if fits is None or (fits == 0 and accounts.fits(plan.worst(price), plan.epsilons(price))):
            return plan.cost.most
        return max(1, min(plan.cost.most, fits))

    def scope(self, plan: Plan[Any]) -> Parts | None:
        """The parts that a plan is charged to; None where it concerns all rows."""
        return self.parts if plan.parts is None else plan.parts

    def tightest(self, parts: Parts | None) -> str | None:
        """The block with the least budget left, the earliest of equal ones; None where rows are in no blocks."""
        if self.blocks is None or parts is None:
            return None
        held = held_by_part(self.ledger, self.dataset, parts.partition)
        return max(parts.names, key=lambda name: self.filter.shares.exactly(held.get(name, Amount(0))))

    def accounts(self, parts: Parts | None = None) -> Accounts:
        """What this analyst could still spend, on these parts or on those that are read here."""
        return accounts_of(self.ledger, self.dataset, self.analyst, parts or self.parts)

    def left(self) -> Amount:
        """The main cost and the delta of that: the smaller of what the dataset and the analyst have left."""
        return self.accounts().left

    def charged(self, calls: Sequence[int]) -> Spending:
        """What these calls were charged together, as a fraction of the budget."""
        return charged_of(self.ledger, self.dataset, self.filter, [self.ledger.call(number) for number in calls])

    def remaining(self) -> Spending:
        """What this analyst could still spend, as a fraction of the budget."""
        return remaining(self.filter, self.accounts())

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss."""
        return self.accounts().alone

    def asked(self, call: Any, request: str | None) -> Any:
        """The answer to a call."""
        return call.perform(self, request)

    def asked_before(self, call: int) -> int | None:
        """The latest of the analyst's last calls that this one repeats: its question was answered and charged, and no
        version of the rows was recorded since.

        None without one, and for a call under an idempotency key: a new key asks for a new answer. Calls as of earlier
        versions are left out, as far as this process asked them.
        """
        asked = self.ledger.call(call)
        if asked.request is not None or call in self.dated:
            return None
        earlier = self.ledger.calls(
            self.dataset, limit=_RECENT, before=call, analyst=asked.analyst, kinds=[asked.kind], newest=True
        )
        same = (each for each in earlier if (each.body, each.parts) == (asked.body, asked.parts))
        paid = (each.number for each in same if each.answer and each.charged != Amount(0))
        found = next((number for number in paid if number not in self.dated), None)
        if found is None:
            return None
        note = self.ledger.last_note(self.dataset)  # last, since it takes long in a ledger without batches
        return found if note is None or note.entry < found else None

    def _answer(self, running: "_Running", block: Uninterrupted, again: int = 0) -> Json:
        """Run and settle. The held state may have moved meanwhile. Then the outcome is discarded unseen, whatever it
        is, and the run repeated on the new state under the same reservation. Where the state moves every time, the
        reservation is given back: a discarded outcome reveals nothing.
        """
        with turn(self.dataset, running.plan.state, WAIT * 2**again, lambda: block.arrived):
            try:
                with block.torn():
                    return self._run_and_settle(running)
            except SecretMoved:
                running.touched = False
                if again + 1 >= ATTEMPTS:
                    raise
        return self._answer(running, block, again + 1)

    def _run_and_settle(self, running: "_Running") -> Json:
        secret, ran = self._run(running)
        final = running.plan.cost.final(running.price, ran, running.most)
        answer = ENCODER.encode(ran.answer)
        held = running.plan.state
        seen = {} if held is None else {held: secret}
        self.ledger.settle(running.reservation, final, ran.hits, ran.tests, answer, ran.secret, ran.secrets, seen)
        self.on_step("settled")
        return ran.answer

    def _run(self, running: "_Running") -> tuple[bytes | None, Result]:
        """Touch the data."""
        plan = running.plan
        self.on_step("reserved")
        secret = self._secret(plan)
        plan.check(secret)
        running.touched = True
        try:
            values = read_one_version(self.rows, running.readings)
        except errors.AlgorithmFailed as failed:
            # Only here is it known what a reading that failed has cost: the worst, which an opening may have paid.
            worst = plan.worst(running.price, running.most)
            told = f"{failed}; {'nothing was charged' if worst == Amount(0) else 'charged'}"
        else:
            told = ""
        if told:
            raise errors.AlgorithmFailed(told)
        self.on_step("evaluated")
        most = None if running.most >= plan.cost.most else running.most
        ran = plan.run(Data(values, self.source, secret, most, running.price))
        self.on_step("ran")
        return secret, ran

    def _secret(self, plan: Plan[Any]) -> bytes | None:
        return None if plan.state is None else self.ledger.secret(plan.state)


def told(parts: Parts | None) -> str:
    """Of which rows a call is, in a sentence."""
    if parts is None:
        return "all rows"
    return f"{counted(len(parts.names), 'part', 'parts')} of {parts.partition!r} ({', '.join(parts.names[:3])}, ...)"


@dataclass
class _Running:
    """A call between reserve and settle."""

    plan: Plan[Any]
    readings: Sequence[Reading]
    price: Price
    reservation: Reservation
    most: int
    touched: bool = False


# What groups of a session's methods have in common.


@dataclass(frozen=True)
class SessionBase:
    """A group of methods of a session. Whatever they ask goes through the spine: reserve - run - settle."""

    opened: Spine

    @property
    def spine(self) -> Spine:
        """That which the session was opened with; in a session of all blocks that of those up to today's."""
        return self.opened.of_now()


# Questions and answers of earlier calls, found in the ledger.

# Earlier calls of a dataset, as the ledger holds them.


def openings(
    spine: Spine, *kinds: str, analyst: str | None = None, after: int = 0, newest: bool = False, here: bool = False
) -> Iterator[CallRecord]:
    """The calls of these kinds that were not interrupted, of everybody or of one analyst, oldest or newest first; of
    all parts, or of those alone that are read `here`."""
    calls = spine.ledger.calls(spine.dataset, after, kinds=kinds, analyst=analyst, newest=newest)
    return (call for call in calls if call.state == State.SETTLED and (not here or spine.has(call.parts)))


def numbered(spine: Spine, call: int) -> CallRecord:
    """The call of that number, of whatever kind and dataset; `NotWithheld` if there is none."""
    try:
        return spine.ledger.call(whole(call, "call"))
    except (errors.LedgerError, errors.InvalidParameter):
        raise errors.NotWithheld("there is no call of that number") from None


# The answers of calls of one kind, kept between looks at the ledger.

Answer = TypeVar("Answer")


class AnswerLog(Generic[Answer]):
    """The answers to the calls of one kind whose bodies hold `said`, after the call `after`, as `present` returns them.

    Each look reads only the calls since the last one. Calls that were open are read again, one by one, since a call
    that was killed stays open.
    """

    def __init__(self, spine: Spine, kind: str, said: Json, present: Callable[[Json, int], Answer], after: int) -> None:
        self._spine, self._kind, self._said, self._present = spine, kind, said, present
        self._known: tuple[int, dict[int, Answer], tuple[int, ...]] = (after, {}, ())

    def all(self) -> list[Answer]:
        """In the order of the calls."""
        ledger, (after, done, began) = self._spine.ledger, self._known
        found, waiting = dict(done), []
        kinds = (self._kind,)
        for call in chain(map(ledger.call, began), ledger.calls(self._spine.dataset, after=after, kinds=kinds)):
            after = max(after, call.number)
            if self._said.items() <= json.loads(call.body).items():
                if call.state == State.SETTLED:
                    answer = self._present(json.loads(call.answer or "{}"), call.number)
                    found[call.number] = handed_out(answer, self._spine)
                elif call.state == State.RESERVED:
                    waiting.append(call.number)
        self._known = after, found, tuple(waiting)
        return [found[number] for number in sorted(found)]
