"""Errors on the wire: problem details, and the error that a client makes of them."""

from collections.abc import Mapping
from typing import Any, Final

from chary import errors

# Problem details (RFC 9457).

MEDIA: Final = "application/problem+json"
_PREFIX: Final = "urn:chary:problem:"
# The first class that fits; all others are unexpected errors.
_STATUS: Final[tuple[tuple[type[errors.CharyError], int], ...]] = (
    (errors.NotWithheld, 404),
    (errors.InvalidInput, 422),
    (errors.RequestConflict, 422),
    (errors.RequestInFlight, 409),
    (errors.BudgetExceeded, 409),
    (errors.AlgorithmFailed, 422),
    (errors.LedgerLocked, 503),
    (errors.LedgerError, 503),
    (errors.EngineError, 503),
)
TITLES: Final = {
    400: "The request is malformed",
    401: "A token is required",
    403: "The token does not permit this",
    404: "Not found",
    405: "The method is not allowed here",
    408: "The request timed out",
    409: "Conflict with another request",
    413: "The request is too large",
    415: "The body must be JSON",
    421: "Unknown host",
    422: "The request is invalid",
    429: "Too many requests",
    500: "Internal error",
    503: "Temporarily unavailable",
}
_EXCEEDED: Final = "Privacy budget exceeded"


# Names of errors on the wire. They never change, since clients and dashboards of earlier versions know them.
PROBLEMS: Final[Mapping[str, type[errors.CharyError]]] = {
    "algorithm-failed": errors.AlgorithmFailed,
    "budget-refused": errors.BudgetExceeded,
    "chary-error": errors.CharyError,
    "engine-failure": errors.EngineError,
    "invalid-input": errors.InvalidInput,
    "invalid-parameter": errors.InvalidParameter,
    "invalid-query": errors.InvalidQuery,
    "ledger-broken": errors.LedgerCorrupted,
    "ledger-busy": errors.LedgerLocked,
    "ledger-error": errors.LedgerError,
    "ledger-mismatch": errors.LedgerMismatch,
    "no-price": errors.NotPriced,
    "request-conflict": errors.RequestConflict,
    "request-in-flight": errors.RequestInFlight,
    "schema-mismatch": errors.SchemaMismatch,
    "unknown-held": errors.NotWithheld,
    "wrong-process": errors.ForkedSession,
}
_PROBLEM_OF: Final = {kind: name for name, kind in PROBLEMS.items()}


class Refusal(errors.CharyError):
    """A request that is refused before any call is made: a status and a reason, which contain no data."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem(error: Exception) -> dict[str, Any]:
    """The problem details of an error. Only errors of chary show their message.

    >>> from chary import InvalidInput
    >>> problem(InvalidInput("epsilon must be greater than 0, got -1"))["detail"]
    'epsilon must be greater than 0, got -1'
    >>> problem(KeyError("a secret"))["detail"]
    'the details are not shown here; the log of the service has the type of the error'
    """
    status = status_of(error)
    title = _EXCEEDED if isinstance(error, errors.BudgetExceeded) else TITLES.get(status, "Refused")
    told = {"type": _PREFIX + _named(error), "title": title, "status": status}
    if not isinstance(error, errors.CharyError):
        return told | {"detail": "the details are not shown here; the log of the service has the type of the error"}
    figures = error.figures if isinstance(error, errors.BudgetExceeded) else None
    about = {} if error.field is None else {"field": error.field}
    return told | {"detail": str(error)} | about | ({} if figures is None else dict(figures))


def status_of(error: Exception) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_of(told: Any, status: int) -> errors.CharyError:
    """The error that problem details describe, in the class that a session would have raised.

    >>> error_of({"type": "urn:chary:problem:invalid-query", "detail": "no"}, 422)
    InvalidQuery('no')
    """
    known = told if isinstance(told, dict) else {}
    named = str(known.get("type", "")).removeprefix(_PREFIX)
    detail = str(
        known.get("python") or known.get("detail") or TITLES.get(status, f"the service answered with status {status}")
    )
    kind = PROBLEMS.get(named)
    if kind is None:
        return Refusal(status, detail)
    error = kind(detail)
    error.field = known.get("field")
    if isinstance(error, errors.BudgetExceeded) and "left" in known:
        error.figures = {name: float(known[name]) for name in ("asked", "left", "epsilon") if name in known}
    return error


def _named(error: Exception) -> str:
    if isinstance(error, Refusal):
        return {401: "unauthorized", 403: "forbidden", 404: "not-found", 429: "too-many-requests"}.get(
            error.status, "refused"
        )
    return next((_PROBLEM_OF[kind] for kind in type(error).__mro__ if kind in _PROBLEM_OF), "unforeseen")
