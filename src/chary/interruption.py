"""Ctrl-C that libraries in C or Rust swallowed on its way through them."""

from typing import Final

# What they say instead; the second is the end of whatever they say of a Python function that they called.
_STOPPED: Final = "Query interrupted"
_CALLED: Final = ": KeyboardInterrupt: "


def interrupted(error: Exception) -> bool:
    """Whether an error stands for a Ctrl-C that a library told of by an error of its own.

    >>> interrupted(RuntimeError("Query interrupted")), interrupted(ValueError("reading failed: KeyboardInterrupt: "))
    (True, True)
    >>> interrupted(ValueError("a value"))
    False
    """
    # By name: no engine may be imported here.
    named = type(error).__name__ == "InterruptException"
    return named or (type(error), error.args) == (RuntimeError, (_STOPPED,)) or str(error).endswith(_CALLED)
