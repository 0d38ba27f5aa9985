"""All experiments by name."""

from typing import Final

from chary.errors import InvalidParameter
from chary.experiments.charging.totals_by_hits import TotalsByHits
from chary.experiments.experiment import Experiment
from chary.experiments.growing.round_distances import RoundDistances
from chary.experiments.growing.schedule_streams import ScheduleStreams
from chary.experiments.growing.small_tables import SmallTables
from chary.experiments.growing.training_risks import TrainingRisks
from chary.experiments.growing.weights_promises import WeightsPromises
from chary.experiments.lecture.attacks import DifferencingAttack, LinkageAttack, MembershipAttack
from chary.experiments.lecture.classifier_attacks import ClassifierAttacks
from chary.experiments.lecture.noise_attacks import LowBitsAttack, ReconstructionAttack
from chary.experiments.lecture.threshold_errors import ThresholdErrors
from chary.experiments.selection.alarm_spending import AlarmSpending
from chary.experiments.selection.alarms import BikeAlarms, LondonAlarms
from chary.experiments.selection.halting_losses import LossByThreshold, SavedByHalting
from chary.experiments.selection.maximum_losses import MaximumByQueries, MaximumSaved
from chary.experiments.selection.monte_carlo_losses import MonteCarloLosses
from chary.experiments.selection.peak_days import PeakDays

_EVERY: Final[tuple[type[Experiment], ...]] = (
    SavedByHalting,
    LossByThreshold,
    MonteCarloLosses,
    MaximumByQueries,
    MaximumSaved,
    BikeAlarms,
    LondonAlarms,
    AlarmSpending,
    PeakDays,
    TotalsByHits,
    ScheduleStreams,
    RoundDistances,
    SmallTables,
    WeightsPromises,
    TrainingRisks,
    ThresholdErrors,
    LinkageAttack,
    DifferencingAttack,
    MembershipAttack,
    ReconstructionAttack,
    LowBitsAttack,
    ClassifierAttacks,
)
EXPERIMENTS: Final[dict[str, type[Experiment]]] = {each.name: each for each in _EVERY}


def experiment(name: str) -> Experiment:
    """An experiment by its name; `InvalidParameter` for another name, which tells all names.

    >>> experiment("loss-by-threshold").source
    '[GAUSS] Figure 2'
    """
    if name not in EXPERIMENTS:
        raise InvalidParameter(f"there is no experiment {name!r}: take one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]()
