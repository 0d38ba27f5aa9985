"""A value that is told again only when it has changed, by a two-sided sharp test against the last one that was told."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.accounting import Event, ZeroConcentrated
from chary.accounting.sharp_tests import TwoSidedTable
from chary.calls.answers import Tracked, published
from chary.calls.call import Bound
from chary.calls.thresholds.how_sharply import FreshlyValued, Sharply
from chary.calls.thresholds.sharpness import Sharpness
from chary.core.plan import Barred, Json, Ran, Touched, natural, steps_at_least
from chary.data import Query
from chary.mechanisms import Additive, Gaussian
from chary.mechanisms.threshold_tests import TwoSidedSampler
from chary.numbers import Number

# An answer that did not change covers the truth but for so many of all times: half of what an error bar leaves out.
_MISSED: Final = Fraction(1, 40)


@dataclass(frozen=True)
class AskChanged(Sharply, Bound[FreshlyValued[Tracked]]):
    """The first value, or whether it is `step` or more from the `prior`, the last value told in grid steps, and then a
    fresh one.

    The first is an ordinary release with the noise of all later ones, and costs no more than that.
    """

    sharpness: Sharpness
    query: Query
    step: Number
    prior: int | None = None

    @cached_property
    def noise(self) -> Gaussian:
        """The noise of a value."""
        change = self.query.sensitivity(self.neighbouring)
        return Gaussian.for_rho(self._rho, l2_squared=change**2)

    @property
    def _rho(self) -> Fraction:
        return self.sharpness.value_rho or Fraction(0)

    @cached_property
    def sampler(self) -> TwoSidedSampler:
        """The test of a difference from the prior."""
        change = steps_at_least(self.step, self.query.grid, "step")
        return TwoSidedSampler(TwoSidedTable(self.sharpness.sampler.table, change - self.sharpness.bar))

    @property
    def barred(self) -> Barred | None:
        """How far the value is from the prior, against the step; a first value is told in any case."""
        if self.prior is None:
            return None
        change = steps_at_least(self.step, self.query.grid, "step")
        return Barred(self.sharpness.tails, change, self.query.grid, self.call.tests or 1, 0)

    @property
    def event(self) -> Event:
        return ZeroConcentrated(self._rho) if self.prior is None else self.sharpness.event

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    def body(self) -> Json:
        """The question without the prior, so that the next time finds this answer by it."""
        asked: dict[str, Any] = super().body()
        return {"query": asked.pop("question")} | asked

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        value, prior = touched.integer(), self.prior
        if prior is not None and not self.sampler.step(value - prior, touched.source):
            return Ran({"value": prior, "hit": False}, hits=0, tests=1)
        told = self.noise.apply_one(value, touched.source)
        return Ran({"value": told, "hit": True}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Tracked:
        told = published(self.noise, self.query, self.neighbouring) if answer["hit"] else None
        bar = self.error_bar if answer["hit"] else float(self._unnoticed * self.query.grid)
        return Tracked(call, natural(answer["value"], self.query.grid), answer["hit"], bar, publication=told)

    @property
    def _unnoticed(self) -> int:
        """How many steps from the prior a value may be, but for a part of all times, without being told anew."""
        return max(0, self.sampler.table.miss_reach(_MISSED) - 1)
