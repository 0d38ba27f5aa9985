"""Reports that are repeated: bits that are randomized once for all, and once more for each report (RAPPOR)."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.accounting.local_reports import Channel
from chary.accounting.numerics import float_up
from chary.errors import InvalidParameter
from chary.mechanisms.local.local_reports import Integers, LocalReports
from chary.mechanisms.local.one_hot_reports import OneHotReports
from chary.numbers import Number, plain, positive, whole

# Several roundings of floats on chances and their logarithms.
_SLACK = 1e-12


@dataclass(frozen=True)
class Remembered:
    """The permanent bits of one person for one value. They stay on the device: whoever reads them has learnt
    `epsilon` at once."""

    bits: tuple[bool, ...]

    def __repr__(self) -> str:
        return "Remembered(<secret>)"


@dataclass(frozen=True)
class RepeatedReports(LocalReports):
    """Reports for every day of a value that stays: one bit a value, randomized once for all (`epsilon`), and the
    outcome afresh for each report (`instant`).

    Guarantee: however many reports are made of one `Remembered`, together they are `Pure(epsilon)`; of m of them
    `epsilon_after(m)`, which is exact. One report alone tells less, `tanh(report/4) = tanh(epsilon/4) tanh(instant/4)`.
    A value that changes is remembered anew, and its epsilon adds up: the promise is for one value. Reports are bits of
    the symmetric form of `OneHotReports`; there is no Bloom filter, so values are listed.

    >>> daily = RepeatedReports(["a", "b", "c"], epsilon=3, instant=2)
    >>> [round(daily.epsilon_after(days), 3) for days in (1, 7, 365)]
    [1.21, 2.992, 3.0]
    >>> kept = daily.remember("b")                       # once, kept on the device
    >>> monday, tuesday = daily.repeat(kept), daily.repeat(kept)
    >>> kept
    Remembered(<secret>)

    Source: Erlingsson, Pihur and Korolova 2014, section 3 (the permanent and the instantaneous response).
    """

    _: KW_ONLY
    instant: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "instant", positive(self.instant, "instant"))
        noise.checked_scale(max(noise.SMALLEST_SCALE, 1 / positive(self.instant, "instant")))

    @classmethod
    def for_report(cls, values: Sequence[Hashable], *, epsilon: Number, report: Number) -> "RepeatedReports":
        """With the instant noise for which a single report is within `report`; `InvalidParameter` unless that is below
        `epsilon`.

        >>> daily = RepeatedReports.for_report(["a", "b"], epsilon=2, report=1)
        >>> daily.epsilon_after(1) <= 1
        True
        """
        most, single = float(positive(epsilon, "epsilon")), float(positive(report, "report"))
        if single >= most:
            raise InvalidParameter(f"report must be less than epsilon {plain(most)}, got {plain(single)}")
        part = math.tanh(single / 4) / math.tanh(most / 4)
        # A part of 1 would be no instant noise at all.
        instant = 4 * math.atanh(min(part, 1 - _SLACK)) * (1 - 1e-9)
        return cls(values, epsilon, instant=instant)

    @property
    def channel(self) -> Channel:
        """That of one report of every person; a further one of the same people tells nothing of the permanent bits'
        own error."""
        permanent, instant = self._flips
        flip = permanent * (1 - instant) + instant * (1 - permanent)
        return Channel(1 - flip, flip)

    def randomized(self, places: Integers, source: noise.Source) -> NDArray[Any]:
        return self._once_more(self.permanent.randomized(places, source), source)

    def counts(self, reports: Any) -> Integers:
        return self.permanent.counts(reports)

    @cached_property
    def permanent(self) -> OneHotReports:
        """What is done once for all."""
        return OneHotReports(self.values, self.epsilon, optimised=False)

    def remember(self, value: Hashable, *, source: noise.Source | None = None) -> Remembered:
        """The permanent bits, drawn once: keep them for as long as the value stays, and draw no others for it."""
        return Remembered(tuple(self.permanent.report(value, source=source)))

    def repeat(self, kept: Remembered, *, source: noise.Source | None = None) -> list[bool]:
        """One report of what is remembered."""
        bits = np.array([kept.bits], dtype=np.bool_)
        told: list[bool] = self._once_more(bits, source or noise.OperatingSystem())[0].tolist()
        return told

    def epsilon_after(self, reports: int) -> float:
        """What so many reports of one remembered value may reveal together, rounded up; at most `epsilon`.

        Of the m reports of a bit only the number s of ones counts. Its likelihood ratio between an own and another
        value rises in s, so two bits tell most where one is always on and the other always off.
        """
        permanent, _ = self._flips
        # The m-th power of i/(1-i) for the chance i of the instant flip.
        rare = math.exp(-whole(reports, "reports") * float(self.instant) / 2)
        # That of m ones; by symmetry that of m zeros is one over it.
        one, other = (1 - permanent) + permanent * rare, permanent + (1 - permanent) * rare
        # Where floats hold no chance that is as small, the reports tell all that is remembered.
        ratio = one / other if other else math.inf
        return min(2 * math.log(ratio) * (1 + _SLACK) + _SLACK, float_up(positive(self.epsilon, "epsilon")))

    def event(self) -> Pure:
        """What all reports of one remembered value may reveal."""
        return Pure(self.epsilon)

    @property
    def _flips(self) -> tuple[float, float]:
        """The chances that a permanent bit is flipped, and that one is flipped again."""
        permanent, instant = (math.exp(-float(size) / 2) for size in (self.epsilon, self.instant))
        return permanent / (1 + permanent), instant / (1 + instant)

    def _once_more(self, bits: NDArray[np.bool_], source: noise.Source) -> NDArray[np.bool_]:
        flip = noise.Enclosure.logistic(positive(self.instant, "instant") / 2)
        return bits ^ noise.bernoulli(source, flip, bits.size).reshape(bits.shape)
