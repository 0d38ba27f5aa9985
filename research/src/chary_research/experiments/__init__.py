"""The figures of the source papers and of our own claims, computed again by the library's mechanisms and accounting.

`chary reproduce` runs them. Some need public data sets that are not shipped (docs/theory/experiments.md).
"""

from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Settings, Trend
from chary_research.experiments.reproduction import EXPERIMENTS, Reproduced, experiment, reproduce, workers

__all__ = [
    "EXPERIMENTS",
    "DataFolder",
    "Experiment",
    "Measurements",
    "Reproduced",
    "Settings",
    "Trend",
    "experiment",
    "reproduce",
    "workers",
]
