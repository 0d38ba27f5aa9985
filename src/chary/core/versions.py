"""Keeping the ledger in step with the batches that rows grew by, whatever was interrupted in between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from chary.core.transaction import Spine
from chary.data import Batch, Rows, RowTable, has_public_size, public_size
from chary.errors import InvalidQuery, LedgerMismatch
from chary.ledger import Ledger, Note, VersionMoved, canonical
from chary.ledger.records import parsed

# Each time somebody else recorded a version in between, which takes milliseconds: nine in a row are no coincidence.
ATTEMPTS = 9
APPENDED, FOUND = "append", "found"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Version:
    """One state of a growing dataset; everything in it is public.

    `kind` is "append" for a batch that a session appended. It is "found" for rows that were there at an opening and
    came by no session (those of the first opening too). `size` is the number of rows since then where it is public,
    else None; `batch` how many batches a DuckDB file has since then. `request` is the key of the append, if it had one,
    of rows that live in memory. A DuckDB file keeps its keys to itself, since they may be made of what was appended.
    """

    number: int
    time: str
    kind: str
    size: int | None = None
    request: str | None = None
    batch: int = 0

    @classmethod
    def of(cls, note: Note) -> "Version":
        """The version that a note of the ledger records."""
        body = parsed(note.body, "body")
        size, request, batch = (body.get(name) for name in ("size", "request", "batch"))
        return cls(note.version, note.created, note.kind, size, request, batch or 0)


_NONE_YET: Final = Version(0, "", FOUND)


@dataclass(frozen=True)
class Arrivals:
    """The versions of a dataset in its ledger, and the rows that the ledger follows.

    Guarantee: a batch and its version are both there or neither is, once the dataset is open. Under one idempotency key
    no rows are added twice, wherever the process was killed. Two durable things are written, the rows and the note in
    the ledger, in two transactions. So one of them comes first, and the other follows from it later:

    - *A DuckDB file*: rows, number and idempotency key of a batch (`chary_batches`) in one transaction; then the note,
      which holds the number. Killed before the commit: neither is there, and the key is free. Killed between: every
      opening and append, by anybody, first notes the batches above the last number that was noted, in their order. A
      note is written only after the version that it was made for, so that two who do so write one. Killed after the
      note: both are there. An append under a key that `chary_batches` holds adds nothing and finds the version by the
      number.
    - *A folder of Parquet files*: a file is there before it is appended, and no append writes rows. Killed anywhere,
      the next opening lists it. Under its key it is then appended again without being read twice: the ledger's note of
      the key names its version, or else it gets one now.
    - *All others* live in memory, and are committed there only after their note. A kill takes the rows, of whom the
      ledger may hold a note; where the size is public, rows that are missing later are refused.

    With `upto` the rows are those as of that version, which is the last one.
    """

    ledger: Ledger
    dataset: str
    rows: Rows
    upto: int | None = None

    @classmethod
    def read_by(cls, spine: Spine) -> "Arrivals":
        """Those of the rows that a spine reads."""
        return cls(spine.ledger, spine.dataset, spine.rows, spine.version)

    def last(self) -> Version:
        """The latest version; number 0 if there is none yet."""
        if self.upto is not None:
            return self.numbered(self.upto)
        note = self.ledger.last_note(self.dataset)
        return _NONE_YET if note is None else Version.of(note)

    def all(self) -> list[Version]:
        """Every version, oldest first."""
        found = [Version.of(note) for note in self.ledger.notes(self.dataset)]
        return found if self.upto is None else [each for each in found if each.number <= self.upto]

    def numbered(self, number: int) -> Version:
        """The version of that number; 0 is what was there before the first, where its size is secret.

        `InvalidQuery` if there is none.
        """
        known = self.all()
        if number == 0 and not (known and known[0].kind == FOUND):
            return _NONE_YET
        found = [each for each in known if each.number == number]
        if not found:
            newest = known[-1].number if known else 0
            raise InvalidQuery(f"there is no version {number} of these rows: the newest is {newest}")
        return found[0]

    def as_of(self, number: int) -> RowTable:
        """The rows as they were at a version; `InvalidQuery` where there is none, or its rows cannot be told apart."""
        version, rows = self.numbered(number), self.rows
        if not isinstance(rows, RowTable):
            raise InvalidQuery("a table is read as of an earlier version; series and votes are read as they are now")
        if rows.keeps_batches:
            return rows.as_of(version.batch, version.size)
        # Whoever adds rows holds them until their version is noted.
        with rows.one_state():
            batches = [batch for batch, brought in rows.brought.items() if brought == number]
            if not batches:
                raise InvalidQuery(
                    "rows of that version are not known apart: they came before this opening, or by another session, "
                    "and these live in memory. A DuckDB file keeps which rows came with which version"
                )
            return rows.as_of(batches[0])

    def catch_up(self, size: int | None = None) -> None:
        """Give rows that have no version one; `LedgerMismatch` when rows are missing that the ledger knows of.

        `size` is how many there were, for rows that live in memory while a batch is being added to them.
        """
        _undisturbed(lambda: self._found(self._followed(), size))

    def arrive(self, batch: Batch) -> Version:
        """Give a batch just appended its version, and return it."""
        if self._kept is None:
            held = self._of_key(batch.request) if batch.found else None
            if held is not None:
                return held
            brought = _undisturbed(lambda: self._note(APPENDED, self.last(), batch.rows, batch.request))
            if isinstance(self.rows, RowTable):
                self.rows.brought[batch.number] = brought.number
            return brought
        last = _undisturbed(self._followed)
        return last if (last.kind, last.batch) == (APPENDED, batch.number) else self.of(batch)

    def of(self, batch: Batch) -> Version:
        """The version that an earlier batch brought: found by its number in a file, by its idempotency key
        elsewhere."""
        kept = self._kept is not None
        brought = [version for version in self.all() if version.kind == APPENDED]
        same = [each for each in brought if (each.batch == batch.number if kept else each.request == batch.request)]
        return same[0 if kept else -1]

    def _of_key(self, request: str | None) -> Version | None:
        """The version of an append under this key, also of one by an earlier session."""
        same = [version for version in self.all() if version.kind == APPENDED and version.request == request]
        return same[-1] if same else None

    @property
    def _kept(self) -> RowTable | None:
        return self.rows if isinstance(self.rows, RowTable) and self.rows.keeps_batches else None

    def _followed(self) -> Version:
        """The latest version, once every batch of a file has one."""
        last = self.last()
        if self._kept is None:
            return last
        batches = self._kept.batches(max(0, last.batch - 1))
        if last.batch and (not batches or batches[0].number != last.batch):
            raise LedgerMismatch(
                f"the ledger knows {last.batch} batches of rows that were appended to this file, which has fewer: was "
                "an older copy restored, or a copy made without its table chary_batches?"
            )
        for batch in batches[1 if last.batch else 0 :]:
            last = self._note(APPENDED, last, batch.rows, batch=batch.number)
        return last

    def _found(self, last: Version, before: int | None) -> None:
        if has_public_size(self.rows.neighbor_relation):
            size = public_size(self.rows) if before is None or self._kept else before
            if size != last.size:
                self._note(FOUND, last, size)

    def _note(
        self, kind: str, last: Version, size: int, request: str | None = None, batch: int | None = None
    ) -> Version:
        public = size if has_public_size(self.rows.neighbor_relation) else None
        if public is not None and public < (last.size or 0):
            raise LedgerMismatch(
                f"the ledger saw {last.size} rows of {self.dataset!r} and these are {public}: a stream never shrinks. "
                "Open it with all its rows, those that were appended in an earlier session too"
            )
        said = {"size": public, "request": request, "batch": batch or last.batch or None}
        body = canonical({name: value for name, value in said.items() if value is not None})
        number = self.ledger.note(self.dataset, kind, body, after=last.number)
        return Version(number, "", kind, public, request, batch or last.batch)


class Follower:
    """Brings ledgers of one session up to the rows with which it began."""

    def __init__(self, dataset: str, rows: Rows) -> None:
        self._dataset, self._rows = dataset, rows
        self._begun: list[Note] | None = None

    def follow(self, ledger: Ledger) -> None:
        """Give the rows of the opening a version in this ledger, unless they have one.

        The first call, at the opening, looks at the rows. Later calls, for another ledger, repeat what that found.
        """
        arrivals, begun = Arrivals(ledger, self._dataset, self._rows), self._begun
        if begun is None:
            arrivals.catch_up()
            self._begun = ledger.notes(self._dataset)
            if isinstance(self._rows, RowTable):
                self._rows.brought[0] = arrivals.last().number
            return
        try:
            for number, note in enumerate(begun):
                ledger.note(self._dataset, note.kind, note.body, after=number)
        except VersionMoved:  # others opened the dataset before; rows with which they began may have grown since
            if isinstance(self._rows, RowTable):
                self._rows.brought.clear()  # versions have other numbers there
            if begun[-1].body not in {note.body for note in ledger.notes(self._dataset)}:
                arrivals.catch_up(Version.of(begun[-1]).size)


def _undisturbed(work: Callable[[], _T]) -> _T:
    """Repeat what others disturbed by recording a version in between."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except VersionMoved:
            continue
    return work()
