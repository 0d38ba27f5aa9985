"""Many sessions on the same made-up or borrowed rows, each with a budget of its own that the attacker spends whole."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary import noise
from chary.audit.limits import sizes
from chary.calls import NoisyNumbers, Release
from chary.data import Count, Rows, count
from chary.filters import Budget
from chary.numbers import Number, whole
from chary.session import Session, open, open_rows

Progress = Callable[[int, int], None]
Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
# Any small rho tells the price of a unit of it, which is linear. A thousandth less than the quotient, and whole steps
# downwards, keep the roundings of so many prices within the budget.
PROBE = Fraction(1, 1000)
MARGIN = Fraction(999, 1000)
STEPS = 10**12


def generator(seed: int | None) -> np.random.Generator:
    """What draws people and secrets: from the seed, or from the operating system if it is None."""
    return np.random.default_rng(None if seed is None else whole(seed, "seed", least=0))


def checked(epsilon: Number, delta: Number = 0) -> Budget:
    """The attacker's budget; `InvalidParameter` for sizes that no budget has and for an epsilon above 700."""
    sizes(epsilon, delta)
    return Budget(epsilon, delta)


def attacked(rows: Rows, budget: Budget, rng: np.random.Generator, seed: int | None) -> Session:
    """A new session with a whole budget; with a seed its noise is reproducible, and so no protection."""
    return open_rows(rows, dataset="attacked", budget=budget, ledger=":memory:", unsafe_noise=source_of(rng, seed))


def source_of(rng: np.random.Generator, seed: int | None) -> noise.Source | None:
    """The noise of one session: reproducible, or None for that of the operating system."""
    return None if seed is None else noise.Seeded(int(rng.integers(2**63)))


def largest_size(session: Session, question: Count, questions: int) -> dict[str, Any]:
    """The size with which so many releases like this one spend the budget: epsilon if it is pure, otherwise rho.

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
    whose: dict[str, Any] = {"privacy_unit": "person", "relation": "replace"}
    with open(table, **whose, ledger=":memory:", budget=budget, unsafe_noise=source) as session:
        answers = session.release(question, **largest_size(session, question, 1))
    assert isinstance(answers, NoisyNumbers)
    return np.asarray(answers.values, dtype=np.float64)


def _down(size: Fraction) -> Fraction:
    """The size in whole steps of 1e-12, so that so many of them fit."""
    return Fraction(int(size * STEPS), STEPS)
