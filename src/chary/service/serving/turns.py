"""What waits to be done: of each analyst in order, of all analysts in turn, and of none too much."""

from collections import Counter, deque
from typing import Final, Generic, TypeVar

from chary.service.wire.problems import Refusal

_Item = TypeVar("_Item")
# So many may wait for each thread before further ones are sent away, whosever they are.
WAITING: Final = 32
# Long enough that some of them have ended by then.
_AGAIN: Final = "2"


class Turns(Generic[_Item]):
    """Things that wait, and how many of each analyst are there, waiting or under way. Not locked.

    Guarantee: who has few of them waits for at most one of each other analyst between two of his own; `most` are there
    at once, of one analyst `each`.

    >>> turns = Turns[str](most=5, each=3)
    >>> for analyst, item in [("ann", "a1"), ("ann", "a2"), ("ann", "a3"), ("bob", "b1")]:
    ...     turns.add(analyst, item)
    >>> [turns.next() for _ in range(5)]
    ['a1', 'b1', 'a2', 'a3', None]
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._waiting: dict[str, deque[_Item]] = {}
        self._there: Counter[str] = Counter()

    def add(self, analyst: str, item: _Item) -> None:
        """One more; `Refusal` with status 429 above `each`, with 503 above `most`."""
        if self._there[analyst] >= self._each:
            told = f"{self._each} calls of this analyst wait or run already: ask again when some of them have ended"
            raise Refusal(429, told, Retry_After=_AGAIN)
        if self._there.total() >= self._most:
            raise Refusal(503, "too many calls wait already; ask again later under the same key", Retry_After=_AGAIN)
        self._there[analyst] += 1
        self._waiting.setdefault(analyst, deque()).append(item)

    def next(self) -> _Item | None:
        """The first one of whoever's turn it is, which waits no more; None where nothing waits."""
        if not self._waiting:
            return None
        analyst = next(iter(self._waiting))
        items = self._waiting.pop(analyst)
        item = items.popleft()
        if items:
            self._waiting[analyst] = items  # behind all others
        return item

    def ended(self, analyst: str) -> None:
        """One of them is not there any more."""
        self._there[analyst] -= 1
        self._there += Counter()  # names without any are forgotten

    def all(self) -> list[_Item]:
        """Everything that waits, which waits no more."""
        found = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        return found
