"""The price of a hit: what a target call costs at one Renyi order when its target is hit; a miss costs nothing.

Theory 1.4 (ours). For an epsilon-DP call and order a, with `A = e^((1-a)eps)/(1+e^eps)`, `B = e^(a eps)/(1+e^eps)` and
u, v the chances that the two atoms of randomized response hit, the price psi solves
`e^psi = max (uB + vA) / (1 - (1-u)B - (1-v)A)` over the vertices of the targets allowed.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise, upper

# What is kept of `1 + e^eps` must be more than this part of it: exponents up to 10**6 cost 6 of the 60 digits and the
# cancellation 20, so a price is known to 1e-34, and the guard of 1e-30 covers it. Nearer to its pole there is none.
_LEAST = Decimal("1e-20")


class TargetCall(Protocol):
    """An epsilon-DP call with a NotPrior target (`target` None) or a q-target; `Targeted` is one."""

    @property
    def epsilon(self) -> Fraction:
        """Its pure bound."""
        ...

    @property
    def target(self) -> Fraction | None:
        """Its q."""
        ...


def hit_price_up(event: TargetCall, order: Fraction) -> Fraction | None:
    """The log-moment a hit costs at `order`, rounded up, or None where no finite price exists.

    Guarantee: a session that charges this for each hit, nothing for a miss, the log-moment for ordinary releases, and
    stops before the sum passes B has log-moment at most B at this order, however adaptively it was asked.

    >>> from chary.accounting.target_events import Targeted
    >>> float(hit_price_up(Targeted("0.05"), Fraction(10)))
    0.459936...
    >>> hit_price_up(Targeted("0.2", q="0.28"), Fraction(4)) is None
    True
    """
    if order * event.epsilon > LARGEST_EXPONENT:
        return None
    with precise(_lost(event.target)):
        ratios = [_ratio(u, v, order, event.epsilon) for u, v in _vertices(event)]
        finite = [ratio for ratio in ratios if ratio is not None]
        return upper(max(finite).ln()) if len(finite) == len(ratios) else None


def _ratio(u: Decimal, v: Decimal, order: Fraction, epsilon: Fraction) -> Decimal | None:
    a, eps = decimal(order), decimal(epsilon)
    low, high = ((1 - a) * eps).exp(), (a * eps).exp()
    whole = 1 + eps.exp()
    kept = whole - (1 - u) * high - (1 - v) * low
    return (u * high + v * low) / kept if kept > _LEAST * whole else None


def _lost(target: Fraction | None) -> int:
    """The digits that `1 - q` loses beside 1."""
    return 0 if target in (None, 1) else int(1 / (1 - target)).bit_length() // 3 + 1


def _vertices(event: TargetCall) -> list[tuple[Decimal, Decimal]]:
    """The least hit chances (u, v) of the two atoms; NotPrior is the one atom as the prior (theory 1.3)."""
    if event.target is None:
        return [(Decimal(0), Decimal(1))]
    eps, q = decimal(event.epsilon), decimal(event.target)
    # 1 - p itself would lose as many digits as e^eps has.
    p, r = 1 / (1 + (-eps).exp()), 1 / (1 + eps.exp())
    corner = (q / r, Decimal(0)) if q <= r else ((q - r) / p, Decimal(1))
    return [(q, q), corner, (corner[1], corner[0])]
