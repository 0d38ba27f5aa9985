"""Which noisy values are published: finite unions of intervals of whole grid steps."""

from collections.abc import Iterable
from dataclasses import dataclass

from chary.errors import InvalidParameter

End = int | None
Piece = tuple[End, End]


@dataclass(frozen=True)
class Support:
    """The noisy values, in grid steps, that a call publishes: pieces `(first, last)`, both included, None for no end.

    Pieces may touch or overlap in any order; they are put together. No piece at all, a piece whose first is above its
    last, and ends that are no whole numbers raise `InvalidParameter`.

    >>> Support.outside(90, 110).pieces
    ((None, 89), (111, None))
    >>> Support(((5, 9), (1, 4))) == Support.between(1, 10)
    True
    """

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for first, last in self.pieces:
            if any(isinstance(end, bool) or not isinstance(end, (int, type(None))) for end in (first, last)):
                raise InvalidParameter("ends of a support must be whole numbers of grid steps, or None for no end")
        pieces = tuple(_joined(self.pieces))
        if not pieces or any(_empty(piece) for piece in self.pieces):
            raise InvalidParameter("a support must hold a value: its first must not be above its last")
        object.__setattr__(self, "pieces", pieces)

    @classmethod
    def everything(cls) -> "Support":
        """An ordinary release: whatever comes out is published."""
        return cls(((None, None),))

    @classmethod
    def at_least(cls, bar: int) -> "Support":
        """A conditional release: noisy values from the bar on."""
        return cls(((bar, None),))

    @classmethod
    def between(cls, bar: int, below: int) -> "Support":
        """A revision that lowered the bar from `below` to `bar`, or a zone: values from `bar` on below `below`."""
        return cls(((bar, below - 1),))

    @classmethod
    def outside(cls, first: int, last: int) -> "Support":
        """A change: all values but those from `first` to `last`."""
        return cls(((None, first - 1), (last + 1, None)))

    @property
    def lowest(self) -> End:
        """The least value; None if there is none."""
        return self.pieces[0][0]

    @property
    def highest(self) -> End:
        """The largest value; None if there is none."""
        return self.pieces[-1][1]

    def __contains__(self, value: int) -> bool:
        return bool(self.cut(value, value))

    def cut(self, first: End, last: End) -> list[Piece]:
        """What of it lies from `first` to `last`."""
        found = [(_larger(first, low), _smaller(last, high)) for low, high in self.pieces]
        return [piece for piece in found if not _empty(piece)]

    def moved(self, steps: int) -> "Support":
        """Its values, each so much larger."""
        ends = [
            (first if first is None else first + steps, last if last is None else last + steps)
            for first, last in self.pieces
        ]
        return Support(tuple(ends))

    def mirrored(self) -> "Support":
        """The negatives of its values."""
        return Support(tuple((_minus(last), _minus(first)) for first, last in self.pieces))


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """In rising order, those that touch put together."""
    found: list[Piece] = []
    for first, last in sorted(pieces, key=lambda piece: (piece[0] is not None, piece[0] or 0)):
        if found and (found[-1][1] is None or first is None or first <= found[-1][1] + 1):
            before, until = found.pop()
            found.append((before, None if until is None or last is None else max(until, last)))
        else:
            found.append((first, last))
    return found


def _empty(piece: Piece) -> bool:
    return piece[0] is not None and piece[1] is not None and piece[0] > piece[1]


def _larger(one: End, other: End) -> End:
    return other if one is None else one if other is None else max(one, other)


def _smaller(one: End, other: End) -> End:
    return other if one is None else one if other is None else min(one, other)


def _minus(end: End) -> End:
    return None if end is None else -end
