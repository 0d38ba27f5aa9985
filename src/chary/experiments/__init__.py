"""The figures of the source papers and of our own claims, computed again by the library's mechanisms and accounting.

`chary reproduce` runs them. Some need public data sets that are not shipped (docs/experiments.md).
"""

from chary.experiments.catalogue import EXPERIMENTS, experiment
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements
from chary.experiments.reproducing import Reproduced, reproduce
from chary.experiments.workers import workers

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
