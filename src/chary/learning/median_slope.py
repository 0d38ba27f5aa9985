"""A line through the middle of the data: the median of slopes of pairs of rows, by inverse sensitivity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.calls import ScoreFunction
from chary.data import Neighbors
from chary.errors import InvalidParameter
from chary.numbers import exact, set_fields, whole

Floats = NDArray[np.float64]
_WORD: Final = 64


@dataclass(frozen=True)
class MedianSlope:
    """The distances for a line `y = height + slope (x - center)` by medians, for `ExponentialMechanism`.

    The slope is the median of the slopes of pairs of rows (Theil, Sen); in each of `matchings` random matchings a row
    is in one pair at most. The height is the median of `y - slope (x - center)`, for a slope that was published before.
    Outliers, and rows that were made up, move medians little; nothing is clipped.

    Guarantee, where each row is a unit under `neighbors` (other sessions refuse the distances): one row changes no
    distance by more than 1. Of each matching, a row that is replaced changes one slope, which moves the excess of
    slopes on one side over the other by 2. A row that is added or removed changes one slope and adds or removes
    another, by 3 in all. This is once the matchings of the two tables are paired so that the last row takes the place
    of the one that left (both are uniform). The distance is the excess over that many times the matchings. A missing
    value counts as 0; two rows with one x count as infinitely steep.

    Source: Asi, Duchi 2020 (the mechanism); Alabi, McMillan, Sarathy, Smith, Vadhan 2022 (matchings).

    >>> line = MedianSlope("age", "cost", neighbors="replace")
    >>> line.slope().body()
    {'function': 'median of slopes', 'parameters': {'x': 'age', 'y': 'cost', 'change': 16, 'matchings': 8}}
    """

    x: str
    y: str
    neighbors: Neighbors | str
    matchings: int = 8

    def __post_init__(self) -> None:
        set_fields(self, neighbors=Neighbors(self.neighbors))
        if self.neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidParameter("a line is for rows that are replaced, or added and removed")
        whole(self.matchings, "matchings")

    def slope(self) -> ScoreFunction:
        """How many rows must change, at least, for each candidate to be the median of the slopes."""
        told = {"x": self.x, "y": self.y, "change": self.matchings * (2 if self._replaced else 3)}
        told |= {"matchings": self.matchings}
        return self._scored("median of slopes", slope_distances, told, coins=True)

    def height(self, slope: float, center: float) -> ScoreFunction:
        """How many rows must change, at least, for each candidate to be the median height at `center`."""
        told = {"x": self.x, "y": self.y, "change": 2 if self._replaced else 1}
        known = {"slope": float(exact(slope, "slope")), "center": float(exact(center, "center"))}
        return self._scored("median height", height_distances, told | known)

    def _scored(self, name: str, distances: Callable[..., Floats], told: dict[str, Any], **more: Any) -> ScoreFunction:
        return ScoreFunction(name, distances, [self.x, self.y], told, neighbors=Neighbors(self.neighbors), **more)

    @property
    def _replaced(self) -> bool:
        return self.neighbors is Neighbors.REPLACE


def slope_distances(
    rows: Any, candidates: Sequence[float], source: noise.Source, *, x: str, y: str, change: int, matchings: int
) -> Floats:
    """The distance of each candidate, for random matchings."""
    across, up = _column(rows, x), _column(rows, y)
    orders = [drawn_order(len(across), source) for _ in range(matchings)]
    return excess(np.concatenate([paired_slopes(across[order], up[order]) for order in orders]), candidates) / change


def height_distances(
    rows: Any, candidates: Sequence[float], *, x: str, y: str, change: int, slope: float, center: float
) -> Floats:
    """The distance of each candidate."""
    return excess(_column(rows, y) - slope * (_column(rows, x) - center), candidates) / change


def paired_slopes(x: Floats, y: Floats) -> Floats:
    """The slopes of the first and the second row, of the third and the fourth, ...; the last may be left over.

    >>> paired_slopes(np.array([0.0, 2.0, 5.0, 5.0, 9.0]), np.array([1.0, 2.0, 7.0, 3.0, 0.0]))
    array([ 0.5, -inf])
    """
    last = len(x) // 2 * 2
    across, up = x[1:last:2] - x[0:last:2], y[1:last:2] - y[0:last:2]
    # Equal rows are steep upwards and downwards in turns.
    turns = np.where(np.arange(len(up)) % 2, np.inf, -np.inf)
    steep = np.where(up > 0, np.inf, np.where(up < 0, -np.inf, turns))
    return np.where(across == 0, steep, up / np.where(across == 0, 1.0, across))


def excess(values: Floats, candidates: Sequence[float]) -> Floats:
    """By how many more than half of the values, times two, lie on one side of each candidate; 0 for a median.

    >>> excess(np.array([1.0, 2.0, 3.0, 9.0]), [0, 2.5, 9]).tolist()
    [4.0, 0.0, 2.0]
    """
    ranked, asked = np.sort(values), np.array([float(each) for each in candidates])
    below, above = np.searchsorted(ranked, asked, "left"), len(ranked) - np.searchsorted(ranked, asked, "right")
    most: Floats = np.maximum(0, 2 * np.maximum(below, above) - len(ranked)).astype(np.float64)
    return most


def drawn_order(size: int, source: noise.Source) -> NDArray[np.intp]:
    """A uniform permutation: the order of random words, drawn anew until no two are equal."""
    while True:
        words = source.words(size, _WORD)
        if len(np.unique(words)) == size:
            return np.argsort(words)


def _column(rows: Any, name: str) -> Floats:
    found: Floats = rows[name].to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(found), found, 0.0)
