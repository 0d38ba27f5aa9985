"""One of a list of candidates, by scores or distances of the caller's own: the general forms of two mechanisms."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import ceil, gcd, lcm
from typing import Any, Final, Generic

import numpy as np

from chary.accounting import Pure, exponential_loss_up
from chary.calls.answers import ChosenKey
from chary.calls.call import Bound, Call, CallT, call
from chary.calls.fields import Flag, Keys, Positive
from chary.calls.selection.choices import bounded_range_price
from chary.calls.selection.score_functions import (
    ScoreFunction,
    Scores,
    distance_steps,
    failed,
    score_step,
    score_steps,
)
from chary.data import Query, Reading, Relation, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.filters import Filter, Price
from chary.mechanisms import Exponential, InverseSensitivity
from chary.numbers import exact
from chary.spine.interaction import BETA, Json, Ran, Touched
from chary.spine.spine import Spine

_SCALARS: Final = (str, bool, int, float, Fraction, date)


@call("exponential_mechanism", subject="selection")
class ExponentialMechanism(Call[ChosenKey]):
    """One of a list of public candidates, the likelier the higher its score, by scores of your own.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower, always charged: a candidate
    of score u has a chance exactly proportional to `exp(epsilon u / (2 sensitivity))`; with `monotone` the 2 is left
    out.

    - `score=ScoreFunction(name, run)`, a function of the rows: **an assumption that nothing can check** is that one
      unit, added or removed or replaced as the session says, moves no score by more than `sensitivity`; with
      `monotone`, moves all of them up or all of them down. Scores are rounded down to about a millionth of the
      sensitivity (whole numbers are kept) and clipped at 2**40 times it; NaN counts as the least. Neither can break
      that.
    - `score=[query, ...]`, a count or a total for each candidate (or one query with as many keys): chary proves how
      far they move apart, and `sensitivity` and `monotone` are left out.

    95 times in 100 the score is at most `shortfall` below the best (a quote tells it), whatever the data;
    `chary.accounting.utility_loss_up` is the published form of that bound. Candidates are different numbers, texts,
    truth values or dates, two or more. Source: theory section 2.

    Errors: `InvalidParameter` for candidates that are none, a missing or superfluous sensitivity, and as many queries
    as there are not candidates; `AlgorithmFailed`, charged, for a function that raises or returns anything but numbers.

    >>> from chary import count
    >>> ages = {"young": "age < 30", "middle": "age >= 30 AND age < 60", "old": "age >= 60"}
    >>> ExponentialMechanism(list(ages), [count(where) for where in ages.values()], epsilon="0.1").candidates
    ('young', 'middle', 'old')
    """

    candidates: Keys
    score: Scores
    _: KW_ONLY
    epsilon: Positive
    sensitivity: Positive | None = None
    monotone: Flag = False

    def __post_init__(self) -> None:
        listed = _check(self.candidates)
        if isinstance(self.score, ScoreFunction):
            if self.sensitivity is None:
                raise InvalidParameter("say how far one unit moves a score of yours at most, such as sensitivity=1")
            return
        if self.sensitivity is not None or self.monotone:
            raise InvalidParameter("how far counts and totals move is known: leave sensitivity= and monotone= out")
        if isinstance(self.score, Query):
            answers = len(self.score.keys or ())
        else:
            answers = len(self.score)
            if any(query.keys is not None for query in self.score):
                raise InvalidParameter("each query of a list scores one candidate, so it has no keys")
        if answers != listed:
            raise InvalidParameter(f"there are {listed} candidates and {answers} answers to score them")

    def bind(self, spine: Spine) -> "AskExponential":
        return AskExponential(self, spine.rows.neighbouring)


@call("inverse_sensitivity", subject="selection")
class InverseSensitivityMechanism(Call[ChosenKey]):
    """One of a list of public candidates, the likelier the fewer units would have to change to make it the true answer.

    Guarantee: `Pure(epsilon)` and (epsilon^2/8)-zCDP, whichever the filter prices lower, always charged: a candidate
    at distance D has a chance exactly proportional to `exp(-epsilon D / 2)`; with `monotone` the 1/2 is left out.

    - `distance=ScoreFunction(name, run)`, a function of the rows: **an assumption that nothing can check** is that one
      unit changes no distance by more than 1; with `monotone`, that up to one common number it changes all of them in
      one direction. Distances are rounded down to whole numbers from 0 to 2**40; NaN is farthest.
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
        _check(self.candidates)
        if isinstance(self.distance, ScoreFunction):
            return
        if not isinstance(self.distance, Query) or self.distance.keys is not None or self.monotone:
            raise InvalidParameter("distance is a ScoreFunction, or one count or total without keys or monotone=")
        for candidate in self.candidates:
            exact(candidate, "each of the candidates")

    def bind(self, spine: Spine) -> "AskNearest":
        return AskNearest(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class _AskCandidate(Bound[CallT], Generic[CallT]):
    """What both have in common: the position of the chosen candidate is published."""

    @property
    @abstractmethod
    def brought(self) -> Any:
        """The function, or the queries."""

    @abstractmethod
    def position(self, found: Sequence[Any], touched: Touched) -> int:
        """The exact choice, given what the function returned or the queries answered."""

    @property
    def candidates(self) -> Sequence[Any]:
        """The public candidates."""
        call: Any = self.call
        return tuple(call.candidates)

    @cached_property
    def event(self) -> Pure:
        call: Any = self.call
        return Pure(call.epsilon)

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.event.epsilon)

    def queries(self) -> Sequence[Query]:
        if isinstance(self.brought, ScoreFunction):
            return ()
        return [self.brought] if isinstance(self.brought, Query) else list(self.brought)

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.brought.prepare(rows)] if isinstance(self.brought, ScoreFunction) else super().prepare(rows)

    def run(self, touched: Touched) -> Ran:
        try:
            found = self._found(touched)
        except AlgorithmFailed:
            return Ran({"failed": True}, 0, 0)
        return Ran({"position": self.position(found, touched)}, 0, 0)

    def _found(self, touched: Touched) -> Sequence[Any]:
        if isinstance(self.brought, ScoreFunction):
            return self.brought.scores(touched.values[0], self.candidates, touched.source)
        read = [touched.integers(place) for place in range(len(touched.values))]
        return [int(value) for value in np.concatenate(read)]

    def present(self, answer: Json, call: int) -> ChosenKey:
        if "failed" in answer:
            raise AlgorithmFailed(failed(self.brought.name))
        return ChosenKey(call, self.candidates[answer["position"]], shortfall=self.shortfall(BETA))


@dataclass(frozen=True)
class AskExponential(_AskCandidate[ExponentialMechanism]):
    """The choice by scores, as it is made."""

    @property
    def brought(self) -> Any:
        return self.call.score

    @cached_property
    def step(self) -> Fraction:
        """What scores are whole multiples of."""
        if isinstance(self.brought, ScoreFunction):
            return score_step(Fraction(self.call.sensitivity or 1))
        grids = [query.grid for query in self.queries()]
        below = lcm(*(grid.denominator for grid in grids))
        return Fraction(gcd(*(int(grid * below) for grid in grids)), below)

    @cached_property
    def mechanism(self) -> Exponential:
        """The exact choice among scores in steps.

        Chances of two neighbours differ by a factor within the exponential of how far scores move *apart*, so that is
        what stands for the sensitivity of queries, without the 2.
        """
        if isinstance(self.brought, ScoreFunction):
            far = Fraction(self.call.sensitivity or 1) / self.step
            return Exponential(self.call.epsilon, int(far), self.call.monotone)
        return Exponential(self.call.epsilon, int(self._apart() / self.step), monotone=True)

    def _apart(self) -> Fraction:
        """How far one unit can move two scores apart.

        One that comes or goes moves each by a part of its range, all in the same direction; one that is replaced may
        leave one and enter another.
        """
        queries = self.queries()
        if self.neighbouring.relation is not Relation.ADD_REMOVE:
            return 2 * max(query.sensitivity(self.neighbouring) * query.grid for query in queries)
        cells = [(query.contribution(self.neighbouring), query.grid) for query in queries]
        ends = [(cell.low * (cell.rows or 1) * grid, cell.high * (cell.rows or 1) * grid) for cell, grid in cells]
        return max(high for _, high in ends) - min(low for low, _ in ends)

    def shortfall(self, beta: Fraction) -> float:
        steps = ceil(exponential_loss_up(self.mechanism.unit, len(self.candidates), beta))
        # A score is rounded down by less than a step; those of queries are whole numbers of them.
        return float(max(0, steps if isinstance(self.brought, ScoreFunction) else steps - 1) * self.step)

    def position(self, found: Sequence[Any], touched: Touched) -> int:
        if isinstance(self.brought, ScoreFunction):
            utilities = score_steps(found, Fraction(self.call.sensitivity or 1))
        elif isinstance(self.brought, Query):
            utilities = [int(value) for value in found]
        else:
            pairs = zip(found, self.brought, strict=True)
            utilities = [int(value * query.grid / self.step) for value, query in pairs]
        return self.mechanism.step(utilities, touched.source)


@dataclass(frozen=True)
class AskNearest(_AskCandidate[InverseSensitivityMechanism]):
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


def _check(candidates: Any) -> int:
    """How many there are; `InvalidParameter` for fewer than two, lists, and any twice."""
    listed = tuple(candidates)
    if len(listed) < 2 or not all(isinstance(each, _SCALARS) for each in listed):
        raise InvalidParameter('candidates are two or more public values, such as candidates=["a", "b"] or [0.5, 1, 2]')
    if len({(type(each) is bool, each) for each in listed}) != len(listed):
        raise InvalidParameter("candidates must be different")
    return len(listed)
