"""The rounds of a sparse vector on a growing table: their state, and the sparse vector that each of them is."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from chary.accounting.growing_rounds import round_noise
from chary.accounting.sparse_vector import Form
from chary.calls.sparse.sparse_questions import OpenSparse
from chary.errors import LedgerBusy, UnknownHeld
from chary.mechanisms import SparseVectorMachine
from chary.mechanisms.additive import SMALL, padded, unpadded


class RoundMoved(LedgerBusy):
    """Another process began a round, or ended one by a hit, since the state was looked at."""


class NoRoundOpen(RoundMoved):
    """A question needs a round, and none is open."""


@dataclass(frozen=True)
class GrowingRoundState:
    """The latest round: its number (0 before the first), the size at which it began, its epsilon; all are public.

    `shift` is the noise of its threshold, which is secret; None where no round is open.
    """

    number: int = 0
    size: int = 0
    epsilon: Fraction = Fraction(0)
    shift: int | None = None

    @property
    def open(self) -> bool:
        """Whether questions are free, which is public."""
        return self.shift is not None

    def ended(self) -> "GrowingRoundState":
        """After a hit: the noise is forgotten."""
        return replace(self, shift=None)

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        public = [self.number, self.size, str(self.epsilon)]
        return padded(json.dumps([*public, self.shift]).encode(), SMALL + len(json.dumps(public)))

    @classmethod
    def load(cls, data: bytes | None, call: int) -> "GrowingRoundState":
        """The state that `dump` wrote; `UnknownHeld` where nothing is kept."""
        if data is None:
            raise UnknownHeld(f"call {call} keeps no rounds: it was interrupted; open a new growing sparse vector")
        number, size, epsilon, shift = json.loads(unpadded(data))
        return cls(number, size, Fraction(epsilon), shift)

    def __repr__(self) -> str:
        return f"RoundState(number={self.number}, size={self.size}, epsilon={self.epsilon}, open={self.open})"


@dataclass(frozen=True)
class OneRound(OpenSparse):
    """A round is a sparse vector with one hit, whose threshold in counts moves with the public size."""

    form: Form = "tuned"

    @cached_property
    def mechanism(self) -> SparseVectorMachine:
        """The state machine; the published form has the noise of [GROW] where values are published."""
        sizes = round_noise(self.epsilon, values=self.values, form=self.form)
        return SparseVectorMachine(sizes, super().mechanism.sensitivity)
