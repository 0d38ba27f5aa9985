"""Noise whose outcomes are told instead of drawn, and their chances: the real calls run on each in turn."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Told:
    """Stands for the noise of a call: whatever the exact values are, these are the noisy ones."""

    noisy: tuple[int, ...]

    def apply(self, values: Any, source: Any) -> Any:
        """The values that were told."""
        assert len(values) == len(self.noisy)
        return np.array(self.noisy)

    def apply_one(self, value: int, source: Any) -> int:
        """The single value that was told."""
        (noisy,) = self.noisy
        return noisy


@dataclass(frozen=True)
class Heard(Told):
    """Values that were told, and how exact the noise would have made them."""

    noise: Any

    def error_bar(self, confidence=0.95):
        """That of the noise."""
        return self.noise.error_bar(confidence)


def law(noise, value, low, high):
    """The chances of all noisy values of an exact one, those beyond `low` and `high` counted there.

    Both neighbours' values must lie strictly between: then the chances beyond differ by one factor, so nothing is lost.
    """
    assert low < value < high
    chances = {noisy: noise.at_least(noisy - value) - noise.at_least(noisy + 1 - value) for noisy in range(low, high)}
    return chances | {low: 1 - noise.at_least(low + 1 - value), high: noise.at_least(high - value)}


def with_fields(made, **fields):
    """A frozen value with some of its fields, cached ones included, replaced."""
    for name, value in fields.items():
        object.__setattr__(made, name, value)
        made.__dict__[name] = value
    return made
