"""One of a list of candidates by scores of the caller's own: the exponential mechanism in its general form."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, gcd, lcm
from typing import Any

from chary.accounting import exponential_loss_up
from chary.calls.answers import ChosenKey
from chary.calls.call import Call, call
from chary.calls.fields import Flag, Keys, Positive
from chary.calls.selection.chosen_candidates import AskCandidate, checked
from chary.calls.selection.score_functions import ScoreFunction, Scores, score_step, score_steps
from chary.core.plan import Touched
from chary.core.transaction import Spine
from chary.data import Query, Relation
from chary.errors import InvalidParameter
from chary.mechanisms import Exponential


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
        listed = checked(self.candidates)
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


@dataclass(frozen=True)
class AskExponential(AskCandidate[ExponentialMechanism]):
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
