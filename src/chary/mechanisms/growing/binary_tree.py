"""Continual counting by noisy sums of consecutive steps: the binary tree mechanism, on the best tree for its length.

Sources: [DNPR10] Dwork, Naor, Pitassi and Rothblum, *Differential privacy under continual observation*; [CSS11] Chan,
Shi and Song, *Private and continual release of statistics*. Trees other than the full one:
`chary.accounting.continual`.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chary.accounting import Event, Joint, laplace_deviation
from chary.accounting.continual import Beyond, PrefixTree, best_tree, gaussian_beyond, laplace_beyond
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Gaussian, Integers, Laplace
from chary.mechanisms.growing.running_counts import Continual
from chary.mechanisms.padding import SMALL, padded, unpadded
from chary.noise import Source
from chary.numbers import Number

_NUMBER: Final = len(f"-{1000 * 2**40}, ")  # a thousand times the largest scale of noise


@dataclass(frozen=True)
class BinaryTree(Continual):
    """Each sum of the tree gets discrete noise when its last step comes, and keeps it.

    The increment that a row moves is in at most `tree.reach` sums, and all it moves in one of them is `l1`. So discrete
    Laplace noise of scale `reach l1/epsilon` is epsilon-DP, and discrete Gaussian noise of `sigma^2 = reach l1
    largest/(2 rho)` is rho-zCDP: a sum is released when it is complete, so this is a sequence of releases, of which the
    row is in `reach`, whatever was chosen in between. Only the noise of the sums is kept, no data.

    >>> tree = BinaryTree.for_epsilon(1, steps=1000)
    >>> tree.event().epsilon, tree.error_bar(1), tree.error_bar(17)
    (Fraction(1, 1), 9, 34)
    """

    steps: int
    noise: Laplace | Gaussian
    tree: PrefixTree
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
        tree = best_tree(steps, power=2)
        noise = Laplace.for_epsilon(epsilon, sensitivity=1, times=tree.reach * l1)
        return cls(steps, noise, tree, keys, l1, largest)

    @classmethod
    def for_rho(cls, rho: Number, *, steps: int, keys: int = 1, l1: int = 1, largest: int = 1) -> "BinaryTree":
        """Gaussian noise that is rho-zCDP for all steps together."""
        tree = best_tree(steps, power=1)
        noise = Gaussian.for_rho(rho, l2_squared=tree.reach * l1 * largest)
        return cls(steps, noise, tree, keys, l1, largest)

    def event(self) -> Event:
        """Log-moments of Laplace noise are convex in the change and 0 at 0, so that of all changes that add up to `l1`
        those that are as large as they can be are worst: as many of `largest` as fit, and the rest."""
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
        """Bytes for the noises of so many nodes, with brackets; what more they take comes off what is there for all."""
        return SMALL + nodes * (self.keys * _NUMBER + len("[], "))

    def deviation(self, step: int) -> float:
        return self._single * math.sqrt(self.tree.height(self.known(step)))

    def chance_beyond(self, step: int) -> Beyond:
        return self._sum(self.tree.height(self.known(step)))

    def chances_beyond(self) -> Sequence[tuple[Beyond, int]]:
        heights, steps = np.unique(self.tree.heights(), return_counts=True)
        return [(self._sum(height), often) for height, often in zip(heights.tolist(), steps.tolist(), strict=True)]

    def _sum(self, height: int) -> Beyond:
        if isinstance(self.noise, Laplace):
            return laplace_beyond(self.noise.scale, height)
        return gaussian_beyond(self.noise.sigma_squared, height)

    @property
    def _single(self) -> float:
        if isinstance(self.noise, Laplace):
            return laplace_deviation(self.noise.scale)
        return math.sqrt(self.noise.sigma_squared)
