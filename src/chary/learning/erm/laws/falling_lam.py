"""A regularisation that falls while data and budget grow: what noise costs and what lam costs stay in proportion."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Self

from sklearn.base import clone

from chary.accounting.numerics import decimal, precise, rounded_up
from chary.errors import InvalidParameter
from chary.learning.erm.linear import PrivateClassifier, PrivateLinear
from chary.learning.erm.losses import Floats
from chary.noise import Source
from chary.numbers import Number, positive, whole

# What noise on the optimum costs falls as 1/(lam epsilon n)^2, what lam costs rises with it: both as (epsilon n)^-2/3.
POWER: Final = Fraction(2, 3)


@dataclass(frozen=True)
class FallingLam:
    """The regularisation `lam (at/(epsilon n))^(2/3)`, in addition to a model's own, for n rows and a run's epsilon.

    Both are public, so it costs nothing. `lam` is what it is where epsilon times n is `at`.
    """

    lam: Fraction
    at: Fraction

    @classmethod
    def of(cls, pair: Sequence[Number]) -> Self:
        """From the pair (lam, at); `InvalidParameter` for anything else.

        >>> round(float(FallingLam.of(("0.1", 1000)).added(epsilon="0.5", size=16_000)), 9)
        0.025
        """
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidParameter(
                "falling is a pair: the lam that is added, and the epsilon times rows where it is so"
            )
        return cls(positive(pair[0], "lam"), positive(pair[1], "at"))

    def added(self, *, epsilon: Number, size: int) -> Fraction:
        """What is added to lam, rounded up to 18 digits: the same on every machine."""
        grown = positive(epsilon, "epsilon") * whole(size, "size") / self.at
        with precise():
            return rounded_up(decimal(self.lam) * (-decimal(POWER) * decimal(grown).ln()).exp())

    def scale(self) -> float:
        """`lam at^(2/3)`, which over `(epsilon n)^(2/3)` is what is added."""
        return float(self.lam) * math.pow(self.at, POWER)


@dataclass(frozen=True)
class FallingTrainer:
    """A model whose lam is worked out from the number of rows when it is trained."""

    model: PrivateLinear
    falling: FallingLam
    share: Fraction

    @property
    def epsilon(self) -> Number | None:
        return self.model.epsilon

    @property
    def delta(self) -> Number:
        return self.model.delta

    @property
    def rho(self) -> Number | None:
        return self.model.rho

    def targets(self, labels: Any) -> Floats:
        return self.model.targets(labels)

    def trained(self, rows: Floats, targets: Floats, source: Source) -> dict[str, Any]:
        return regularised(self.model, self.falling, self.share, len(rows)).trained(rows, targets, source)

    def body(self) -> dict[str, Any]:
        return self.model.body() | {"falling": [str(self.falling.lam), str(self.falling.at)]}


@dataclass(frozen=True)
class FallingClassifier(FallingTrainer):
    """One whose labels are listed."""

    model: PrivateClassifier

    @property
    def classes(self) -> Sequence[Hashable]:
        return self.model.classes


def falling_trainer(model: PrivateLinear, falling: FallingLam, share: Fraction) -> FallingTrainer:
    """The trainer of a model, for a run with this epsilon."""
    if isinstance(model, PrivateClassifier):
        return FallingClassifier(model, falling, share)
    return FallingTrainer(model, falling, share)


def regularised(model: PrivateLinear, falling: FallingLam, share: Number, size: int) -> PrivateLinear:
    """The model with the lam that so many rows and this epsilon have."""
    lam = positive(model.lam, "lam") + falling.added(epsilon=share, size=size)
    made: PrivateLinear = clone(model).set_params(lam=lam)
    return made
