"""Mechanisms: pure state machines on exact integers and noise; no data access, no ledger."""

import inspect

from chary.mechanisms.additive import Additive as Additive
from chary.mechanisms.additive import Gaussian as Gaussian
from chary.mechanisms.additive import Laplace as Laplace
from chary.mechanisms.boundaries import BOUNDARY as BOUNDARY
from chary.mechanisms.boundaries import BoundaryWrapper as BoundaryWrapper
from chary.mechanisms.choices import Exponential as Exponential
from chary.mechanisms.choices import GaussianMax as GaussianMax
from chary.mechanisms.choices import InverseSensitivity as InverseSensitivity
from chary.mechanisms.choices import MajorityVote as MajorityVote
from chary.mechanisms.choices import OneShotTopK as OneShotTopK
from chary.mechanisms.choices import PermuteAndFlip as PermuteAndFlip
from chary.mechanisms.choices import ReportNoisyMax as ReportNoisyMax
from chary.mechanisms.choices import Stretches as Stretches
from chary.mechanisms.choices import bits_distances as bits_distances
from chary.mechanisms.choices import mode_distances as mode_distances
from chary.mechanisms.local_reports import KRandomizedResponse as KRandomizedResponse
from chary.mechanisms.local_reports import LocalEstimate as LocalEstimate
from chary.mechanisms.local_reports import LocalHashing as LocalHashing
from chary.mechanisms.local_reports import MemoizedReports as MemoizedReports
from chary.mechanisms.local_reports import RandomizedResponse as RandomizedResponse
from chary.mechanisms.local_reports import ShareEstimate as ShareEstimate
from chary.mechanisms.local_reports import UnaryEncoding as UnaryEncoding
from chary.mechanisms.quantiles import Guarded as Guarded
from chary.mechanisms.quantiles import GuardedQuantiles as GuardedQuantiles
from chary.mechanisms.quantiles import HalvedQuantiles as HalvedQuantiles
from chary.mechanisms.quantiles import Order as Order
from chary.mechanisms.quantiles import RankDistance as RankDistance
from chary.mechanisms.sketches import CountSketch as CountSketch
from chary.mechanisms.sketches import Distinct as Distinct
from chary.mechanisms.sketches import Estimator as Estimator
from chary.mechanisms.sketches import FlajoletMartin as FlajoletMartin
from chary.mechanisms.sketches import Grid as Grid
from chary.mechanisms.sketches import Phantoms as Phantoms
from chary.mechanisms.sketches import SecondMoment as SecondMoment
from chary.mechanisms.sketches import new_key as new_key
from chary.mechanisms.sketches import rank_utilities as rank_utilities
from chary.mechanisms.sketches import words as words
from chary.mechanisms.threshold_tests import BarTests as BarTests
from chary.mechanisms.threshold_tests import GaussianThreshold as GaussianThreshold
from chary.mechanisms.threshold_tests import Held as Held
from chary.mechanisms.threshold_tests import HiddenThreshold as HiddenThreshold
from chary.mechanisms.threshold_tests import OneSidedMachine as OneSidedMachine
from chary.mechanisms.threshold_tests import Published as Published
from chary.mechanisms.threshold_tests import SparseVectorMachine as SparseVectorMachine
from chary.mechanisms.threshold_tests import judge as judge
from chary.mechanisms.threshold_tests import revise as revise

__all__ = sorted(name for name, thing in globals().items() if name[0] != "_" and not inspect.ismodule(thing))
