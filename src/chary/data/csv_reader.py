"""CSV files: the dialect and a reader that takes each line by itself, whatever the other lines hold."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chary.errors import InvalidParameter, SchemaMismatch

# How a CSV is written: said by the caller, never guessed from what is in it.

# In all of them LF is a byte of no other character, so that lines end before they are decoded; not so in UTF-16.
ENCODINGS = ("utf-8", "latin-1", "cp1252")


@dataclass(frozen=True, kw_only=True)
class CSVFormat:
    """How a CSV is written. The defaults are those of RFC 4180, with dates as in ISO 8601; tabs in a `.tsv` file.

    - Each line is a record, ended by LF or CR LF; an empty line is none. So a cell cannot hold a line break, quoted or
      not: if it could, one quote would decide how the records after it are read.
    - A cell in `quote`s may hold the delimiter, and `escape` before a quote (or another escape) takes its meaning away.
      Quotes that do not enclose a whole cell are ordinary characters. `quote=None`: all of them are.
    - `header`: the first line names the columns; without one `columns=` names all of them, in order.
    - A cell equal to `null`, one that is missing, and one whose bytes are no text in the `encoding` are NULL. Cells
      beyond the columns are left out.
    - Types are declared with `columns=`, else every column is text. A cell that is not of its column's type is NULL.
      Types are integers (98 and 98.0, not 98.7), numbers with `decimal` before the fraction (-1.5, 2e3) and booleans
      (true/false, t/f, yes/no, y/n, 1/0). Dates and times go by `date_format` and `timestamp_format` (codes of
      strptime). Blanks around a cell matter in text alone.
    - Without a format, days and times are those of ISO 8601: YYYY-MM-DD[ HH:MM[:SS[.fff]]], with a blank or a T. They
      have up to nine digits of a second (kept to microseconds), and Z or an offset behind the time (+01:00, +0100,
      +01). A TIMESTAMP with Z or an offset is converted into UTC; one without is taken as it stands. A DATE is the day
      that is written: a time behind it is cut off, and no offset moves it.

    Guarantee: what a row becomes follows from its own line, the header, the declared types and this dialect, and from
    no other line, whatever bytes there are. `InvalidParameter` for characters that could be taken for one another.

    >>> CSVFormat(delimiter=";", decimal=",").delimiter
    ';'
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str = '"'
    header: bool = True
    null: str = ""
    decimal: str = "."
    date_format: str | None = None
    timestamp_format: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        signs = [self.delimiter, *([] if self.quote is None else [self.quote, self.escape])]
        if not all(_is_sign(sign) for sign in signs) or self.delimiter in signs[1:]:
            raise InvalidParameter("delimiter, quote and escape are single ASCII characters, unlike the delimiter")
        if self.decimal not in (".", ","):
            raise InvalidParameter("decimal is '.' or ','")
        if self.encoding not in ENCODINGS:
            raise InvalidParameter(f"encoding is one of {', '.join(ENCODINGS)}")
        if not isinstance(self.null, str) or not isinstance(self.header, bool):
            raise InvalidParameter("null is a text, such as null='NA', and header True or False")
        for name in ("date_format", "timestamp_format"):
            form = getattr(self, name)
            if form is not None and (not isinstance(form, str) or "%" not in form):
                raise InvalidParameter(f"{name} is a format such as '%d.%m.%Y'")

    @classmethod
    def of(cls, path: str) -> "CSVFormat":
        """The default dialect of a file, which follows from its name."""
        return cls(delimiter="\t") if ".tsv" in path.lower()[-len(".tsv.zst") :] else cls()

    def body(self) -> dict[str, Any]:
        """A JSON-able description of all of it."""
        return asdict(self)


def _is_sign(sign: Any) -> bool:
    # A letter, a digit or a blank could be a part of what is written in a cell.
    return isinstance(sign, str) and len(sign) == 1 and sign.isascii() and not sign.isalnum() and sign not in " \r\n\0."


# The cells of a CSV as strings: each line is read by itself.

Cells = list[str | None]
# Bytes of text that are handled at once: enough for vectors to pay, little enough for several copies in memory.
_BLOCK: Final = 2**20
# Python decodes a byte that is no text in an encoding into one of these, which no text in it can hold.
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
# The library takes CR for the end of a record.
_UNSURE: Final = re.compile("[\r\udc80-\udcff]")
_BOM: Final = "\ufeff"
_PACKED: Final = {"gz": "gzip", "zst": "zstd"}


def read_texts(paths: Sequence[str], dialect: CSVFormat, names: Sequence[str]) -> pa.Table:
    """All cells of files with the same columns, in their order, as an Arrow table of strings and NULL.

    Without a header `names` are the columns. `SchemaMismatch` if a header is missing or differs from the first one's.
    """
    parts = [_of_file(path, dialect, names) for path in paths]
    if any(part.column_names != parts[0].column_names for part in parts):
        raise SchemaMismatch("the files do not have the same columns in the same order")
    return pa.concat_tables(parts)


def record(line: str, dialect: CSVFormat) -> Cells:
    """The cells of one line; the one reader of lines with quotes, or with bytes that are no text.

    >>> record('1,"a, b","5" tall,"', CSVFormat())
    ['1', 'a, b', '"5" tall', '"']
    """
    return _reader(dialect)(line)


def _of_file(path: str, dialect: CSVFormat, names: Sequence[str]) -> pa.Table:
    lines = _blocks(path, dialect.encoding)
    columns, rest = _header(lines, dialect) if dialect.header else (list(names), lines)
    blocks = [_columns(block, dialect, len(columns)) for block in rest]
    schema = pa.schema([(name, pa.string()) for name in columns])
    return pa.Table.from_batches([pa.record_batch(block, schema) for block in blocks], schema)


def _header(blocks: Iterator[list[str]], dialect: CSVFormat) -> tuple[list[str], Iterable[list[str]]]:
    first = next((block for block in blocks if block), [])
    named = _named([cell or "" for cell in record(first[0], dialect)]) if first else []
    if not named:
        raise SchemaMismatch("the file is empty: its first line must name the columns")
    return named, chain([first[1:]], blocks)


def _named(cells: list[str]) -> list[str]:
    """Names for columns without one, and other names for those that have the name of an earlier column."""
    taken: list[str] = []
    for place, cell in enumerate(cells):
        name = first = cell or f"column{place:0{len(str(len(cells) - 1))}d}"
        again = 0
        while name.lower() in map(str.lower, taken):
            again += 1
            name = f"{first}_{again}"
        taken.append(name)
    return taken


def _blocks(path: str, encoding: str) -> Iterator[list[str]]:
    """The lines of a file without their ends, some at a time, empty ones left out."""
    first = True
    for block in _whole_lines(path):
        # The ends of lines are found before decoding and stay what they are: no byte of a longer character is LF.
        text = block.decode(encoding, "surrogateescape")
        lines = text.split("\n")
        if first:
            lines[0], first = lines[0].removeprefix(_BOM), False
        if "\r" in text:
            lines = [line.removesuffix("\r") for line in lines]
        yield list(filter(None, lines))


def _whole_lines(path: str) -> Iterator[bytes]:
    kept: list[bytes] = []
    with pa.input_stream(path, compression=_PACKED.get(path.rpartition(".")[2].lower())) as stream:
        while block := stream.read(_BLOCK):
            whole, end, rest = block.rpartition(b"\n")
            if end:
                yield b"".join([*kept, whole])
                kept = []
            kept.append(rest)
    if any(kept):
        yield b"".join(kept)


def _columns(lines: list[str], dialect: CSVFormat, width: int) -> list[Any]:
    """Lines as columns: most of them all at once, and those that need care one by one."""
    some = _is_odd("".join(lines), dialect.quote)
    odd = [place for place, line in enumerate(lines) if _is_odd(line, dialect.quote)] if some else []
    there = set(odd)
    plain = [line for place, line in enumerate(lines) if place not in there] if odd else lines
    columns = _split(plain, dialect.delimiter, width)
    if odd:
        order = np.argsort(np.concatenate([np.delete(np.arange(len(lines)), odd), odd]), kind="stable")
        slow = _turned(_records([lines[place] for place in odd], dialect), width)
        columns = [pa.concat_arrays(both).take(pa.array(order)) for both in zip(columns, slow, strict=True)]
    return [pc.if_else(pc.equal(column, dialect.null), pa.scalar(None, pa.string()), column) for column in columns]


def _turned(rows: list[Any], width: int) -> list[Any]:
    even = [row if len(row) == width else [*row[:width], *[None] * (width - len(row))] for row in rows]
    return [pa.array(column, pa.string()) for column in zip(*even, strict=True)]


def _records(lines: list[str], dialect: CSVFormat) -> list[Any]:
    rows = _well_formed(lines, dialect)
    return list(map(_reader(dialect), lines)) if rows is None else rows


def _well_formed(lines: list[str], dialect: CSVFormat) -> list[list[str]] | None:
    """The cells of lines that are all well-formed, or None where that is not certain.

    The library reads them as `record` does, only faster. Where there are as many records as lines each line was read by
    itself. For a quote that is left open takes the next line in, and anything else that is odd fails.
    """
    if dialect.quote is None or dialect.escape != dialect.quote or any(map(_UNSURE.search, lines)):
        return None
    try:
        rows = list(csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote, strict=True))
    except csv.Error:
        return None
    return rows if len(rows) == len(lines) else None


def _is_odd(line: str, quote: str | None) -> bool:
    return (quote is not None and quote in line) or (not line.isascii() and _NO_TEXT.search(line) is not None)


def _split(lines: list[str], delimiter: str, width: int) -> list[Any]:
    """The first cells of lines in which every delimiter parts two cells; NULL where there are too few."""
    cells = pc.split_pattern(pa.array(lines, pa.string()), delimiter)
    starts = cells.offsets.to_numpy()
    counts = np.diff(starts)
    return [cells.values.take(pa.array(starts[:-1] + place, mask=counts <= place)) for place in range(width)]


def _reader(dialect: CSVFormat) -> Callable[[str], Cells]:
    delimiter, quote, escape = (re.escape(sign or "") for sign in (dialect.delimiter, dialect.quote, dialect.escape))
    if dialect.quote is None:
        return lambda line: [_text(cell) for cell in line.split(dialect.delimiter)]
    within = (
        f"[^{quote}]++|{quote * 2}" if quote == escape else f"[^{quote}{escape}]++|{escape}[{quote}{escape}]|{escape}"
    )
    # The delimiter is set behind the line as well, so that each cell is what stands before one.
    cells = re.compile(f"(?:{quote}((?:{within})*+){quote}|([^{delimiter}]*+)){delimiter}", re.DOTALL)
    escaped = re.compile(f"{escape}([{quote}{escape}])")
    return partial(_cells, cells, escaped, dialect)


def _cells(cells: re.Pattern[str], escaped: re.Pattern[str], dialect: CSVFormat, line: str) -> Cells:
    found = cells.findall(line + dialect.delimiter)
    if dialect.escape in line:
        return [_text(escaped.sub(r"\1", quoted) if quoted else bare) for quoted, bare in found]
    return [_text(quoted or bare) for quoted, bare in found]


def _text(cell: str) -> str | None:
    return cell if cell.isascii() or _NO_TEXT.search(cell) is None else None
