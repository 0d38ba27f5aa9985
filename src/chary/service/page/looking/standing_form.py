"""The form by which a question is left standing: its fields as the body that the interface takes."""

from collections.abc import Mapping
from typing import Any, Final

from chary.errors import CharyError
from chary.service.api.places import Asking
from chary.service.api.standing_routes import wish_of
from chary.service.page.frame.posted_forms import Posted
from chary.service.page.looking.alarms_over_time import asked_told
from chary.service.standing.standing_book import APPEND
from chary.service.standing.standing_runner import quote_of
from chary.service.wire.problems import problem
from chary.service.wire.strict_json import parsed_body

USUAL: Final[Mapping[str, str]] = {
    "asked": "",
    "every": APPEND,
    "at": "",
    "share": "0.1",
    "tell": "hits",
    "webhook": "",
}
# Words of an error that tell which field it is about, the first that fits.
_ABOUT: Final[tuple[tuple[str, str], ...]] = (
    ("what stands", "asked"),
    ("crontab", "at"),
    ("never comes", "at"),
    ("share", "share"),
    ("webhook", "webhook"),
)


def standing_body(form: Posted) -> dict[str, Any]:
    """The body of a standing question, as `POST /standing` takes it; `InvalidParameter` for what is no JSON."""
    every = APPEND if form.text("every") == APPEND else form.text("at")
    told = parsed_body(form.text("asked").encode()) | {"every": every, "share": form.text("share")}
    return told | {"tell": form.text("tell") or "hits", "webhook": form.text("webhook") or None}


def field_about(error: CharyError) -> str:
    """The field that an error is about.

    >>> field_about(CharyError("share must lie between 0 and 1")), field_about(CharyError("unknown column"))
    ('share', 'asked')
    """
    return next((field for word, field in _ABOUT if word in str(error)), "asked")


def told_now(on: Asking, asked: str) -> tuple[list[str], dict[str, Any] | None]:
    """What is to stand in words with what it would cost if it were asked now; and why it cannot be asked, if so."""
    if not asked:
        return [], None
    try:
        wish = wish_of(parsed_body(asked.encode()))
        quoted = quote_of(on.served, on.who, on.served.asked_by(on.who.analyst), wish)
    except CharyError as error:
        return [], problem(error)
    return [asked_told(wish), *quoted.lines()], None
