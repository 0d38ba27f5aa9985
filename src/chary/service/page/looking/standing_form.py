"""The form by which a question is left standing: its fields as the body that the interface takes."""

from collections.abc import Mapping
from typing import Any, Final

from chary.errors import CharyError, InvalidParameter
from chary.service.page.frame.posted_forms import Posted
from chary.service.standing.standing_book import APPEND
from chary.service.wire.strict_json import parsed_body

# What people mostly let stand; everything else is said as JSON.
KINDS: Final[Mapping[str, str]] = {
    "watch": "which groups reach a threshold",
    "test": "whether a number reaches a threshold",
    "release_if": "a number, once it reaches a threshold",
}
USUAL: Final[Mapping[str, str]] = {
    "kind": "watch",
    "where": "",
    "column": "",
    "keys": "",
    "above": "",
    "hits": "20",
    "call": "",
    "every": APPEND,
    "at": "",
    "share": "0.1",
    "tell": "hits",
    "webhook": "",
}
# Words of an error that tell which field it is about, the first that fits.
_ABOUT: Final[tuple[tuple[str, str], ...]] = (
    ("crontab", "at"),
    ("never comes", "at"),
    ("share", "share"),
    ("webhook", "webhook"),
    ("unknown column", "where"),
    ("keys", "keys"),
    ("above", "above"),
    ("hits", "hits"),
    ("body", "call"),
)


def standing_body(form: Posted, schema: Mapping[str, str]) -> dict[str, Any]:
    """The body of a standing question, as `POST /standing` takes it; `InvalidParameter` for what it cannot be."""
    said = form.text("call")
    call = parsed_body(said.encode()) if said else _call(form, schema)
    every = APPEND if form.text("every") == APPEND else form.text("at")
    told = {"call": call, "every": every, "share": form.text("share"), "tell": form.text("tell") or "hits"}
    return told | {"webhook": form.text("webhook") or None}


def field_about(error: CharyError) -> str:
    """The field that an error is about; empty for one about the question as a whole.

    >>> field_about(InvalidParameter("share must lie between 0 and 1"))
    'share'
    """
    told = str(error)
    predicate = type(error).__name__ == "InvalidPredicate"
    return "where" if predicate else next((field for word, field in _ABOUT if word in told), "")


def _call(form: Posted, schema: Mapping[str, str]) -> dict[str, Any]:
    if form.text("kind") not in KINDS:
        raise InvalidParameter(f"what stands is one of {', '.join(KINDS)}")
    query: dict[str, Any] = {"kind": "count", "where": form.text("where") or None}
    if form.text("kind") == "watch":
        query["by"] = {"columns": [form.text("column")], "keys": _keys(form, schema)}
    hits = form.text("hits")
    return {
        "kind": form.text("kind"),
        "query": query,
        "above": form.text("above"),
        "hits": int(hits) if hits.isascii() and hits.isdigit() else hits,
    }


def _keys(form: Posted, schema: Mapping[str, str]) -> list[list[str | int]]:
    """The groups that were listed, of the type of their column."""
    column, listed = form.text("column"), [key.strip() for key in form.text("keys").split(",")]
    if column not in schema or not any(listed):
        raise InvalidParameter("say the column of the groups, and list their keys: they are public")
    if schema[column] != "int64":
        return [[key] for key in listed]
    try:
        return [[int(key)] for key in listed]
    except ValueError:
        pass
    raise InvalidParameter("the keys of this column are whole numbers, such as 1, 2, 3")
