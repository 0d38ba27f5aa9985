"""Every privacy event that a ledger can hold, with its mathematics."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.charging.menu_laws import MenuLaw, response_laws, uneven_laws
from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise, upper
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, per_call, positive, probability, whole


class Event(ABC):
    """What one computation may reveal about one privacy unit.

    `epsilon` is the pure bound on the log-likelihood ratio outside an event of probability `delta`, or None where
    there is none (Gaussian noise).
    """

    @property
    @abstractmethod
    def epsilon(self) -> Fraction | None:
        """The pure bound, or None."""

    @property
    def delta(self) -> Fraction:
        """The probability that adds to the total delta; 0 for all but approximate events."""
        return Fraction(0)

    @property
    def copies(self) -> tuple["Event", int]:
        """The event and how many times over; filters price one copy and multiply."""
        return self, 1

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        """What a hit costs at this order under a charging filter, a miss being free; None where every outcome is paid.

        Also None where no finite price exists.
        """
        return None

    def miss_price_up(self, order: Fraction) -> Fraction:
        """What a miss costs at this order where a hit has a price; 0 unless misses were given one too."""
        return Fraction(0)

    @property
    def otherwise(self) -> str:
        """What to do where a filter has no price for this event because it has no pure bound; "" for the usual."""
        return ""

    @property
    def listed(self) -> tuple[Fraction | None, Fraction | None]:
        """The size and the q under which a menu lists this event: None is NotPrior, 1 an ordinary release."""
        return self.epsilon, Fraction(1)

    def menu_laws(self) -> list[MenuLaw]:
        """Finitely many laws that stand for all pairs of neighbours on a menu; none where there is no pure bound."""
        return [] if self.epsilon is None else response_laws(self.epsilon, released=True)

    @abstractmethod
    def log_moment_up(self, order: Fraction) -> Fraction:
        """An upper bound on `(order - 1)` times the Renyi divergence of that order, order > 1."""


@dataclass(frozen=True)
class Pure(Event):
    """An epsilon-DP computation of unknown law; priced as randomized response, the worst of them (theory 1.1).

    >>> float(Pure("0.1").log_moment_up(Fraction(2)))
    0.009958...
    """

    bound: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class Asymmetric(Event):
    """Neighbours in one order have outcomes at most e^bound times likelier, in the other order at most e^reverse.

    Which of two neighbours is which is the same for all outcomes, such as the one with fewer rows. Priced as the worst
    law with such losses, which has two outcomes, in the dearer order (docs/theory.md).

    >>> uneven, order = Asymmetric("0.1", "0.07"), Fraction(2)
    >>> uneven.epsilon, round(float(uneven.log_moment_up(order) / Pure("0.1").log_moment_up(order)), 2)
    (Fraction(1, 10), 0.71)
    """

    bound: Number
    reverse: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        object.__setattr__(self, "reverse", per_call(self.reverse))

    @property
    def epsilon(self) -> Fraction:
        return max(Fraction(self.bound), Fraction(self.reverse))

    def menu_laws(self) -> list[MenuLaw]:
        return uneven_laws(Fraction(self.bound), Fraction(self.reverse))

    def log_moment_up(self, order: Fraction) -> Fraction:
        bound, reverse = Fraction(self.bound), Fraction(self.reverse)
        return max(two_point_log_moment_up(order, bound, reverse), two_point_log_moment_up(order, reverse, bound))


@dataclass(frozen=True)
class Concentrated(Event):
    """An epsilon-DP computation that is rho-zCDP as well; each filter charges the least of what it knows.

    >>> both, order = Concentrated(bound="0.2", rho="0.001"), Fraction(10)
    >>> both.epsilon, both.log_moment_up(order) == order * (order - 1) / 1000 < Pure("0.2").log_moment_up(order)
    (Fraction(1, 5), True)
    """

    bound: Number
    rho: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return min(order * (order - 1) * Fraction(self.rho), randomized_response_log_moment_up(order, self.epsilon))


@dataclass(frozen=True)
class Approximate(Event):
    """An (epsilon, delta)-DP computation: `Pure(epsilon)` outside a failure whose probability adds up."""

    bound: Number
    failure: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", per_call(self.bound))
        object.__setattr__(self, "failure", probability(self.failure, "delta"))

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.bound)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.failure)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return randomized_response_log_moment_up(order, self.epsilon)


@dataclass(frozen=True)
class ExPost(Event):
    """A loss known only afterwards: the published outcome is at most e^loss times likelier under a neighbour.

    No menu covers it: an outcome of a small loss may be almost certain, while no outcome of a call that is known to be
    as small beforehand can be.

    >>> ExPost(0).log_moment_up(Fraction(20))
    Fraction(0, 1)
    """

    loss: Number

    def __post_init__(self) -> None:
        loss = exact(self.loss, "loss")
        if loss < 0:
            raise InvalidParameter("loss must not be negative")
        object.__setattr__(self, "loss", loss)

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.loss)

    @property
    def listed(self) -> tuple[None, Fraction]:
        return None, Fraction(1)

    def log_moment_up(self, order: Fraction) -> Fraction:
        return (order - 1) * Fraction(self.loss)


@dataclass(frozen=True)
class Repeated(Event):
    """The same event several times over, with independent coins.

    >>> Repeated(Pure("0.1"), 10).epsilon
    Fraction(1, 1)
    """

    event: Event
    times: int

    def __post_init__(self) -> None:
        whole(self.times, "times")

    @property
    def copies(self) -> tuple[Event, int]:
        event, times = self.event.copies
        return event, times * self.times

    @property
    def epsilon(self) -> Fraction | None:
        return None if self.event.epsilon is None else self.times * self.event.epsilon

    @property
    def delta(self) -> Fraction:
        return self.times * self.event.delta

    def log_moment_up(self, order: Fraction) -> Fraction:
        return self.times * self.event.log_moment_up(order)


@dataclass(frozen=True)
class Joint(Event):
    """Several events whose outcomes are published together, with independent coins.

    >>> Joint((Pure("0.1"), Pure("0.2"))).epsilon
    Fraction(3, 10)
    """

    events: tuple[Event, ...]

    @property
    def epsilon(self) -> Fraction | None:
        bounds = [event.epsilon for event in self.events]
        return None if None in bounds else sum((bound for bound in bounds if bound is not None), Fraction(0))

    @property
    def delta(self) -> Fraction:
        return sum((event.delta for event in self.events), Fraction(0))

    def log_moment_up(self, order: Fraction) -> Fraction:
        return sum((event.log_moment_up(order) for event in self.events), Fraction(0))


def two_point_log_moment_up(order: Fraction, up: Fraction, down: Fraction) -> Fraction:
    """The most at order a with all log-ratios from -down to up: those two alone, weighted so that ratios have mean 1.

    `ln(((1 - e^-down) e^(a up) + (e^up - 1) e^(-a down)) / (e^up - e^-down))`: the chord of the convex t^a.
    """
    if order * max(up, down) > LARGEST_EXPONENT:
        return (order - 1) * up
    with precise():
        a, u, d = decimal(order), decimal(up), decimal(down)
        high, low = u.exp(), (-d).exp()
        return upper((((1 - low) * (a * u).exp() + (high - 1) * (-a * d).exp()) / (high - low)).ln())


def randomized_response_log_moment_up(order: Fraction, epsilon: Fraction) -> Fraction:
    """`ln((e^(a eps) + e^((1-a) eps)) / (1 + e^eps))`, the most any epsilon-DP computation can have at order a."""
    if order * epsilon > LARGEST_EXPONENT:
        return (order - 1) * epsilon
    with precise():
        a, eps = decimal(order), decimal(epsilon)
        return upper((((a * eps).exp() + ((1 - a) * eps).exp()) / (1 + eps.exp())).ln())
