"""`chary append`: rows that arrive are added to a table, each batch once, whole or not at all."""

import glob
import hashlib
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import typer
from pyarrow import feather

from chary.calls import Alert
from chary.cli import answers, commands, output
from chary.cli.rows import ROWS, Stated, on_rows
from chary.cli.session import dialect
from chary.data import RowTable
from chary.data.columns import SQL_TYPES
from chary.data.source import ENDINGS
from chary.data.spool import spool_folder
from chary.data.table import NOT_PRIVATE, check
from chary.errors import CharyError, EngineError, InvalidParameter, LedgerLocked, OwnerWarning, SchemaMismatch
from chary.session import Session
from chary.session.session import appended

Batches = Annotated[
    list[str] | None,
    typer.Argument(help="CSV, Parquet or Arrow files, or patterns such as 'day-*.csv'; - is a CSV on standard input."),
]
Watch = Annotated[Path | None, typer.Option(help="Then append every new file of this folder, until Ctrl-C.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Append nothing; print rows and cells that do not parse. NOT PRIVATE."),
]
Again = Annotated[
    str | None,
    typer.Option(help="Append contents again that were appended before without --request; KEY makes this repeatable."),
]
Alerts = Annotated[
    bool, typer.Option("--alerts", help="Then ask every alert about the new versions; a change is charged.")
]
_PAUSE: Final = 0.5
# What programs call a file that they still write.
_UNFINISHED: Final = (".", "~", "_")
_ARROW: Final = (".arrow", ".feather")
_TAKEN: Final = (*ENDINGS["csv"], *ENDINGS["parquet"], *_ARROW)


class Arrived(NamedTuple):
    """A batch: what it is called, its file, and its key: that of its contents, or the one that was said."""

    name: str
    file: Path
    key: str


def _append(
    stated: Stated,
    *,
    batch: Batches = None,
    watch: Watch = None,
    dry_run: DryRun = False,
    again: Again = None,
    alerts: Alerts = False,
) -> commands.Found:
    """Add batches of rows to a table of a DuckDB file or a server, each once: by its contents, or by a key.

    A batch is added whole or not at all, also when the machine dies, and nothing is charged. Without `--request` the
    contents decide: those that this command added without `--request` are not added again, whatever the file is called.
    So a row may decide whether a batch is new. Where two batches could be equal but for one unit, give each a key.
    With `--request KEY` the key alone decides, as in a session and a service. Neither way knows the batches of the
    other, so name a batch in one way only. Cells that cannot be read become NULL and are counted. What fails is
    reported, and batches before it stay; a folder that is watched goes on, and takes a file again once it is another.

    Example: chary append meters.duckdb week-*.csv --table readings --unit home --budget-epsilon 1 --budget-delta 1e-6
    """
    if not batch and watch is None:
        raise InvalidParameter("name files to append, such as week-12.csv, or a folder to watch, --watch DIR")
    if dry_run and (watch is not None or alerts):
        raise InvalidParameter("--dry-run looks at files that are there: leave --watch and --alerts out")
    names, request = list(_named(batch or ())), stated.request
    if request is not None and (len(names) != 1 or watch is not None or again is not None):
        raise InvalidParameter("--request is the key of one batch: name one file, and leave --watch and --again out")
    with ExitStack() as opened:
        files = [opened.enter_context(_arrived(name, again, request)) for name in names]
        yield from _looked(stated, files) if dry_run else _added(stated, files, watch, again, alerts)


def _added(
    stated: Stated, files: Sequence[Arrived], watch: Path | None, again: str | None, alerts: bool
) -> commands.Found:
    rows = stated.session.spine.rows
    if not (isinstance(rows, RowTable) and rows.keeps_batches):
        raise InvalidParameter(
            f"rows that are appended to {stated.source.shown} would be gone with this command. Append to a table of a "
            "DuckDB file or a server; a folder of Parquet files takes a new file by itself"
        )
    if files:
        yield _told(stated, [_one(stated, arrived) for arrived in files], alerts)
    if watch is not None:
        with suppress(KeyboardInterrupt):
            for file in _coming(watch):
                if told := _taken(stated, file, again):
                    yield _told(stated, told, alerts)


def _told(stated: Stated, added: list[dict[str, Any]], alerts: bool) -> commands.Shown:
    """What was added, and with `alerts` what alerts tell of it."""
    session = stated.session
    figures: dict[str, Any] = {"appended": added, "version": _version(session)}
    if alerts:
        known = [each.call for each in session.runs if each.kind == Alert.kind]
        figures["alerts"] = [row for number in known for row in _asked(session, number)]
    return commands.Shown(figures, partial(_show, by_key=stated.request is not None))


def _asked(session: Session, number: int) -> Iterator[dict[str, Any]]:
    """What an alert says of versions that it has not looked at; a refusal is reported too, since the rows are
    there."""
    alert, refused = session.resume(number), None
    before = len(alert.state.results)
    try:
        alert.follow()
    except CharyError as error:
        refused = str(error)
    for told in alert.state.results[before:]:
        yield {"run": number} | answers.figures(told, Alert.kind)
    if refused is not None:
        yield {"run": number, "refused": refused}


def _taken(stated: Stated, file: Path, again: str | None) -> list[dict[str, Any]]:
    """A file of a folder that is watched, as it was added; it waits for anyone who holds the table, and what is wrong
    with it stops no other file."""
    waiting = False
    while True:
        try:
            with _arrived(str(file), again) as arrived:
                return [_one(stated, arrived)]
        except (SchemaMismatch, InvalidParameter, EngineError, LedgerLocked) as error:
            told, passes = str(error), isinstance(error, (EngineError, LedgerLocked))
        if not waiting:
            stated.rest()
            output.errors.print(f"chary: {told}", markup=False, soft_wrap=True)
        if not passes:
            return []
        waiting = True
        time.sleep(_PAUSE)


def added(session: Session, name: str, rows: Any, key: str | None) -> dict[str, Any]:
    """A batch of this name added, or found again under its key: its version, and whether it is new."""
    last = _version(session)
    try:
        version, unparsed = appended(session, rows, key)
    except SchemaMismatch as mismatch:
        raise SchemaMismatch(f"{name}: {mismatch}") from None
    # Apart from the figures, which may be published: exact counts are for who owns the rows alone.
    for column, each in unparsed.items():
        warnings.warn(f"{name}, version {version}, {each.told(column)}", OwnerWarning, stacklevel=2)
    return {"file": name, "version": version, "new": version > last}


def _one(stated: Stated, arrived: Arrived) -> dict[str, Any]:
    return added(stated.session, arrived.name, _rows_of(arrived), arrived.key)


def _rows_of(arrived: Arrived) -> Any:
    """A file that a session reads by itself, or a table of an Arrow file."""
    if arrived.file.suffix.lower() not in _ARROW:
        return str(arrived.file)
    try:
        return feather.read_table(arrived.file)
    except (pa.ArrowException, OSError):
        raise SchemaMismatch("this is no Arrow file") from None


def _version(session: Session) -> int:
    versions = session.versions
    return versions[-1].number if versions else 0


def _looked(stated: Stated, files: Sequence[Arrived]) -> commands.Found:
    """What would be appended: exact figures, for who owns the rows."""
    schema = stated.session.schema
    types = {name: SQL_TYPES.get(kind, kind.upper()) for name, kind in schema.items()}
    said, found = stated.source, []
    for arrived in files:
        texts = arrived.file.name.lower().endswith(ENDINGS["csv"])
        read: dict[str, Any] = {"columns": types, "csv": dialect(said.csv_format)} if texts else {}
        try:
            looked = check(_rows_of(arrived), **read)
        except CharyError as error:
            raise SchemaMismatch(f"{arrived.name}: {error}") from None
        unparsed = {name: cells for name in looked.types if (cells := looked.as_dict()["columns"][name]["unparsed"])}
        same = sorted(looked.types) == sorted(schema)
        row = {"file": arrived.name, "rows": looked.rows, "columns_as_expected": same, "unparsed": unparsed}
        table, outside = stated.session.spine.rows, dict[str, int]()
        if isinstance(table, RowTable) and table.blocks is not None and same:
            outside["in_no_block"] = table.unread(_rows_of(arrived))
        found.append(row | outside)
    yield commands.Shown({"dry_run": found, "note": NOT_PRIVATE}, _show_look)


# Batches by name: files, patterns, standard input, and what comes into a folder.


def _named(batches: Sequence[str]) -> Iterator[str]:
    for name in batches:
        found = sorted(glob.glob(name)) if glob.has_magic(name) and not Path(name).exists() else [name]
        if not found:
            raise InvalidParameter(f"no file fits {name}")
        yield from found


@contextmanager
def _arrived(name: str, again: str | None, request: str | None = None) -> Iterator[Arrived]:
    """The file of a batch, and its key. The key of its contents could confirm a guess of the rows, so it stays next to
    them in the DuckDB file."""
    with ExitStack() as held:
        file = Path(name)
        if name == "-":
            file = held.enter_context(spool_folder()) / "rows.csv"
            with file.open("wb") as written:
                shutil.copyfileobj(sys.stdin.buffer, written)
        try:
            with file.open("rb") as opened:
                contents = hashlib.file_digest(opened, "sha256")
        except OSError:
            raise InvalidParameter(f"there is no file {name} to append, or none that can be read") from None
        contents.update(b"" if again is None else b"\0" + again.encode())
        yield Arrived(name, file, f"chary append {contents.hexdigest()}" if request is None else request)


def _coming(folder: Path) -> Iterator[Path]:
    """Each file that comes into a folder, once it rests, in the order of their names; again where it has changed."""
    if not folder.is_dir():
        raise InvalidParameter(f"there is no folder {folder} to watch")
    seen: dict[Path, tuple[int, int]] = {}
    done: dict[Path, tuple[int, int]] = {}
    while True:
        there = dict(_resting(folder))
        for file, state in there.items():
            if seen.get(file) == state != done.get(file):
                done[file] = state
                yield file
        seen = there
        time.sleep(_PAUSE)


def _resting(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """The files of rows in a folder, and by what a change of each shows; one may be moved away meanwhile."""
    for file in sorted(folder.iterdir()):
        if file.name.lower().endswith(_TAKEN) and not file.name.startswith(_UNFINISHED):
            with suppress(FileNotFoundError):
                state = file.stat()
                yield file, (state.st_size, state.st_mtime_ns)


def _show(figures: dict[str, Any], *, by_key: bool) -> None:
    rows = [
        [told["file"], told["version"], "appended" if told["new"] else "came before"] for told in figures["appended"]
    ]
    output.show_table(["file", "version", ""], rows)
    for told in figures.get("alerts", ()):
        output.show_tables(told)
    if not by_key and not all(told["new"] for told in figures["appended"]):
        output.errors.print("--again KEY appends contents that came before once more", markup=False)


def _show_look(figures: dict[str, Any]) -> None:
    output.console.print(figures["note"], style="bold", soft_wrap=True)
    for told in figures["dry_run"]:
        wrong = ", ".join(f"{name} {cells:,}" for name, cells in told["unparsed"].items()) or "none"
        same = "" if told["columns_as_expected"] else "; OTHER COLUMNS than the table has"
        closed = told.get("in_no_block", 0)
        unseen = f"; {closed:,} ROWS IN NO BLOCK that may be read, which no question would see" if closed else ""
        line = f"{told['file']}: {told['rows']:,} rows; cells that do not parse: {wrong}{unseen}{same}"
        output.console.print(line, markup=False, soft_wrap=True)


append = on_rows(_append, ROWS, "append")
