"""The ledger: the rules of reserve, settle and all that is recorded, over any store."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast, final

from chary.amounts import LIMIT, Amount
from chary.errors import LedgerError, RequestInFlight
from chary.ledger import accounts, entries, records
from chary.ledger.memory import MemoryStore, MemoryTransaction
from chary.ledger.sql.store import SqlStore
from chary.ledger.sql.transaction import SqlTransaction
from chary.ledger.store import PAGE, Asked, Closing, Key, Progress, Wanted, key_of

# Where a ledger is kept, and one state of it. Only a state of `writing` may be added to, by what was read there before.
Store = MemoryStore | SqlStore
Transaction = MemoryTransaction | SqlTransaction
# Above the numbers of all entries.
_END: Final = 2**62


@final
class Ledger:
    """Budgets of one or several datasets: reserve the worst cost, settle the actual one, remember both for ever.

    The rules are here, and what differs between ledgers is its `Store`: `open_ledger` opens one in a file, on a server
    or in memory.

    Formal guarantees, whatever processes and threads do at the same time:

    1. What is spent, reservations included, never passes the capacity of the dataset nor the analyst's quota. It is
       what calls of all rows were charged and, of each partition, what the most expensive parts were that one unit
       can be in. Where the dataset has a basic account it passes that of one account at most (`amounts.Accounts`).
    2. When `reserve` returns, the worst cost is charged and (in a file) durable; when it raises, nothing is.
    3. Under one idempotency key at most one call runs at a time, and none once one was settled.
    4. A reservation is settled or voided at most once. One that is neither, say after a crash, stays charged.
    5. Nothing recorded is changed or removed; `verify` recomputes everything from the recorded entries.

    Each method is one transaction. Strings must hold no NUL and no lone surrogate, names must not be empty
    (`InvalidParameter`). A dataset that was not opened, an unknown call and a closed ledger raise `LedgerError`.
    A ledger in a file may raise `LedgerLocked`, with nothing changed.


    >>> from chary.ledger import Terms, open_ledger
    >>> ledger = open_ledger(":memory:")
    >>> ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    >>> call = ledger.reserve("visits", "ann", "count", '{"where":"age > 65"}', Amount(4))
    >>> ledger.settle(call, Amount(1), hits=1, tests=1, answer="true")
    >>> ledger.balance("visits").left
    Amount(main=9, delta=0)
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def __repr__(self) -> str:
        return f"Ledger({self.store!r})"

    @property
    def lasting(self) -> bool:
        """Whether it outlives the process."""
        return self.store.lasting

    def open(self, terms: records.Terms) -> None:
        """Create the dataset, or check that it is held under these very terms (`LedgerMismatch` if not)."""
        with self.store.writing() as state:
            held = next((each for each in state.terms() if each.name == terms.name), None)
            if held:
                records.agree(held, terms)
            else:
                end = state.end()
                state.post(end, entries.opening(end.entries + 1, terms))

    def set_quota(self, dataset: str, analyst: str, cap: Amount, origin: str = "") -> None:
        """Cap one analyst inside the dataset's capacity; shares may overlap. It may be changed at any time.

        A cap above the dataset's capacity or below what the analyst has spent raises `InvalidParameter`.
        """
        with self.store.writing() as state:
            at = state.standing(dataset, analyst)
            entry = entries.sharing(at.end.entries + 1, dataset, analyst, cap, origin)
            accounts.fitting_share(at.capacity, at.analyst, cap)
            state.post(at.end, entry, known=at.known)

    def reserve(
        self,
        dataset: str,
        analyst: str,
        kind: str,
        body: str,
        worst: Amount,
        request: str | None = None,
        origin: str = "",
        basic: int = LIMIT,
        parts: records.Parts | None = None,
        *,
        anywhere: bool = False,
    ) -> records.Reservation:
        """Charge the worst cost before any data are touched.

        `body` is the question in canonical JSON. `request` is a key of the analyst's choice under which the answer can
        be had again. `origin` is what it is asked through (a token of the service, say). `basic` is the sum of its pure
        epsilons in steps of the basic account, where the dataset has one. Raises `CapReached` (a `BudgetExceeded`) if
        the dataset or the analyst cannot afford the cost, and `RequestConflict` if the key belongs to another question.

        `parts` says that the call reads the rows of these parts alone; the caller's word is believed. Each of them is
        charged the cost, and of all parts of a partition the most expensive `most` count, next to what concerns all
        rows (docs/theory/charging.md, parts). A partition that is held with another `most` raises `InvalidParameter`.
        With `anywhere` the question of a key may have been about other parts, as for `replay`.

        The key is reserved with the cost. While the reservation is not left (`Reservation.leave`) and its process
        lives, anyone who reserves under the key gets `RequestInFlight`. Once it is settled they get `RequestAnswered`.
        A call that was left unsettled, or whose process died, stays charged, and its key can be reserved (and paid)
        again.
        """
        with ExitStack() as undo:
            with self.store.writing() as state:
                at = state.standing(dataset, analyst, parts)
                adds, number = at.dataset.counted(basic), at.end.entries + 1
                entry = entries.reserving(number, dataset, analyst, kind, body, worst, request, origin, adds, parts)
                _check_unclaimed(state, entry, anywhere=anywhere)
                at.dataset.admit(worst, "dataset", at.analyst.asks(adds), parts)
                at.analyst.admit(worst, "analyst", parts=parts)
                sealed = state.post(at.end, entry, known=at.known)
                # Claimed before the commit: nobody ever sees the key without its claim. A failed commit leaves it.
                made = records.Reservation(number, None if request is None else state.claim(entry, sealed))
                undo.callback(made.leave)
            undo.pop_all()
        return made

    def settle(
        self,
        reservation: records.Reservation,
        price: Amount,
        hits: int,
        tests: int,
        answer: str,
        secret: bytes | None = None,
        secrets: Mapping[int, bytes | None] | None = None,
        seen: Mapping[int, bytes | None] | None = None,
    ) -> None:
        """Replace the worst cost by the actual one and store the public answer; exactly once.

        `secret` is kept for this call outside the chain. `secrets` sets, or erases by None, those of earlier
        settled calls of the same dataset in the same transaction. `seen` holds the secrets on which the run was
        based: if one of them is another by now, `SecretMoved` is raised and nothing changes. A cost above the worst
        raises `InvalidParameter`; a call that is unknown, settled or voided raises `LedgerError`.
        """
        changes, before = secrets or {}, seen or {}
        with self.store.writing() as state:
            end, held = state.reserved(reservation.call)
            entry = entries.settling(end.entries + 1, held, price, hits, tests, answer)
            records.masked(secret, "secret")
            # Whoever lost the claim on the key while the call ran must not answer it a second time.
            if (first := _first(state, held)) is not None and first.settled:
                raise entries.answered()
            if not all(state.same_secret(call, known) for call, known in before.items()):
                raise records.SecretMoved("the secret state of an earlier call changed while this call ran: ask again")
            for call, new in changes.items():
                if state.settled_in(call) != held.dataset:
                    raise LedgerError(f"call {call} is not a settled call of this dataset")
                records.masked(new, "secret")
            state.post(end, entry, Closing(held, answer))
            for call, new in changes.items():
                # What is as it was seen is not written again: the state of a million units is large. An erased one is
                # never set again.
                unmoved = new is not None and before.get(call) == new
                if not unmoved and state.drop_secret(call) and new is not None:
                    state.add_secret(call, new)
            if secret is not None:
                state.add_secret(held.number, secret)

    def void(self, reservation: records.Reservation) -> None:
        """Give the whole reservation back: only for a call that has certainly not touched any data."""
        with self.store.writing() as state:
            end, held = state.reserved(reservation.call)
            state.post(end, entries.voiding(end.entries + 1, held), Closing(held))

    def note(self, dataset: str, kind: str, body: str, after: int | None = None, origin: str = "") -> int:
        """Record something about the dataset, such as appended rows, raise its version by one and return it.

        With `after` the version must still be that one, otherwise `VersionMoved` is raised and nothing changes.
        """
        with self.store.writing() as state:
            version, end = state.account(dataset).version, state.end()
            records.unchanged(version, after)
            state.post(end, entries.noting(end.entries + 1, dataset, kind, body, origin))
            return version + 1

    def notes(self, dataset: str) -> list[records.Note]:
        """Everything recorded about the dataset, oldest first; it takes a scan of the ledger."""
        with self.store.reading() as state:
            return state.notes(dataset)

    def last_note(self, dataset: str) -> records.Note | None:
        """What was recorded last about the dataset; it takes longer the more calls there were since."""
        with self.store.reading() as state:
            return state.last_note(dataset)

    def replay(
        self,
        dataset: str,
        analyst: str,
        request: str,
        kind: str,
        body: str,
        parts: records.Parts | None = None,
        *,
        anywhere: bool = False,
    ) -> records.CallRecord | None:
        """The call that was first settled under this key, for free; None if there is none yet.

        A key belongs to one analyst of one dataset and to the first question asked under it, unless that was
        voided: another kind or body, or other parts, raise `RequestConflict`. `anywhere` takes any parts.
        """
        # Only once the checkpoint knows it: whoever settled it may have died before.
        with self.store.kept() as state:
            state.account(dataset)
            found = state.asked(Key(dataset, records.label(analyst, "analyst"), records.label(request, "request")))
            if found is None:
                return None
            about = found.entry.parts if anywhere else records.written(parts)
            entries.same_question(found.entry, kind, body, about)
            return state.call(found.entry.number) if found.settled else None

    def last_settled(
        self, dataset: str, kind: str, body: str, parts: records.Parts | None = None
    ) -> records.CallRecord | None:
        """The latest settled call with this question about these parts, by any analyst. It takes longer the more calls
        came since."""
        with self.store.reading() as state:
            return state.last_settled(dataset, kind, body, parts)

    def charged_under(self, dataset: str, analyst: str, keys: str) -> records.Balance:
        """What an analyst's calls were charged whose idempotency keys begin with these words, whatever became of them.
        Also what they added to the basic account; it takes longer the more of them there are.
        """
        with self.store.reading() as state:
            return state.charged_under(dataset, records.label(analyst, "analyst"), records.label(keys, "request"))

    def secret(self, call: int) -> bytes | None:
        """The secret of a call; None if there is none. Never show it."""
        with self.store.reading() as state:
            return state.secret(call)

    def balance(self, dataset: str, parts: records.Parts | None = None) -> records.Balance:
        """What is spent of the dataset's capacity, in constant time; with `parts`, in time that grows with their
        number."""
        with self.store.reading() as state:
            return state.account(dataset, parts).purse.balance(parts)

    def analyst_balance(self, dataset: str, analyst: str, parts: records.Parts | None = None) -> records.Balance:
        """What one analyst has spent, likewise; nothing for an analyst who never asked."""
        with self.store.reading() as state:
            return state.analyst(dataset, records.label(analyst, "analyst"), parts).balance(parts)

    def partitions(self, dataset: str) -> list[records.PartitionBalance]:
        """What each part of the dataset holds, by partition; it takes longer the more parts there are."""
        with self.store.reading() as state:
            return [held.balance(name) for name, held in state.partitions(dataset).items()]

    def tally(self, dataset: str) -> dict[str, records.Tally]:
        """Sums over the settled calls by kind of call, in constant time."""
        with self.store.reading() as state:
            return state.tally(dataset)

    def version(self, dataset: str) -> int:
        """How many notes the dataset has."""
        with self.store.reading() as state:
            return state.account(dataset).version

    def call(self, number: int) -> records.CallRecord:
        """One call."""
        with self.store.reading() as state:
            return state.call(number)

    def calls(
        self,
        dataset: str,
        after: int = 0,
        limit: int | None = None,
        *,
        before: int | None = None,
        analyst: str | None = None,
        kinds: Collection[str] | None = None,
        keys: str | None = None,
        newest: bool = False,
    ) -> Iterator[records.CallRecord]:
        """The dataset's calls with a number above `after` and below `before`, at most `limit` of them, in ascending
        order, or in descending order with `newest`.

        Only those of one `analyst`, of some `kinds`, or under idempotency keys of that analyst that begin with `keys`,
        where they are named. In SQL it takes as long as what is handed out, however many others there are; by `keys`,
        as long as there are calls under them.
        """
        left = limit if limit is None else records.count(limit, "limit")
        named = None if kinds is None else tuple(sorted(kinds))
        wanted = Wanted(dataset, after, _END if before is None else before, analyst, named, keys, newest)
        while True:
            size = PAGE if left is None else min(left, PAGE)
            with self.store.reading() as state:
                page = state.page(wanted, size)
            yield from page
            if len(page) < PAGE:
                return
            end = page[-1].number
            wanted = wanted._replace(before=end) if newest else wanted._replace(after=end)
            left = None if left is None else left - size

    def analysts(self, dataset: str) -> list[str]:
        """Anyone who has asked or was capped, by name."""
        with self.store.reading() as state:
            return state.analysts_of(dataset)

    def datasets(self) -> list[records.Terms]:
        """The terms of every dataset, by name."""
        with self.store.reading() as state:
            return state.terms()

    def export(self, dataset: str) -> Iterator[dict[str, object]]:
        """Every entry of the dataset in order, with its hash, the one before it and the public answer."""
        after = 0
        while True:
            with self.store.reading() as state:
                lines = state.lines(dataset, after)
            yield from lines
            if len(lines) < PAGE:
                return
            after = cast("int", lines[-1]["number"])

    def verify(self, progress: Progress | None = None) -> records.Verification:
        """Recompute the chain and every derived number; `progress` is called with entries done and in all."""
        return self.store.verify(progress)

    def head(self) -> entries.Head:
        """How many entries there are and the hash of the last: keep it elsewhere, and an old copy can be recognised.

        Errors: `LedgerError` for a ledger in memory, of which there are no copies.
        """
        if not self.lasting:
            raise LedgerError("a ledger in memory has no head: keep it in a file")
        with self.store.reading() as state:
            return state.end()

    def holds(self, head: entries.Head) -> bool:
        """Whether the ledger goes on from this head; an older copy does not."""
        with self.store.reading() as state:
            return state.holds(head)

    def checkpoint(self, path: str | Path) -> entries.Head:
        """Make a new checkpoint that knows this ledger; `chary.open(..., checkpoint=path)` asks it from then on.

        It takes the place of a checkpoint; any other file that is there raises `InvalidParameter`.
        """
        return self.store.checkpoint(Path(path))

    def close(self) -> None:
        """Let go of everything; later calls raise `LedgerError`, another `close` does nothing."""
        self.store.close()


def _first(state: Transaction, entry: entries.ChainEntry) -> Asked | None:
    """The first call under the idempotency key of an entry."""
    return None if entry.request is None else state.asked(key_of(entry))


def _check_unclaimed(state: Transaction, entry: entries.ChainEntry, *, anywhere: bool) -> None:
    """Raise why the entry's idempotency key cannot be used now, if it cannot."""
    first = _first(state, entry)
    if first is None:
        return
    about = first.entry.parts if anywhere else entry.parts
    entries.same_question(first.entry, entry.label, entry.body, about)
    if first.settled:
        raise entries.answered()
    if state.running(key_of(entry)):
        raise RequestInFlight(
            "another call under this idempotency key still runs: ask again under the same key. Once that call is "
            "answered its answer is free (one that failed or was killed stays charged, and asking again is charged "
            "anew)"
        )
