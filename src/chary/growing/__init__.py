"""Growing databases: static algorithms rerun as rows arrive."""

from chary.accounting.laws import Law
from chary.growing.boxes import AlgorithmBox, CountsBox, QuantilesBox
from chary.growing.plots import draw_schedule

__all__ = ["AlgorithmBox", "CountsBox", "Law", "QuantilesBox", "draw_schedule"]
