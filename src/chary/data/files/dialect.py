"""How a CSV is written: said by the caller, never guessed from what is in it."""

from dataclasses import asdict, dataclass
from typing import Any

from chary.errors import InvalidParameter

# In all of them LF is a byte of no other character, so that lines end before they are decoded; not so in UTF-16.
ENCODINGS = ("utf-8", "latin-1", "cp1252")


@dataclass(frozen=True, kw_only=True)
class CSV:
    """How a CSV is written. The defaults are those of RFC 4180, with dates as in ISO 8601; tabs in a `.tsv` file.

    - Each line is a record, ended by LF or CR LF; an empty line is none. So a cell cannot hold a line break, quoted or
      not: if it could, one quote would decide how the records after it are read.
    - A cell in `quote`s may hold the delimiter, and `escape` before a quote (or another escape) takes its meaning away.
      Quotes that do not enclose a whole cell are ordinary characters. `quote=None`: all of them are.
    - `header`: the first line names the columns; without one `columns=` names all of them, in order.
    - A cell equal to `null`, one that is missing, and one whose bytes are no text in the `encoding` are NULL. Cells
      beyond the columns are left out.
    - Types are declared with `columns=`, else every column is text. A cell that is not of its column's type is NULL:
      whole numbers (98 and 98.0, not 98.7), numbers with `decimal` before the fraction (-1.5, 2e3), booleans
      (true/false, t/f, yes/no, y/n, 1/0), dates and times by `date_format` and `timestamp_format` (codes of strptime).
      Blanks around a cell matter in text alone.
    - Without a format, days and times are those of ISO 8601: YYYY-MM-DD[ HH:MM[:SS[.fff]]], with a blank or a T, up to
      nine digits of a second (kept to microseconds), and Z or an offset behind the time (+01:00, +0100, +01). A
      TIMESTAMP with Z or an offset is converted into UTC; one without is taken as it stands. A DATE is the day that is
      written: a time behind it is cut off, and no offset moves it.

    Guarantee: what a row becomes follows from its own line, the header, the declared types and this dialect, and from
    no other line, whatever bytes there are. `InvalidParameter` for characters that could be taken for one another.

    >>> CSV(delimiter=";", decimal=",").delimiter
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
    def of(cls, path: str) -> "CSV":
        """The dialect of a file about which nothing is said: by its name."""
        return cls(delimiter="\t") if ".tsv" in path.lower()[-len(".tsv.zst") :] else cls()

    def body(self) -> dict[str, Any]:
        """A JSON-able description of all of it."""
        return asdict(self)


def _is_sign(sign: Any) -> bool:
    # A letter, a digit or a blank could be a part of what is written in a cell.
    return isinstance(sign, str) and len(sign) == 1 and sign.isascii() and not sign.isalnum() and sign not in " \r\n\0."
