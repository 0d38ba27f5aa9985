"""Every error chary raises, in one tree. No message ever contains a value from the data.

```
CharyError
├── InvalidInput                (also a ValueError) nothing was charged, nothing was touched
│   ├── InvalidParameter        NaN, infinite, zero or negative epsilon; delta outside (0, 1); ...
│   ├── InvalidQuery            an unknown column, a predicate outside the subset, keys of another type
│   ├── SchemaMismatch          appended rows do not have the table's columns and types
│   └── NotWithheld             no withheld outcome of that number, or it was already published
├── BudgetExceeded              the worst cost does not fit into what is left; nothing was touched
│   ├── (ledger.CapReached)     the same as a ledger raises it, with the amounts
│   └── NotPriced               this filter cannot account for this call
├── LedgerError
│   ├── LedgerMismatch          a ledger of another dataset, or other terms than the ledger holds
│   ├── LedgerCorrupted         the hash chain or the totals do not add up
│   ├── LedgerLocked            another process held the ledger for too long
│   ├── RequestConflict         an idempotency key was used again with another query
│   └── RequestInFlight         the first call under this idempotency key is still running
├── EngineError                 (also a RuntimeError) the engine failed after touching data; the charge stays
├── ForkedSession               (also a RuntimeError) a session was used in a fork of the process that opened it
└── AlgorithmFailed             an algorithm of the caller raised or returned no outcome; it stays charged
```

The command maps `BudgetExceeded` to exit code 3 and all others to 2. `OwnerWarning` is a warning and no error.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from chary.interruption import interrupted


class OwnerWarning(UserWarning):
    """What only who owns the rows should see, since it may count cells; it stops nothing.

    It is reported where data are opened and where rows are appended: in Python as a warning, by the command and the
    service on standard error. No answer, ledger or error holds it. A service reports it to
    nobody but who appends the batch.
    """


def showing_warnings(usual: Callable[..., object], tell: Callable[[str], object]) -> Callable[..., None]:
    """What to set `warnings.showwarning` to: an `OwnerWarning` is a line of its own, without a place in the code.

    >>> import warnings
    >>> showing_warnings(warnings.showwarning, print)(OwnerWarning("2 cells are NULL"), OwnerWarning, "rows.py", 1)
    chary: warning: 2 cells are NULL
    """

    def show(message: Warning | str, category: type[Warning], *place: Any, **where: Any) -> None:
        if issubclass(category, OwnerWarning):
            tell(f"chary: warning: {message}")
        else:
            usual(message, category, *place, **where)

    return show


def tell_owners(tell: Callable[[str], object]) -> None:
    """From now on each `OwnerWarning` of this process is such a line, also one that came before."""
    warnings.showwarning = showing_warnings(warnings.showwarning, tell)
    warnings.simplefilter("always", OwnerWarning)


class CharyError(Exception):
    """Base of everything chary raises on purpose. `field` is the field of a call that it is about, where it is one;
    `example` then is what that field may be, in a body that is posted."""

    field: str | None = None
    example: dict[str, Any] | None = None


class InvalidInput(CharyError, ValueError):
    """The call cannot be right, whatever the data; nothing was charged and nothing was touched."""


class InvalidParameter(InvalidInput):
    """A number or choice outside its domain, such as a negative epsilon."""


class InvalidQuery(InvalidInput):
    """A query that names an unknown column or leaves the supported subset."""


class SchemaMismatch(InvalidInput):
    """Rows that do not have the columns and types of the table; refused whole."""


class NotWithheld(InvalidInput):
    """No withheld outcome of that number exists, or it was already published."""


class BudgetExceeded(CharyError):
    """The worst cost of the call does not fit into what is left of a cap; nothing was touched.

    `figures` are those of the message where it has any: `asked` and `left` as shares of the budget, and the `epsilon`
    that would fit.
    """

    figures: dict[str, float] | None = None


class NotPriced(BudgetExceeded):
    """The session's filter cannot cost this kind of event."""


class LedgerError(CharyError):
    """Something is wrong with the ledger itself."""


class LedgerMismatch(LedgerError):
    """The ledger belongs to another dataset or was opened under other terms."""


class LedgerCorrupted(LedgerError):
    """The hash chain or the totals of the ledger do not add up."""


class LedgerLocked(LedgerError):
    """Another process held the ledger for longer than the waiting time."""


class RequestConflict(LedgerError):
    """An idempotency key was used again with another question."""


class RequestInFlight(LedgerError):
    """A call under the same idempotency key is still running; nothing was charged.

    Ask again under the same key: once that call is answered, its answer is free.
    """


class EngineError(CharyError, RuntimeError):
    """The engine failed after data may have been touched; what was reserved stays charged."""


class ForkedSession(CharyError, RuntimeError):
    """A session was used in a fork of the process that opened it; nothing was charged and nothing was touched."""


class AlgorithmFailed(CharyError):
    """An algorithm that the caller brought raised, or returned no outcome that could be published; it stays charged."""


# Failures of libraries, raised again as errors that name no value of the data.

_T = TypeVar("_T")


def quietly(work: Callable[[], _T], failure: Exception) -> _T:
    """Run `work`; when anything at all goes wrong, raise `failure` alone: the original names values of the data.

    An interruption stays one, although an engine reports it by an error of its own.

    >>> from chary.errors import EngineError
    >>> quietly(lambda: 1 / 0, EngineError("the engine failed"))
    Traceback (most recent call last):
    ...
    chary.errors.EngineError: the engine failed
    """
    try:
        return work()
    except CharyError:
        raise
    except Exception as error:
        told: BaseException = KeyboardInterrupt() if interrupted(error) else failure
    # Raised outside the handler: within it the original would be the context of what is reported.
    raise told


def brought(work: Callable[[], _T], failure: str) -> _T:
    """Run code that a caller brought; whatever it raises, `AlgorithmFailed` with this text alone.

    Also refusals of chary: one that its code or outcome brings about may name values of the data.

    >>> brought(lambda: 1 / 0, "the algorithm 'mine' raised; charged")
    Traceback (most recent call last):
    ...
    chary.errors.AlgorithmFailed: the algorithm 'mine' raised; charged
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException:  # what an extension panics with is no Exception
        pass
    # Raised outside the handler: within it the original would be the context of what is reported.
    raise AlgorithmFailed(failure)
