"""What no attacker can do better (docs/explanation/attacks.md has the proofs), and sessions for attackers to spend."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from chary import noise
from chary.calls import NoisyNumbers, Release
from chary.data import Count, Rows, count
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.ledger import IN_MEMORY
from chary.numbers import Number, whole
from chary.session import Session, open
from chary.session.opening import BudgetChoice, Place, session_of

# What no attacker can do better against a differentially private release (docs/explanation/attacks.md has the proofs).

# exp(700) is still a float, and a limit of 1 is attained long before.
LARGEST = 700


def guess_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest probability of guessing a fair bit from an (epsilon, delta)-DP release.

    It is (e^epsilon + delta)/(1 + e^epsilon), attained by randomized response and by a count with Laplace noise.

    The bit decides which of two neighbours was asked, both with probability 1/2; all else may be known to the attacker.

    >>> round(guess_limit(1), 4), round(guess_limit(1, 0.1), 4), guess_limit(700)
    (0.7311, 0.758, 1.0)
    """
    size, spare = sizes(epsilon, delta)
    return (1 + spare * math.exp(-size)) / (1 + math.exp(-size))


def value_limit(epsilon: Number, shares: Sequence[float]) -> float:
    """The largest probability of guessing one of several values, of which any two are epsilon-indistinguishable.

    `shares` are the probabilities of the values before the release; they add up to 1. The limit is the largest over m
    of the proportion of the m likeliest values divided by 1 + (m - 1) e^-epsilon.

    >>> round(value_limit(1, [0.5, 0.5]), 4), value_limit(1, [0.9, 0.1]), round(value_limit(1, [0.25] * 4), 4)
    (0.7311, 0.9, 0.4754)
    """
    size, _ = sizes(epsilon, 0)
    if not shares or min(shares) < 0 or not math.isclose(sum(shares), 1):
        raise InvalidParameter("shares must be probabilities that add up to 1")
    masses = accumulate(sorted(shares, reverse=True))
    return max(mass / (1 + more * math.exp(-size)) for more, mass in enumerate(masses))


def roc_limit(fpr: ArrayLike, epsilon: Number, delta: Number = 0) -> NDArray[np.float64]:
    """The largest true-positive rate at each false-positive rate: the lower of e^epsilon fpr + delta and
    1 - e^-epsilon (1 - delta - fpr), at most 1.

    >>> roc_limit([0, 0.05, 1], 1).round(4).tolist()
    [0.0, 0.1359, 1.0]
    """
    size, spare = sizes(epsilon, delta)
    rates = np.asarray(fpr, dtype=np.float64)
    if np.any(~((rates >= 0) & (rates <= 1))):
        raise InvalidParameter("false-positive rates lie between 0 and 1")
    rising = math.exp(size) * rates + spare
    bending = 1 - math.exp(-size) * np.maximum(0, 1 - spare - rates)
    return np.asarray(np.minimum(rising, bending))


def auc_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest area under the ROC curve: that under `roc_limit`.

    >>> round(auc_limit(1), 4), auc_limit("1e-9", 0.5)
    (0.7311, 0.875...)
    """
    _, spare = sizes(epsilon, delta)
    top = guess_limit(epsilon, delta)
    bend = 1 - top
    return bend * (spare + top) / 2 + (top - spare) * (top + 1) / 2 + spare


def advantage_limit(epsilon: Number, delta: Number = 0) -> float:
    """The largest difference between the true- and the false-positive rate: twice `guess_limit`, less 1.

    >>> round(advantage_limit(1), 4)
    0.4621
    """
    return 2 * guess_limit(epsilon, delta) - 1


def sizes(epsilon: Number, delta: Number) -> tuple[float, float]:
    """Both as floats, once they have been checked like a budget."""
    size, spare = Budget(epsilon, delta).exact
    if size > LARGEST:
        raise InvalidParameter(f"epsilon must be at most {LARGEST}, where nothing is protected any more")
    return float(size), float(spare)


# Many sessions on the same made-up or borrowed rows, each with a budget of its own that the attacker spends whole.

Progress = Callable[[int, int], None]
T = TypeVar("T")
Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
# Any small rho says the price of a unit of it, which is linear. A thousandth less than the quotient, and whole steps
# downwards, keep the roundings of this many costs within the budget.
PROBE = Fraction(1, 1000)
MARGIN = Fraction(999, 1000)
STEPS = 10**12


@dataclass(frozen=True)
class Figures:
    """What an attack found, in fields."""

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


def in_turn(items: Sequence[T], on_progress: Progress | None) -> Iterator[T]:
    """The items one after another; `on_progress` is called after each, with how many are done, and of how many."""
    for done, item in enumerate(items, 1):
        yield item
        if on_progress is not None:
            on_progress(done, len(items))


def generator(seed: int | None) -> np.random.Generator:
    """What draws people and secrets: from the seed, or from the operating system if it is None."""
    return np.random.default_rng(None if seed is None else whole(seed, "seed", least=0))


def checked(epsilon: Number, delta: Number = 0) -> Budget:
    """The attacker's budget; `InvalidParameter` for sizes that no budget has and for an epsilon above 700."""
    sizes(epsilon, delta)
    return Budget(epsilon, delta)


def attacked(rows: Rows, budget: Budget, rng: np.random.Generator, seed: int | None) -> Session:
    """A new session with a whole budget; with a seed its noise is reproducible, and so no protection."""
    source, name = source_of(rng, seed), "attacked"
    return session_of(rows, BudgetChoice(budget), Place(IN_MEMORY), (name, name), unsafe_noise=source)


def source_of(rng: np.random.Generator, seed: int | None) -> noise.Source | None:
    """The noise of one session: reproducible, or None for that of the operating system."""
    return None if seed is None else noise.Seeded(int(rng.integers(2**63)))


def largest_size(session: Session, question: Count, questions: int) -> dict[str, Any]:
    """The size with which this many releases like this one spend the budget: epsilon if it is pure, otherwise rho.

    A rho is within one part in a thousand of the largest.
    """
    epsilon, delta = session.spine.filter.budget.exact
    if not delta:
        return {"epsilon": _down(epsilon / questions)}
    share = session.quote(Release(question, rho=PROBE)).price_if_hit
    rho = PROBE * MARGIN / Fraction(share) / questions
    return {"rho": _down(rho)}


def published_counts(having: Bits, budget: Budget, rng: np.random.Generator, seed: int | None) -> Floats:
    """How many people have each attribute, as one session releases it for its whole budget; people may be replaced.

    `having` is people by attributes.
    """
    person, attribute = np.nonzero(having)
    table = pa.table({"person": person, "attribute": attribute})
    question, source = count().by("attribute", range(having.shape[1])), source_of(rng, seed)
    whose: dict[str, Any] = {"privacy_unit": "person", "neighbors": "replace"}
    with open(table, **whose, ledger=":memory:", budget=budget, unsafe_noise=source) as session:
        answers = session.release(question, **largest_size(session, question, 1))
    assert isinstance(answers, NoisyNumbers)
    return np.asarray(answers.values, dtype=np.float64)


def _down(size: Fraction) -> Fraction:
    """The size in whole steps of 1e-12, so that this many of them fit."""
    return Fraction(int(size * STEPS), STEPS)
