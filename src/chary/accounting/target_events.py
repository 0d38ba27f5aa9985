"""Events that are paid when their target is hit: a miss is free under a charging filter (theory 1.2-1.4, 4).

Like all events they are stored in ledgers: a class here is never removed and never changes its meaning.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from chary.accounting.charging.boundary_sizes import boundary_epsilon_up, boundary_q_down
from chary.accounting.charging.direct_prices import boundary_price_up, narrow_price_up, twice_price_up
from chary.accounting.charging.hit_prices import hit_price_up
from chary.accounting.charging.menu_laws import (
    Chances,
    MenuLaw,
    boundary_laws,
    narrow_laws,
    response_laws,
    target_laws,
    twice_laws,
    unanimous_laws,
)
from chary.accounting.charging.target_rates import twice_q_down
from chary.accounting.charging.unanimous_runs import unanimous_price_up, unanimous_q_down
from chary.accounting.events import Event, randomized_response_log_moment_up
from chary.accounting.exponentials import decimal, precise, upper
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, per_call, positive, whole


@dataclass(frozen=True)
class Targeted(Event):
    """An epsilon-DP call with a target (theory 1.2): `q=None` is NotPrior, otherwise a q-target.

    Under a charging filter only outcomes in the target are paid. `log_moment_up` is the price of the same call as an
    ordinary release. The call is (epsilon, failure)-DP if `failure` is not 0; that delta is paid hit or miss.
    """

    bound: Number
    q: Number | None = None
    failure: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        object.__setattr__(self, "failure", failing(self.failure))
        if self.q is not None:
            # One that follows from a law may be smaller than any that can be written.
            q = self.q if isinstance(self.q, Fraction) and self.q > 0 else positive(self.q, "q")
            if q > 1:
                raise InvalidParameter("q must be at most 1")
            object.__setattr__(self, "q", q)

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    @property
    def target(self) -> Fraction | None:
        """The q of a q-target; None for NotPrior."""
        return None if self.q is None else Fraction(self.q)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_price_up(self, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction | None]:
        return self.epsilon, self.target

    def menu_laws(self) -> list[MenuLaw]:
        return _hit_laws(self.epsilon, self.target)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class Extendable(Event):
    """An epsilon-DP outcome that is held back and published in parts: its target may be extended again and again.

    A hit is the moment it is published, once at most. It costs what a hit of one NotPrior call of its epsilon costs,
    however often the target was extended, at a Renyi order and on the exact curve alike (ours, docs/theory.md); the
    published analysis takes each extension for a call of 2 epsilon ([TCT] Algorithm 2). As an ordinary release it is
    epsilon-DP.

    >>> held, once, order = Extendable("0.02"), Targeted("0.02"), Fraction(10)
    >>> held.hit_price_up(order) == once.hit_price_up(order), held.listed == once.listed
    (True, True)
    """

    bound: Number
    failure: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        object.__setattr__(self, "failure", failing(self.failure))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return hit_price_up(Targeted(self.bound), order)

    @property
    def listed(self) -> tuple[Fraction, None]:
        return self.epsilon, None

    def menu_laws(self) -> list[MenuLaw]:
        return _hit_laws(self.epsilon, None)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class BoundaryCall(Event):
    """An epsilon-DP mechanism inside the boundary wrapper; a hit is the boundary ([TCT] Algorithm 4).

    `outcomes` is how many the mechanism can have, None for any number. Its hit price comes from the wrapper's own law,
    which is several times cheaper than that of the q-target, as which a menu lists it.

    >>> order, call = Fraction(15), BoundaryCall("0.02")
    >>> call.hit_price_up(order) < Targeted(*call.listed).hit_price_up(order)
    True
    """

    bound: Number
    outcomes: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        self.epsilon  # noqa: B018 - refuses what the wrapper cannot hold

    @property
    def epsilon(self) -> Fraction:
        return boundary_epsilon_up(self.bound, outcomes=self.outcomes)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return boundary_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, boundary_q_down(self.bound, outcomes=self.outcomes)

    def menu_laws(self) -> list[MenuLaw]:
        return boundary_laws(Fraction(self.bound), tests=self.outcomes == 2)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class NarrowChoice(Event):
    """An epsilon-DP choice whose log-likelihood ratios lie in an interval of length epsilon; a hit is not the prior.

    The exponential mechanism is one (Durfee, Rogers 2019); permute-and-flip is not. As an ordinary release it is
    (epsilon^2/8)-zCDP; both prices are below those of any epsilon-DP call.

    >>> order, choice = Fraction(15), NarrowChoice("0.02")
    >>> 2 * choice.hit_price_up(order) < Targeted("0.02").hit_price_up(order)
    True
    """

    bound: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return narrow_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, None]:
        return self.epsilon, None

    def menu_laws(self) -> list[MenuLaw]:
        return narrow_laws(self.epsilon)

    def log_moment_up(self, order: Fraction) -> Fraction:
        narrow = order * (order - 1) * self.epsilon**2 / 8
        return min(narrow, randomized_response_log_moment_up(order, self.epsilon))


@dataclass(frozen=True)
class TwiceCall(Event):
    """An epsilon-DP computation run twice and published twice; a hit is that the two outcomes differ.

    >>> TwiceCall("0.02").epsilon, TwiceCall("0.02").hit_price_up(Fraction(15)) < 1
    (Fraction(1, 25), True)
    """

    bound: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))

    @property
    def epsilon(self) -> Fraction:
        return 2 * Fraction(self.bound)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return twice_price_up(self.bound, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, twice_q_down(self.bound)

    def menu_laws(self) -> list[MenuLaw]:
        return twice_laws(Fraction(self.bound))

    def log_moment_up(self, order: Fraction) -> Fraction:
        return 2 * randomized_response_log_moment_up(order, Fraction(self.bound))


@dataclass(frozen=True)
class UnanimousCall(Event):
    """An epsilon-DP computation run several times; only what all runs agree on is published, and a hit is "boundary".

    >>> UnanimousCall("0.02", 2).hit_price_up(Fraction(15)) == TwiceCall("0.02").hit_price_up(Fraction(15))
    True
    """

    bound: Number
    runs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        whole(self.runs, "runs", least=2)

    @property
    def epsilon(self) -> Fraction:
        return self.runs * Fraction(self.bound)

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        return unanimous_price_up(self.bound, self.runs, order)

    @property
    def listed(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, unanimous_q_down(self.bound, self.runs)

    def menu_laws(self) -> list[MenuLaw]:
        return unanimous_laws(Fraction(self.bound), self.runs)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return self.runs * randomized_response_log_moment_up(order, Fraction(self.bound))


@dataclass(frozen=True)
class BestOf(Event):
    """What it costs to pay, of several targets counted side by side, only for the one that was hit least.

    The moment of the sum of the targets' supermartingales is at most `targets`, so the price is its logarithm, paid
    once; on a privacy curve it is delta times `targets` ([TCT] Lemma 2.7).

    >>> float(BestOf(2).log_moment_up(Fraction(20)))
    0.693147...
    """

    targets: int

    def __post_init__(self) -> None:
        whole(self.targets, "targets")

    @property
    def epsilon(self) -> None:
        return None

    def menu_laws(self) -> list[MenuLaw]:
        # Each target is an analyst of its own, who gets all that follows: not a law, but so many at once.
        return [(Chances(Decimal(self.targets), Decimal(self.targets), hit=True),)]

    def log_moment_up(self, order: Fraction) -> Fraction:
        with precise():
            return upper(decimal(Fraction(self.targets)).ln())


def _hit_laws(epsilon: Fraction, q: Fraction | None) -> list[MenuLaw]:
    if q is None or q == 1:
        return response_laws(epsilon, released=q == 1)
    return target_laws(epsilon, q)
