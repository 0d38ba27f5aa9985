"""An analyst who fools a streaming estimator by its own answers: what robust streams are for, and tested against."""

from collections.abc import Callable


def cancelling(ask: Callable[[int], float], *, items: int, heavy: int = 150) -> list[int]:
    """The stream of an analyst who makes its number seem small; `ask(item)` feeds one item and returns the answer.

    Item 0 arrives `heavy` times first. Then the items 1, 2, ... below `items`: where the answer falls, the item's
    random sign opposes what is stored, and it arrives again as long as the answer keeps falling. Only answers are
    seen, and items only arrive, so the true number never falls.

    >>> from chary.mechanisms import SecondMoment
    >>> plain = SecondMoment("0" * 64)
    >>> def ask(item):
    ...     plain.update(item)
    ...     return plain.estimate()
    >>> stream = cancelling(ask, items=500)
    >>> truth = sum(stream.count(item) ** 2 for item in set(stream))
    >>> plain.estimate() < truth / 3
    True
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
