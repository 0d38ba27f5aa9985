"""Growing databases: static algorithms rerun as rows arrive."""

from chary.accounting.schedules import Law
from chary.growth.boxes import AlgorithmBox, ChangingBox, CountsBox, MWEMBox, QuantilesBox, SmallDatabaseBox
from chary.growth.plots import draw_answers, draw_counts, draw_schedule, draw_synthetic

__all__ = [
    "AlgorithmBox",
    "ChangingBox",
    "CountsBox",
    "Law",
    "MWEMBox",
    "QuantilesBox",
    "SmallDatabaseBox",
    "draw_answers",
    "draw_counts",
    "draw_schedule",
    "draw_synthetic",
]
