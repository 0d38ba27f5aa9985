"""Failures of libraries, told again as errors that name no value of the data."""

from collections.abc import Callable
from typing import TypeVar

from chary.errors import CharyError
from chary.interruption import interrupted

_T = TypeVar("_T")


def quietly(work: Callable[[], _T], failure: Exception) -> _T:
    """Run `work`; when anything at all goes wrong, raise `failure` alone: the original names values of the data.

    An interruption stays one, although an engine tells of it by an error of its own.

    >>> from chary.errors import EngineFailure
    >>> quietly(lambda: 1 / 0, EngineFailure("the engine failed"))
    Traceback (most recent call last):
    ...
    chary.errors.EngineFailure: the engine failed
    """
    try:
        return work()
    except CharyError:
        raise
    except Exception as error:
        told: BaseException = KeyboardInterrupt() if interrupted(error) else failure
    # Raised outside the handler: within it the original would be the context of what is told.
    raise told
