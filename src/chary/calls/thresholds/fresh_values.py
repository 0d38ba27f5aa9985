"""A conditional release by a sharp test: at a hit the value with noise of its own, otherwise nothing, free."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Publication
from chary.calls.answers import Conditional, published
from chary.calls.numbers.releasing import noises, noisy_parts, parts_of
from chary.calls.thresholds.barring import Barring
from chary.calls.thresholds.how_sharply import Sharply
from chary.calls.thresholds.sharpness import Sharpness
from chary.core.plan import Barred, Json, Ran, Touched, error_bar, natural
from chary.data import Mean, Query
from chary.mechanisms import Additive


@dataclass(frozen=True)
class AskSharpRelease(Sharply, Barring[Any]):
    """The sharp test of `tested` against a threshold in steps, and at a hit a release of the query.

    The value is drawn for that purpose alone, so it is unbiased and its interval is an ordinary one; nothing is held.
    """

    sharpness: Sharpness
    tested: Query
    threshold: int

    @cached_property
    def noises(self) -> tuple[Additive, ...]:
        """The noise of each part of the value."""
        return noises(self.call.query, self.neighbouring, epsilon=None, rho=self.sharpness.value_rho)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        drawn = self.noises
        return None if isinstance(self.call.query, Mean) else (drawn[0], self.call.query.grid)

    @property
    def barred(self) -> Barred | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(self.sharpness.tails, self.tested, self.threshold)

    def queries(self) -> Sequence[Query]:
        """The parts of the value, the last of which is tested; for a mean none of them is, but a total after them."""
        parts = parts_of(self.call.query, self.neighbouring)
        return (*parts, self.tested) if isinstance(self.call.query, Mean) else parts

    def run(self, touched: Touched) -> Ran:
        above = touched.integer(-1) - self.threshold + self.sharpness.bar
        if not self.sharpness.sampler.step(above, touched.source):
            return Ran({"value": None}, hits=0, tests=1)
        noisy, query = noisy_parts(self.noises, touched), self.call.query
        value = query.combine(*noisy) if isinstance(query, Mean) else natural(noisy[0], query.grid)
        return Ran({"value": value}, hits=1, tests=1)

    def present(self, answer: Json, call: int) -> Conditional:
        told = None if isinstance(self.call.query, Mean) else self.published()
        return Conditional(call, answer["value"], error_bar(self.accuracy()), call, publication=told)

    def published(self) -> Publication:
        """A value with noise of its own, after a test against the bar."""
        return published(self.noises[0], self.tested, self.neighbouring, bar=self.threshold)
