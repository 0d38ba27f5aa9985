"""Majority vote: whether more units say yes than no, by three laws of which the default errs least."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, whole

Rule = Literal["noise", "inverse", "exponential"]


@dataclass(frozen=True)
class MajorityVote:
    """Yes or no, whichever more units say, up to noise; an even vote is settled by a fair coin.

    The *lead* is the number of yes less that of no; `moved` is how far one unit moves it: 2 where it is replaced, 1
    where it is added or removed.

    - "noise": the sign of the lead plus `moved` times discrete Laplace noise of scale 1/epsilon. With n = 2k + 1
      replaceable units, k + r of which say yes, it is wrong with chance `e^(-(r-1) epsilon) / (1 + e^epsilon)`. No
      epsilon-DP vote that treats both answers alike is wrong less often, for any r (docs/choices.md).
    - "inverse": `P(yes) = 1 / (1 + e^(-r epsilon))`, r units at least having to change for another majority.
    - "exponential": the exponential mechanism on both counts, `P(yes) = 1 / (1 + e^(-(k + r - n/2) epsilon))`.

    Guarantee: `Pure(epsilon)`, if one unit moves the lead by at most `moved`. Source: theory section 2.

    >>> [round(MajorityVote("0.5", rule=rule).chance(3), 4) for rule in ("noise", "inverse", "exponential")]
    [0.771, 0.7311, 0.6792]
    """

    epsilon: Number
    moved: int = 2
    rule: Rule = "noise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Pure(self.epsilon).epsilon)
        if whole(self.moved, "moved") > 2:
            raise InvalidParameter("one unit moves the lead by 1 (added or removed) or by 2 (replaced)")
        if self.rule not in get_args(Rule):
            raise InvalidParameter(f"the rule is one of {', '.join(get_args(Rule))}")
        noise.checked_scale(self.scale)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in units, at least 2**-10."""
        return max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon"))

    def step(self, lead: int, source: noise.Source) -> bool:
        """Whether yes has the majority, up to noise."""
        if self.rule == "noise":
            lead += self.moved * int(noise.discrete_laplace(source, self.scale, 1)[0])
            return lead > 0 if lead else bool(noise.bernoulli(source, noise.Enclosure.rational("1/2"), 1)[0])
        wrong = noise.Enclosure.logistic(self._odds(lead))
        return bool(noise.bernoulli(source, wrong, 1)[0]) != (lead > 0)

    def chance(self, lead: int) -> float:
        """The chance of yes; for reports about made-up data, since the lead is data."""
        wrong = self._wrong(abs(lead))
        return 1 - wrong if lead > 0 else wrong

    def event(self) -> Pure:
        """What the answer may reveal."""
        return Pure(self.epsilon)

    def _odds(self, lead: int) -> Fraction:
        """The logarithm of the odds for the larger side, for the published rules."""
        units = Fraction(abs(lead), self.moved)
        return positive(self.epsilon, "epsilon") * (math.ceil(units) if self.rule == "inverse" else units)

    def _wrong(self, lead: int) -> float:
        """The noise must reach past the lead, or make it even and lose the coin."""
        if self.rule != "noise":
            return _logistic(float(self._odds(lead)))
        step = 1 / float(self.scale)
        reached, even = -(-lead // self.moved), lead % self.moved == 0
        beyond = reached + 1 if even else reached
        most = math.exp(-step * beyond)
        return (most + (even and (math.exp(-step * reached) - most) / 2)) / (1 + math.exp(-step))


def _logistic(exponent: float) -> float:
    """`1 / (1 + exp(exponent))` without overflow."""
    return math.exp(-exponent) / (1 + math.exp(-exponent))
