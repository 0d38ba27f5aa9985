"""One number about a stream, from a sketch that can tell many."""

from chary.mechanisms import CountSketch, Estimator
from chary.mechanisms.sketches import Element


class ItemFrequency(Estimator):
    """How often one public item occurred, from a `CountSketch`; negative estimates are 0.

    >>> seen = ItemFrequency("0" * 64, "b", width=64, depth=5)
    >>> for item in "abracadabra":
    ...     seen.update(item)
    >>> seen.estimate()
    2.0
    """

    def __init__(self, key: str, item: Element, *, width: int, depth: int) -> None:
        self._sketch, self._item = CountSketch(key, width=width, depth=depth), item

    def update(self, item: Element) -> None:
        self._sketch.update(item)

    def estimate(self) -> float:
        return max(0.0, self._sketch.estimate(self._item))
