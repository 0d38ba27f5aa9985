"""Growing databases: static algorithms rerun as rows arrive, and histograms over blocks of time."""

from typing import TYPE_CHECKING, Any

from chary.accounting.schedules import Law
from chary.charts import plotter
from chary.growth.boxes import AlgorithmBox, ChangingBox, CountsBox, MWEMBox, QuantilesBox, SmallDatabaseBox
from chary.growth.trees import HistogramTree, NodeAnswer, RangeAnswer

if TYPE_CHECKING:
    from chary.growth.plots import draw_answers, draw_counts, draw_schedule, draw_synthetic

__all__ = [
    "AlgorithmBox",
    "ChangingBox",
    "CountsBox",
    "HistogramTree",
    "Law",
    "MWEMBox",
    "NodeAnswer",
    "QuantilesBox",
    "RangeAnswer",
    "SmallDatabaseBox",
    "draw_answers",
    "draw_counts",
    "draw_schedule",
    "draw_synthetic",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What draws, when it is first used: it needs the extra `plots`."""
        if name.startswith("draw_") and name in __all__:
            return getattr(plotter("chary.growth.plots"), name)
        raise AttributeError(f"module 'chary.growth' has no attribute {name!r}")
