"""One of a list of candidates by distances of the caller's own: inverse sensitivity in its general form."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

from chary.accounting import exponential_loss_up
from chary.calls.answers import ChosenKey
from chary.calls.call import Call, call
from chary.calls.fields import Flag, Keys, Positive
from chary.calls.selection.chosen_candidates import AskCandidate, checked
from chary.calls.selection.score_functions import ScoreFunction, Scores, distance_steps
from chary.core.plan import Touched
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import InvalidParameter
from chary.mechanisms import InverseSensitivity
from chary.numbers import exact


@call("inverse_sensitivity", subject="selection")
class InverseSensitivityMechanism(Call[ChosenKey]):
    """One of a list of public candidates, the likelier the fewer units would have to change to make it the true answer.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower, always charged: a candidate
    at distance D has a chance exactly proportional to `exp(-epsilon D / 2)`; with `monotone` the 1/2 is left out.

    - `distance=ScoreFunction(name, run)`, a function of the rows: **an assumption that nothing can check** is that one
      unit changes no distance by more than 1; with `monotone`, that it changes all of them in one direction, up or
      down. Distances are rounded down to whole numbers from 0 to 2**40; NaN is farthest. Neither can break that.
    - `distance=query`, a count or a total without keys, where the candidates are numbers: which of them is it? Chary
      works out how many units lie between.

    95 times in 100 the distance is at most `shortfall` units above the smallest, whatever the data. No unbiased
    (epsilon/4)-DP mechanism is more accurate where the distance is exactly that number of units. Source: theory
    section 2; Asi, Duchi 2020.

    Errors: as for `ExponentialMechanism`, and `InvalidParameter` for a query with keys, or candidates that are no
    numbers beside a query.

    >>> from chary import count
    >>> InverseSensitivityMechanism([0, 10, 100, 1000], count("age >= 65"), epsilon="0.1").kind
    'inverse_sensitivity'
    """

    candidates: Keys
    distance: Scores
    _: KW_ONLY
    epsilon: Positive
    monotone: Flag = False

    def __post_init__(self) -> None:
        checked(self.candidates)
        if isinstance(self.distance, ScoreFunction):
            return
        if not isinstance(self.distance, Query) or self.distance.keys is not None or self.monotone:
            raise InvalidParameter("distance is a ScoreFunction, or one count or total without keys or monotone=")
        for candidate in self.candidates:
            exact(candidate, "each of the candidates")

    def bind(self, spine: Spine) -> "AskNearest":
        return AskNearest(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskNearest(AskCandidate[InverseSensitivityMechanism]):
    """The choice by distances, as it is made."""

    @property
    def brought(self) -> Any:
        return self.call.distance

    @cached_property
    def mechanism(self) -> InverseSensitivity:
        """The exact choice among whole distances."""
        return InverseSensitivity(self.call.epsilon, whole=self.call.monotone)

    def shortfall(self, beta: Fraction) -> float:
        units = ceil(exponential_loss_up(self.mechanism.unit, len(self.candidates), beta))
        return float(max(0, units - 1))

    def position(self, found: Sequence[Any], touched: Touched) -> int:
        if isinstance(self.brought, ScoreFunction):
            return self.mechanism.pick(distance_steps(found), touched.source)
        query: Query = self.brought
        moved, [value] = query.sensitivity(self.neighbouring), found
        gaps = [abs(value - exact(candidate, "candidate") / query.grid) for candidate in self.candidates]
        return self.mechanism.pick(distance_steps([ceil(gap / moved) for gap in gaps]), touched.source)
