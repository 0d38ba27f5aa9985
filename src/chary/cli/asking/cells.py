"""Public columns, their keys and their cells, as options say them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from chary.data import Bins, Universe, parse_keys
from chary.data.columns import classify
from chary.data.queries.keys import key_text
from chary.errors import InvalidParameter


def universe(schema: Mapping[str, str], bins: Sequence[str], values: Sequence[str], no_missing: bool) -> Universe:
    """The universe of `--bins` and `--values` options."""
    columns: dict[str, Any] = {name: Bins([edge.strip() for edge in text.split(",")]) for name, text in _cut(bins)}
    columns |= listed(schema, values)
    if not columns or len(columns) < len(bins) + len(values):
        raise InvalidParameter("name every column once, by --bins age=0,18,65,120 or by --values sex=f,m")
    return Universe(columns, missing=not no_missing)


def listed(schema: Mapping[str, str], values: Sequence[str]) -> dict[str, list[Any]]:
    """The columns of `--values` options with their public values."""
    split = [_split(option, "--values sex=f,m") for option in values]
    return {name: keys_of(text, str(classify(dict(schema), name)), name) for name, text in split}


def ranges(texts: Sequence[str]) -> dict[str, list[str]]:
    """The columns of `--range` options with their two ends."""
    split = [_split(option, "--range age=0,90") for option in texts]
    found = {name: [end.strip() for end in text.split(",")] for name, text in split}
    if not found or len(found) < len(split):
        raise InvalidParameter("name every column once, by --range age=0,90")
    return found


def lines_of(place: str) -> Iterator[str]:
    """The lines of a file that are not empty, as they come; `-` is the standard input.

    Errors: `InvalidParameter` for a file that is no text; the message tells nothing that is in it.
    """
    try:
        with nullcontext(sys.stdin) if place == "-" else open(place, encoding="utf-8") as opened:
            yield from filter(None, map(str.strip, opened))
    except UnicodeDecodeError:
        raise InvalidParameter(f"{place} is no text in UTF-8") from None


def listed_lines(texts: Sequence[str]) -> list[str]:
    """Texts as they were typed, where @FILE stands for the lines of a file."""
    return [line for text in texts for line in (lines_of(text[1:]) if text[:1] == "@" else [text])]


def keys_of(text: str, type: str, column: str) -> list[Any]:
    """The public keys of an option for a column: a list, a range, or those of a file, one a line."""
    if not text.startswith("@"):
        return list(parse_keys(text, type, column))
    # A line is one key, commas and all, and not a list.
    quoted = (line if line.startswith('"') else key_text(line) for line in lines_of(text[1:]))
    return [key for line in quoted for key in parse_keys(line, type, column)]


def _cut(bins: Sequence[str]) -> list[tuple[str, str]]:
    return [_split(option, "--bins age=0,18,65,120") for option in bins]


def _split(option: str, example: str) -> tuple[str, str]:
    name, equals, text = option.partition("=")
    if not equals:
        raise InvalidParameter(f"write {example}")
    return name.strip(), text
