"""Running counts: the binary tree and the factorisation by square roots."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Event, Joint, continual, laplace_deviation
from chary.errors import InvalidParameter
from chary.mechanisms.additive import SMALL, Gaussian, Integers, Laplace, padded, unpadded
from chary.noise import Source, add
from chary.numbers import Number, whole

# The interface of all mechanisms of continual counting.


class Continual(ABC):
    """Running counts or sums of `keys` keys at up to `steps` steps, where one row moves the increments of one step.

    `l1` is by how much it moves them, each key's by at most `largest`: 1 for counts, and in steps of the grid for
    totals. So the squares of what it moves add up to `l1 largest` at most. Guarantee: `event()` for all steps together,
    also when what comes next, and when, depends on what was published. The state between steps is secret. Distances are
    in rows, or in steps of the grid.
    """

    steps: int
    keys: int
    l1: int
    largest: int

    def __post_init__(self) -> None:
        for name in ("steps", "keys", "l1", "largest"):
            whole(getattr(self, name), name)

    @abstractmethod
    def event(self) -> Event:
        """What all steps together may reveal."""

    @abstractmethod
    def start(self) -> bytes:
        """The state before the first step."""

    @abstractmethod
    def tell(self, step: int, state: bytes, counts: Integers, source: noise.Source) -> tuple[list[int], bytes]:
        """The noisy counts of this step, from the exact ones and the state after the step before; and the state."""

    @abstractmethod
    def deviation(self, step: int) -> float:
        """The standard deviation of a count at this step, at most."""

    @abstractmethod
    def chance_beyond(self, step: int) -> continual.Beyond:
        """The probability that a count at this step is off by more than this many rows."""

    @abstractmethod
    def chances_beyond(self) -> Sequence[tuple[continual.Beyond, int]]:
        """The different distributions of `chance_beyond`, and at how many steps there is each."""

    def error_bar(self, step: int, confidence: Number = 0.95) -> int:
        """How far a count at this step may be off, with this probability."""
        return continual.error_up(self.chance_beyond(step), confidence=confidence)

    def worst_error(self, confidence: Number = 0.95) -> int:
        """How far any count may be off at any step, with this probability: the probabilities of all are added."""
        chances = self.chances_beyond()

        def beyond(rows: int) -> float:
            return self.keys * sum(steps * chance(rows) for chance, steps in chances)

        return continual.error_up(beyond, confidence=confidence)

    def known(self, step: int) -> int:
        """The step, if there is one of that number."""
        if whole(step, "step") > self.steps:
            raise InvalidParameter(f"there are {self.steps} steps")
        return int(step)


# Continual counting by noisy sums of consecutive steps: the binary tree mechanism, on the best tree for its length.
#
# Sources: [DNPR10] Dwork, Naor, Pitassi and Rothblum, *Differential privacy under continual observation*; [CSS11] Chan,
# Shi and Song, *Private and continual release of statistics*. Trees other than the full one:
# `chary.accounting.continual`.

_NUMBER: Final = len(f"-{1000 * 2**40}, ")  # a thousand times the largest scale of noise


@dataclass(frozen=True)
class BinaryTree(Continual):
    """Each sum of the tree gets discrete noise when its last step comes, and keeps it.

    The increment that a row moves is in at most `tree.reach` sums, and all it moves in one of them is `l1`. So discrete
    Laplace noise of scale `reach l1/epsilon` is epsilon-DP, and discrete Gaussian noise of
    `sigma^2 = reach l1 largest/(2 rho)` is rho-zCDP. A sum is released when it is complete. So this is a sequence of
    releases, of which the row is in `reach`, whatever was chosen in between. Only the noise of the sums is kept, no
    data.

    >>> tree = BinaryTree.for_epsilon(1, steps=1000)
    >>> tree.event().epsilon, tree.error_bar(1), tree.error_bar(17)
    (Fraction(1, 1), 9, 34)
    """

    steps: int
    noise: Laplace | Gaussian
    tree: continual.PrefixTree
    keys: int = 1
    l1: int = 1
    largest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tree.steps != self.steps:
            raise InvalidParameter("the tree is one of another number of steps")

    @classmethod
    def for_epsilon(cls, epsilon: Number, *, steps: int, keys: int = 1, l1: int = 1, largest: int = 1) -> "BinaryTree":
        """Laplace noise that is epsilon-DP for all steps together."""
        tree = continual.best_tree(steps, power=2)
        noise = Laplace.for_epsilon(epsilon, sensitivity=1, times=tree.reach * l1)
        return cls(steps, noise, tree, keys, l1, largest)

    @classmethod
    def for_rho(cls, rho: Number, *, steps: int, keys: int = 1, l1: int = 1, largest: int = 1) -> "BinaryTree":
        """Gaussian noise that is rho-zCDP for all steps together."""
        tree = continual.best_tree(steps, power=1)
        noise = Gaussian.for_rho(rho, l2_squared=tree.reach * l1 * largest)
        return cls(steps, noise, tree, keys, l1, largest)

    def event(self) -> Event:
        """Log-moments of Laplace noise are convex in the change and 0 at 0. So of all changes that add up to `l1` those
        that are as large as they can be are worst: as many of `largest` as fit, and the rest.
        """
        reach, largest = self.tree.reach, min(self.largest, self.l1)
        if not isinstance(self.noise, Laplace):
            return replace(self.noise, l2_squared=reach * self.l1 * largest).event()
        many, rest = divmod(self.l1, largest)
        worst = replace(self.noise, sensitivity=largest, times=reach * many).event()
        return Joint((worst, replace(self.noise, sensitivity=rest, times=reach).event())) if rest else worst

    def start(self) -> bytes:
        return padded(b"[]", self._room(0))

    def tell(self, step: int, state: bytes, counts: Integers, source: Source) -> tuple[list[int], bytes]:
        # Noises of finished sums are dropped from the end: those of the step before that this step shares come first.
        kept = json.loads(unpadded(state))[: self.tree.height(self.known(step)) - 1]
        noises = [*kept, self.noise.draw(source, self.keys).tolist()]
        told = [sum(parts) for parts in zip(counts.tolist(), *noises, strict=True)]
        return told, padded(json.dumps(noises).encode(), self._room(len(noises)))

    def _room(self, nodes: int) -> int:
        """Bytes for the noises of this many nodes, with brackets; what more they take comes off the bytes of all."""
        return SMALL + nodes * (self.keys * _NUMBER + len("[], "))

    def deviation(self, step: int) -> float:
        return self._single * math.sqrt(self.tree.height(self.known(step)))

    def chance_beyond(self, step: int) -> continual.Beyond:
        return self._sum(self.tree.height(self.known(step)))

    def chances_beyond(self) -> Sequence[tuple[continual.Beyond, int]]:
        heights, steps = np.unique(self.tree.heights(), return_counts=True)
        return [(self._sum(height), often) for height, often in zip(heights.tolist(), steps.tolist(), strict=True)]

    def _sum(self, height: int) -> continual.Beyond:
        if isinstance(self.noise, Laplace):
            return continual.laplace_beyond(self.noise.scale, height)
        return continual.gaussian_beyond(self.noise.sigma_squared, height)

    @property
    def _single(self) -> float:
        if isinstance(self.noise, Laplace):
            return laplace_deviation(self.noise.scale)
        return math.sqrt(self.noise.sigma_squared)


# Continual counting by the square root of all running sums, with exact Gaussian noise.
#
# Sources: Henzinger, Upadhyay and Upadhyay, *Almost tight error bounds on differentially private continual counting*
# (2023); Fichtenberger, Henzinger and Upadhyay, *Constant matters* (2023). Integers instead of real ones are ours.

# 16 bytes each: the state stays below 16 megabytes, which every step reads and writes.
MOST_KEPT: Final = 2**20
# Sums below 2**62 cannot wrap around in int64; larger ones are taken in Python ints.
_WIDE: Final = 2**62


@dataclass(frozen=True)
class RootFactorisation(Continual):
    """Step t draws one noise z_t and forms `y_t = sum of C_(t-s) x_s + z_t` from the increments x, weights C whole.

    The increment that a row moves is in y_t with a weight of `C_(t-s)`. So all that it moves has the squared length
    `l1 largest times the sum of the C_k^2` at most, which is exact. Discrete Gaussian noise of `sigma^2` = that over 2
    rho makes all y together rho-zCDP. What is published is the running sum of what the inverse of C makes of y. It
    depends on the data through y only, and is rounded to whole rows. Increments are kept, and what y says of them: 16
    bytes a step and key.

    >>> root = RootFactorisation.for_rho("0.5", steps=1000)
    >>> round(root.deviation(1), 2), round(root.deviation(1000), 2), root.worst_error()
    (1.81, 3.27, 13)
    """

    steps: int
    noise: Gaussian
    keys: int = 1
    l1: int = 1
    largest: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps * self.keys > MOST_KEPT:
            raise InvalidParameter(f"steps times keys may be at most {MOST_KEPT} for the root: it keeps all of them")

    @classmethod
    def for_rho(cls, rho: Number, *, steps: int, keys: int = 1, l1: int = 1, largest: int = 1) -> "RootFactorisation":
        """Noise that is rho-zCDP for all steps together."""
        noise = Gaussian.for_rho(rho, l2_squared=continual.root_length(steps) * l1 * largest)
        return cls(steps, noise, keys, l1, largest)

    def event(self) -> Event:
        return replace(self.noise, l2_squared=continual.root_length(self.steps) * self.l1 * self.largest).event()

    def start(self) -> bytes:
        return b""

    def tell(self, step: int, state: bytes, counts: Integers, source: Source) -> tuple[list[int], bytes]:
        increments, solved = self._loaded(self.known(step) - 1, state)
        increments = np.vstack([increments, counts.astype(np.int64) - increments.sum(axis=0)])
        weights = continual.root_weights(self.steps)[step - 1 :: -1]
        # From here on all is a function of the noisy sums: floats may round, and tell nothing more of the data.
        noisy = add(_sums(weights, increments), self.noise.draw(source, self.keys))
        rest = noisy.astype(np.float64) - weights[:-1].astype(np.float64) @ solved
        solved = np.vstack([solved, rest / float(weights[-1])])
        told = np.rint(solved.sum(axis=0)).tolist()
        return [int(count) for count in told], increments.tobytes() + solved.tobytes()

    def deviation(self, step: int) -> float:
        return float(self._deviations[self.known(step) - 1])

    def chance_beyond(self, step: int) -> continual.Beyond:
        return continual.normal_beyond(self.deviation(step))

    def chances_beyond(self) -> Sequence[tuple[continual.Beyond, int]]:
        return [(continual.normal_beyond(self._deviations), 1)]

    @cached_property
    def _deviations(self) -> NDArray[np.float64]:
        return np.asarray(continual.root_deviations(self.steps) * math.sqrt(self.noise.sigma_squared))

    def _loaded(self, steps: int, state: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        shape, middle = (steps, self.keys), len(state) // 2
        increments = np.frombuffer(state[:middle], np.int64).reshape(shape)
        return increments, np.frombuffer(state[middle:], np.float64).reshape(shape)


def _sums(weights: NDArray[np.int64], increments: NDArray[np.int64]) -> NDArray[Any]:
    """The weighted sums of the columns, which never wrap around."""
    largest = int(weights.max()) * int(np.abs(increments).sum(axis=0, dtype=object).max())
    kind = np.int64 if largest < _WIDE else object
    return np.asarray(weights.astype(kind) @ increments.astype(kind))
