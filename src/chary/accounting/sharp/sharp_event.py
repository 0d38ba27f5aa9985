"""The event of a sharp test: a test whose law is made for the price of its hit at one Renyi order."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chary.accounting.events import Event
from chary.errors import InvalidParameter, NoPrice
from chary.numbers import Number, exact, plain, positive

# Below this speed (theory 10: price = a (a-1) speed^2) neighbours' chances agree to 7 digits, and a test tells nothing.
LEAST_PRICED_SPEED: Final = Fraction(1, 10**7)
# e^-price has 60 digits of room in the checks; a hit at this price tells everything anyway.
LARGEST_PRICE: Final = 1000
LARGEST_ORDER: Final = 10**7


def least_price(order: Fraction, speed: Fraction = LEAST_PRICED_SPEED) -> Fraction:
    """The price of a hit at which a test climbs with this speed: `order (order - 1) speed^2`."""
    return order * (order - 1) * speed**2


@dataclass(frozen=True)
class SharpTest(Event):
    """A test that hits with chances p, q under neighbours, which the prices at this order allow (theory 10).

    A hit is charged `price` and a miss `miss_price` of log-moment at `order`; all pairs (p, q) of chances under
    neighbours have `(1-p)^a (1-q)^(1-a) e^(-miss_price) + p^a q^(1-a) e^(-price) <= 1`, both ways round.

    Guarantee: a session that charges so and stops before the sum passes B has log-moment at most B at `order`, and at
    most `B (b-1)/(a-1)` at each order b below it, however adaptively it was asked. Above `order` there is no price.

    Errors: `InvalidParameter` for an order of at most 1 or above 1e7, a price of at most 0 or above 1000, or one so
    small that the test could tell nothing (the message has the least that works), and for a miss price below 0 or
    above the price.

    >>> test = SharpTest(18, "0.19295")
    >>> test.hit_price_up(Fraction(18)), test.miss_price_up(Fraction(18)), test.hit_price_up(Fraction(19))
    (Fraction(3859, 20000), Fraction(0, 1), None)
    """

    order: Number
    price: Number
    miss_price: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", _order(self.order))
        object.__setattr__(self, "price", _price(Fraction(self.order), self.price))
        miss_price = exact(self.miss_price, "miss_price")
        if not 0 <= miss_price <= Fraction(self.price):
            raise InvalidParameter("miss_price must be at least 0 and at most price")
        object.__setattr__(self, "miss_price", miss_price)

    @property
    def epsilon(self) -> None:
        return None

    @property
    def otherwise(self) -> str:
        return (
            "a sharp test has a price under the Renyi filter only: open the session with a delta, or ask with epsilon= "
            "for a Laplace test"
        )

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        """Its price, or at a lower order b the part (b-1)/(a-1) of it.

        The logarithm of what the inequality bounds, its prices taken in proportion to b - 1, is a log-sum-exp of
        functions linear in b, so convex; it is 0 at b = 1 and at most 0 at a, hence at most 0 between.
        """
        part = self._part(order)
        return None if part is None else Fraction(self.price) * part

    def miss_price_up(self, order: Fraction) -> Fraction:
        part = self._part(order)
        return Fraction(0) if part is None else Fraction(self.miss_price) * part

    def log_moment_up(self, order: Fraction) -> Fraction:
        """The price of a hit, charged whatever comes out; `NoPrice` above the test's order, where it is unbounded."""
        moment = self.hit_price_up(order)
        if moment is None:
            raise NoPrice(
                f"a sharp test made for order {plain(Fraction(self.order))} has no price at order {plain(order)}: make "
                "it for that order, or ask with epsilon= for a Laplace test"
            )
        return moment

    def _part(self, order: Fraction) -> Fraction | None:
        own = Fraction(self.order)
        return (order - 1) / (own - 1) if order <= own else None


def _order(value: Number) -> Fraction:
    order = exact(value, "order")
    if not 1 < order <= LARGEST_ORDER:
        raise InvalidParameter(f"order must be greater than 1 and at most 1e7, such as 18, got {plain(order)}")
    return order


def _price(order: Fraction, value: Number) -> Fraction:
    price, least = positive(value, "price"), least_price(order)
    if not least <= price <= LARGEST_PRICE:
        raise InvalidParameter(
            f"price must be at least {plain(least * Fraction(1001, 1000))} at order {plain(order)}, below which a test "
            f"tells nothing, and at most {LARGEST_PRICE}, got {plain(price)}"
        )
    return price
