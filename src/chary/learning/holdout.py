"""A reusable holdout for adaptive questions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chary import noise
from chary.accounting import Targeted
from chary.answers import Spending
from chary.calls import Algorithm, RunAlgorithm
from chary.data import public_size
from chary.data.source import arrow
from chary.errors import AlgorithmFailed, BudgetExceeded, InvalidParameter, InvalidQuery
from chary.filters import largest_call_left
from chary.mechanisms import Laplace
from chary.numbers import Number, positive, probability, whole
from chary.session import Session

# A reusable holdout: it reports means on the training rows as long as the holdout agrees.

Function = Callable[[pa.Table], Any]
# The value of a row and a reported mean are rounded to 1/1000.
GRID: Final = 1000
AGREES: Final = "agrees"
_PREFIX: Final = "holdout "


@dataclass(frozen=True)
class HeldOut:
    """The answer to one question: the training mean if the holdout `agrees`, otherwise the holdout's noisy mean, in
    steps of 1/1000 from 0 to 1.
    """

    name: str
    value: float
    training: float
    agrees: bool
    charged: Spending


class ReusableHoldout:
    """Answers adaptive questions about the mean of a function on rows that are held out, without wearing them out.

    The analyst may look at the `training` rows at will. A question is a function of rows with values in [0, 1]. The
    answer is the training mean, unless the holdout's mean with noise is farther off than `tolerance`: then it is that
    noisy mean. Only such disagreements are charged; an analyst who does not overfit can ask for ever. Here the training
    rows stand in for the holdout, as in Thresholdout, but with no noise on the threshold and a hit that brings its
    value.

    Guarantee for the holdout rows: each question is one epsilon-DP call with the NotPrior target "disagrees" (theory
    1.2). It goes through the session, whose budget covers all of them together and everything else that is asked of it.
    It needs of the analyst what an `Algorithm` needs: a function's value for a row follows from that row and from what
    is public. So it uses no ranks, no means over rows, and raises no error that depends on a row. Values are clipped
    and rounded to 1/1000; what is no number counts 0. The name identifies the function: one name, one function.

    Guarantee for the population: see `within_population`. After `hits` disagreements it answers nothing more. Without
    `epsilon`, it is the largest with which that many hits fit into what is left of the budget now.

    Errors: `InvalidQuery` unless each row is a unit that is replaced, so that the number of rows is public.
    `InvalidParameter` where the session's filter cannot make agreement free at this epsilon (open it with `grain=`).
    `BudgetExceeded` after the last disagreement, or when the session's budget is exhausted. `AlgorithmFailed`, charged
    as a disagreement, for a function that raises or has no value for each row.

    Source: theory chapter 9; Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015, "The reusable holdout".

    >>> import chary
    >>> draw = np.random.default_rng(1)
    >>> rows = pa.table({"old": draw.integers(0, 2, 4000), "ill": draw.integers(0, 2, 4000)})
    >>> budget = chary.Budget(epsilon=1, delta=1e-6)
    >>> session = chary.open(rows[2000:], privacy_unit=None, neighbors="replace", budget=budget, ledger=":memory:")
    >>> holdout = ReusableHoldout(session, rows[:2000], tolerance="0.2", hits=5)
    >>> same = holdout.ask("old = ill", lambda rows: np.equal(rows["old"], rows["ill"]))
    >>> same.agrees, float(same.charged.share)
    (True, 0.0)
    """

    def __init__(
        self,
        session: Session,
        training: Any,
        *,
        tolerance: Number,
        hits: int,
        epsilon: Number | None = None,
        name: str = "",
    ) -> None:
        near = session.spine.rows.neighbor_relation
        if near.unit is not None:
            raise InvalidQuery("a holdout is of rows that are units of their own: open it with privacy_unit=None")
        self.size = public_size(session.spine.rows)
        self._session, self._training = session, arrow(training)[0]
        self.tolerance, self.hits = probability(tolerance, "tolerance"), whole(hits, "hits")
        self._name, spine = f"{_PREFIX}{name}:", session.spine
        size = largest_call_left(spine.filter, spine.accounts(), self.hits) if epsilon is None else epsilon
        self.epsilon = positive(size, "epsilon")
        if not spine.filter.price(Targeted(self.epsilon)).free_miss:
            raise InvalidParameter(
                "agreement would not be free at this epsilon: open the session with a delta and with "
                f"grain={float(self.epsilon):g}, or take a smaller epsilon"
            )
        told = (entry for entry in session.history if entry.kind == "call" and entry.hits)
        self._hit = {entry.call for entry in told if str(entry.question.get("algorithm")).startswith(self._name)}
        if not self.size or not self._training.num_rows:
            raise InvalidParameter("a holdout needs rows, and so does training")

    @property
    def disagreements(self) -> int:
        """The number of disagreements so far, including earlier sessions of the same ledger."""
        return len(self._hit)

    def ask(
        self, name: str, function: Function, *, columns: Sequence[str] | None = None, request: str | None = None
    ) -> HeldOut:
        """The mean of the function: that of the training rows if the holdout agrees, and free; else the holdout's.

        `function` takes an Arrow table of the `columns` (all without) and returns a value from 0 to 1 for each row.
        """
        if len(self._hit) >= self.hits:
            raise BudgetExceeded(f"the holdout disagreed {self.hits} times, as often as it was opened for")
        kept = self._training if columns is None else self._training.select(list(columns))
        training = sum(_steps(function(kept), kept.num_rows)) / (GRID * kept.num_rows)
        known = {"training": training, "tolerance": float(self.tolerance), "scale": str(GRID / self.epsilon)}
        algorithm = Algorithm(
            self._name + name, partial(_told, function), self.epsilon, columns=columns, parameters=known
        )
        try:
            outcome = self._session.ask(RunAlgorithm(algorithm, prior=AGREES), request=request)
        except AlgorithmFailed:
            self._hit.add(-1 - len(self._hit))
            raise
        if outcome.hit:
            self._hit.add(outcome.call)
        agrees = outcome.value == AGREES
        return HeldOut(name, training if agrees else outcome.value, training, agrees, outcome.charged)

    def within(self, functions: int, confidence: Number = "0.95") -> float:
        """How far this many answers are from the holdout's own means at most, all at once with this probability.

        An answer that disagrees is nearer, by the tolerance; and a function whose training mean is within the tolerance
        less as much of the holdout's never disagrees.
        """
        side = (1 - probability(confidence, "confidence")) / (2 * whole(functions, "functions"))
        reach = self._noise.law().reach_up(side)
        # Half a step for rounding each row, and half a step for rounding the mean.
        return float(self.tolerance) + reach / (GRID * self.size) + 1 / GRID

    def within_population(self, functions: int, confidence: Number = "0.95") -> float:
        """How far this many answers are from the means of the population that the holdout was drawn from, all at once.

        The bound follows from the length of the description, not from privacy. The analyst knows of the holdout which
        questions disagreed, `hits` of them at most, and one of 1,002 outcomes of each. Let N be the number of such
        transcripts. However questions are chosen, no more than `functions` times N can come up. Each mean on n rows is
        within `sqrt(ln(2 N functions / beta) / (2n))` of its expectation (Hoeffding). Half of the risk is the noise's.
        It holds if the analyst learns of the holdout by these answers alone. Above 1 it says nothing.
        """
        beta = float(1 - probability(confidence, "confidence")) / 2
        asked = whole(functions, "functions")
        outcomes = math.log(GRID + 2)
        logs = [math.log(math.comb(asked, hits)) + hits * outcomes for hits in range(min(self.hits, asked) + 1)]
        transcripts = float(np.logaddexp.reduce(logs))
        drawn = math.sqrt((transcripts + math.log(2 * asked / beta)) / (2 * self.size))
        return self.within(functions, 1 - Fraction(beta)) + drawn

    @property
    def _noise(self) -> Laplace:
        return Laplace.for_epsilon(self.epsilon, sensitivity=GRID)


def _steps(values: Any, rows: int) -> list[int]:
    """The values of all rows in whole steps."""
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (rows,):
        raise InvalidParameter("a function has one value for each row")
    inside = np.clip(np.nan_to_num(found, nan=0.0), 0, 1)
    steps: list[int] = np.rint(inside * GRID).astype(np.int64).tolist()
    return steps


def _told(
    function: Function, rows: pa.Table, source: noise.Source, /, training: float, tolerance: float, scale: str
) -> float | str:
    """The algorithm: post-processing of the noisy sum, which one row moves by `GRID` at most."""
    total = sum(_steps(function(rows), rows.num_rows))
    noisy = total + int(noise.discrete_laplace(source, Fraction(scale), 1)[0])
    mean: float = noisy / (GRID * rows.num_rows)
    if abs(mean - training) <= tolerance:
        return AGREES
    return round(min(1.0, max(0.0, mean)) * GRID) / GRID
