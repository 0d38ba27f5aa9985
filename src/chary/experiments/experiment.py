"""What an experiment is: pieces that are measured one by one, a picture of them all, and what must hold of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure

from chary.experiments.data_folder import DataFolder
from chary.experiments.measurements import Measurements, Row

Settings = dict[str, Any]


@dataclass(frozen=True)
class Trend:
    """What a figure is to show, and whether what was measured shows it."""

    told: str
    holds: bool | np.bool_

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))


class Experiment(ABC):
    """A figure that can be made again.

    - `name`: by which it is asked for; `shows`: one line; `source`: which figure, table or bound it is.
    - `needs`: files of the data folder without which it cannot run.
    - `extra`: of chary, and a library that it brings, without which it cannot run.
    - `size`: of its picture, in inches.

    A piece is known by its settings, which hold all that it depends on but the data and the code, so that a finished
    one need not be measured again. It gets a seed of its own, made from the settings.
    """

    name: ClassVar[str]
    shows: ClassVar[str]
    source: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[tuple[str, str] | None] = None
    size: ClassVar[tuple[float, float]] = (7.0, 3.6)

    @classmethod
    def absent(cls, data: DataFolder) -> list[str]:
        """What it needs and is not there."""
        missing = data.missing(cls.needs)
        if cls.extra is not None and find_spec(cls.extra[1]) is None:
            missing.append(f"the extra {cls.extra[0]} (pip install 'chary[{cls.extra[0]}]')")
        return missing

    @abstractmethod
    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        """The settings of all pieces, as JSON has them; with `quick` fewer, or with fewer repetitions."""

    @abstractmethod
    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """What one piece measures; the same for the same seed."""

    @abstractmethod
    def draw(self, found: Measurements, figure: Figure) -> None:
        """The picture of all rows."""

    @abstractmethod
    def trends(self, found: Measurements) -> Sequence[Trend]:
        """What must hold of the rows, whether they are quick ones or not."""
