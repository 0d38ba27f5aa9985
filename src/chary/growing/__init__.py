"""Growing databases: static algorithms rerun as rows arrive."""

from chary.accounting.schedules import Law
from chary.growing.boxes import AlgorithmBox, CountsBox, QuantilesBox
from chary.growing.changing_box import ChangingBox
from chary.growing.growth_plots import draw_counts, draw_schedule
from chary.growing.mwem_box import MWEMBox
from chary.growing.small_database_box import SmallDatabaseBox
from chary.growing.weights_plots import draw_answers, draw_synthetic

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
