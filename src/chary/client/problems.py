"""Problems on the wire: errors as documents, and documents as errors."""

import re
from typing import Any, Final

import chary.errors
from chary.errors import (
    AlgorithmFailed,
    BudgetRefused,
    CharyError,
    EngineFailure,
    InvalidInput,
    LedgerBusy,
    LedgerError,
    RequestConflict,
    RequestInFlight,
    UnknownHeld,
)

MEDIA: Final = "application/problem+json"
_PREFIX: Final = "urn:chary:problem:"
# The first that fits; what is not listed is what nobody foresaw.
_STATUS: Final[tuple[tuple[type[CharyError], int], ...]] = (
    (UnknownHeld, 404),
    (InvalidInput, 422),
    (RequestConflict, 422),
    (RequestInFlight, 409),
    (BudgetRefused, 409),
    (AlgorithmFailed, 422),
    (LedgerBusy, 503),
    (LedgerError, 503),
    (EngineFailure, 503),
)
TITLES: Final = {
    400: "The request is malformed",
    401: "A token is needed",
    403: "This token may not do that",
    404: "There is no such thing",
    405: "This is not done there",
    408: "The request came too slowly",
    409: "This does not fit now",
    413: "The request is too large",
    415: "The body is not JSON",
    421: "This is not the host",
    422: "The request cannot be right",
    429: "Too many requests",
    500: "Something unforeseen happened",
    503: "Not now",
}


class Refusal(CharyError):  # noqa: N818
    """A request that is refused before any call is made: a status, and why, in words without data."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem(error: Exception) -> dict[str, Any]:
    """The problem details of an error. Only errors that chary raises on purpose are told in their own words.

    >>> problem(InvalidInput("epsilon must be greater than 0, got -1"))["detail"]
    'epsilon must be greater than 0, got -1'
    >>> problem(KeyError("a secret"))["detail"]
    'nothing more is told here; the log of the service has the kind of the error'
    """
    status = status_of(error)
    told = {"type": _PREFIX + _named(error), "title": TITLES.get(status, "Refused"), "status": status}
    if not isinstance(error, CharyError):
        return told | {"detail": "nothing more is told here; the log of the service has the kind of the error"}
    figures = error.figures if isinstance(error, BudgetRefused) else None
    about = {} if error.field is None else {"field": error.field}
    return told | {"detail": str(error)} | about | ({} if figures is None else dict(figures))


def status_of(error: Exception) -> int:
    """The status of an error."""
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_of(told: Any, status: int) -> CharyError:
    """The error that problem details tell of: of the class that a session would have raised, if it is one of chary's.

    >>> error_of({"type": "urn:chary:problem:invalid-query", "detail": "no"}, 422)
    InvalidQuery('no')
    """
    known = told if isinstance(told, dict) else {}
    name = "".join(part.capitalize() for part in str(known.get("type", "")).removeprefix(_PREFIX).split("-"))
    detail = str(known.get("detail") or TITLES.get(status, f"the service answered with status {status}"))
    kind = getattr(chary.errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, CharyError):
        return Refusal(status, detail)
    error = kind(detail)
    error.field = known.get("field")
    if isinstance(error, BudgetRefused) and "left" in known:
        error.figures = {name: float(known[name]) for name in ("asked", "left", "epsilon") if name in known}
    return error


def _named(error: Exception) -> str:
    if isinstance(error, Refusal):
        return {401: "unauthorized", 403: "forbidden", 404: "not-found", 429: "too-many-requests"}.get(
            error.status, "refused"
        )
    kinds = [kind for kind in type(error).__mro__ if kind.__module__ == "chary.errors"]
    name = kinds[0].__name__ if kinds else "Unforeseen"
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
