"""An analyst who chooses a stream by the answers it gets, against estimators that are right on fixed streams."""

from collections.abc import Callable, Sequence

Item = int


def unnoticed(ask: Callable[[Sequence[Item]], float], *, base: int, wanted: int) -> list[Item]:
    """A stream of `wanted` distinct items that seem to be far fewer: `ask(items)` counts a window of that content.

    Every window is counted from nothing under the same hash. An item that leaves the count of the base unchanged
    lies below the base's registers, and so do all such items together.
    """
    window = list(range(base))
    usual = ask(window)
    quiet: list[Item] = []
    item = base
    while len(quiet) < wanted:
        if ask([*window, item]) == usual:
            quiet.append(item)
        item += 1
    return quiet
