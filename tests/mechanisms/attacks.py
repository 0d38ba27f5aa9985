"""Analysts who choose a stream by the answers they get, against estimators that are right on fixed streams.

They live beside the tests because nothing in the package needs them. Both see public answers only, and in both streams
items only arrive.
"""

from collections.abc import Callable, Sequence

Item = int


def cancelling(ask: Callable[[Item], float], *, items: int, heavy: int = 150) -> list[Item]:
    """A stream whose second moment seems small: `ask(item)` feeds one item and returns the estimate so far.

    One heavy item first. Then fresh items: where the estimate falls, the item's random signs oppose what is stored,
    and it arrives again as long as the estimate keeps falling.
    """
    stream = [0] * heavy
    before = [ask(item) for item in stream][-1]
    for item in range(1, items):
        falling = True
        while falling:
            after = ask(item)
            stream.append(item)
            before, falling = after, after < before
    return stream


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
