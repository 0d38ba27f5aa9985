"""What else would keep the same promise: how far off tests and values are, by methods that do not charge by the hit."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from chary.accounting.gaussian_noise import gaussian_sigma
from chary.accounting.sparse_vector import sparse_half_width_up
from chary.calls import SparseVector
from chary.filters import Budget
from chary.session import Session

SURE: Final = 0.95
OWN: Final = "chary, charged by the hit"
# Of a budget, in thousandths: finer than anything that is told.
_PARTS: Final = 1000


def _reach(chance: float) -> float:
    """Beyond which a standard normal number is with this chance."""
    return -NormalDist().inv_cdf(chance)


@dataclass(frozen=True)
class Precision:
    """All tests of a method are right, 95 times in 100, for counts farther than `tests` from the bar; each published
    value is within `values` of the truth, 95 times in 100."""

    name: str
    tests: float
    values: float


@dataclass(frozen=True)
class Rivals:
    """The other methods for so many tests, of which one person can be in all, and so many hits.

    They have the whole budget to themselves. Sparse vectors take of it what makes their values as precise as `values`,
    by Gaussian noise, and the rest for their tests: the budgets of both add up.
    """

    budget: Budget
    tests: int
    hits: int

    def all(self, session: Session, values: float) -> list[Precision]:
        """The best first; `session` is one that can quote, and is charged nothing."""
        epsilon = self._left_for_tests(values)
        one_sided = float(sparse_half_width_up(epsilon=epsilon, tests=self.tests, hits=self.hits, sure=str(SURE)))
        tuned = SparseVector(above=1, hits=self.hits, epsilon=epsilon, form="tuned", monotone=True)
        found = session.quote(tuned, tests=self.tests, confidence=str(SURE)).within
        released = self.released(self.tests)
        return [
            Precision("one-sided sparse vector", one_sided, values),
            Precision("tuned sparse vector", math.inf if found is None else found.error, values),
            Precision("Gaussian release of all", released, self.sigma(self.tests) * _reach((1 - SURE) / 2)),
        ]

    def sigma(self, answers: int) -> float:
        """The standard deviation of Gaussian noise on so many answers, if one person can be in all of them."""
        epsilon, delta = self.budget.exact
        return gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=str(math.sqrt(answers)))

    def released(self, answers: int) -> float:
        """Within how much of the truth all of so many released answers are together."""
        return self.sigma(answers) * _reach((1 - SURE) / (2 * answers))

    def answers_within(self, error: float) -> int:
        """How many answers can be released that are together within that."""
        few, many = 1, self.tests
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self.released(middle) <= error else (few, middle)
        return few

    def _left_for_tests(self, values: float) -> str:
        """Epsilon without what Gaussian noise of so precise values takes for all hits."""
        epsilon, delta = (float(part) for part in self.budget.exact)
        wanted, sensitivity = values / _reach((1 - SURE) / 2), str(math.sqrt(self.hits))
        few, many = 1, _PARTS - 1
        while many - few > 1:
            middle = (few + many) // 2
            taken = str(epsilon * middle / _PARTS)
            precise = gaussian_sigma(epsilon=taken, delta=str(delta), sensitivity=sensitivity) <= wanted
            few, many = (few, middle) if precise else (middle, many)
        return str(epsilon * (_PARTS - many) / _PARTS)
