"""Mechanisms that could answer thresholds, each with its error at what is left of the budget."""

import math
from fractions import Fraction
from typing import Final

from chary.accounting import (
    ExPost,
    Targeted,
    crossing_error_up,
    gaussian_error_up,
    laplace_deviation,
    laplace_error_up,
    runs_noise,
)
from chary.advise.advice import Option
from chary.advise.affording import LARGEST_RHO, Room, Wanted, written
from chary.amounts import Amount
from chary.core.charges import spending
from chary.errors import InvalidParameter
from chary.filters import Price
from chary.mechanisms import Gaussian, Laplace
from chary.mechanisms.gaussian import ROOT_OF_THREE_UP
from chary.numbers import exact

_MISSES_PAID: Final = "every test is charged, hit or miss"


def laplace_releases(wanted: Wanted, room: Room) -> Option:
    """Every value released with discrete Laplace noise: plain composition."""

    def noise(epsilon: Fraction) -> Laplace:
        return Laplace.for_epsilon(epsilon, sensitivity=wanted.steps)

    def cost(price: Price) -> Amount:
        return price.hit.times(wanted.paid_tests)

    size = room.largest(lambda epsilon: noise(epsilon).event(), cost, room.filter.budget.exact[0])
    charged = cost(room.filter.price(noise(size).event()))
    code = f"session.release(query, epsilon={wanted.whole(size)})"
    return _released(wanted, room, charged, noise(size), code, size)


def gaussian_releases(wanted: Wanted, room: Room) -> Option:
    """Every value released with discrete Gaussian noise: plain composition."""

    def noise(rho: Fraction) -> Gaussian:
        return Gaussian.for_rho(rho, l2_squared=wanted.steps**2)

    def cost(price: Price) -> Amount:
        return price.hit.times(wanted.paid_tests)

    rho = room.largest(lambda rho: noise(rho).event(), cost, Fraction(LARGEST_RHO))
    charged = cost(room.filter.price(noise(rho).event()))
    return _released(wanted, room, charged, noise(rho), f"session.release(query, rho={wanted.whole(rho)})", None)


def _released(
    wanted: Wanted, room: Room, charged: Amount, noise: Laplace | Gaussian, code: str, size: Fraction | None
) -> Option:
    if isinstance(noise, Laplace):
        steps = laplace_error_up(noise.scale, tests=wanted.tests, confidence=wanted.confidence)
        name, apart = "Laplace", laplace_deviation(noise.scale)
    else:
        steps = gaussian_error_up(noise.sigma_squared, tests=wanted.tests, confidence=wanted.confidence)
        name, apart = "Gaussian", math.sqrt(noise.sigma_squared)
    error, deviation = wanted.units(steps), wanted.units(apart)
    return Option(
        f"plain composition, {name}",
        error,
        error,
        error,
        spending(room.filter, charged).share,
        size,
        deviation,
        deviation,
        code=code,
        opening=room.opening,
        note="every value is released and charged",
    )


def target_charging(wanted: Wanted, room: Room) -> Option:
    """Tests and conditional releases as the filter prices them: only hits where misses are free."""

    def cost(price: Price) -> Amount:
        return room.total(price, wanted)

    size = room.grain or room.largest(Targeted, cost, room.filter.budget.exact[0])
    price = room.filter.price(Targeted(size))
    scale = Laplace.for_epsilon(size, sensitivity=wanted.steps).scale
    error = wanted.units(laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence))
    deviation = wanted.units(laplace_deviation(scale))
    values = (error, deviation) if wanted.values else (None, None)
    given = f"(query, above={wanted.bar}, epsilon={written(size)})"
    single = "watch" if wanted.keyed else "release_if" if wanted.values else "test"
    return Option(
        f"target charging, {room.filter.kind} filter",
        error,
        error,
        values[0],
        spending(room.filter, cost(price)).share,
        size,
        deviation,
        values[1],
        code=f"session.{single}{given}",
        by_key=f"session.watch{given}",
        opening=room.opening,
        note="" if price.free_miss else _MISSES_PAID,
    )


def gaussian_runs(wanted: Wanted, room: Room) -> Option:
    """Above threshold with Gaussian noise, a new run after each hit, priced for the worst places of the hits."""
    if wanted.values:
        raise InvalidParameter("it publishes no values: ask for values=False")
    if wanted.low is None or wanted.high is None:
        raise InvalidParameter("it needs a bounded range: give low= and high=")
    low, high = exact(wanted.low, "low"), exact(wanted.high, "high")
    threshold = (low + high) / 2 if wanted.above is None else exact(wanted.above, "above")
    room.filter.price(ExPost(0))
    loss = room.largest(ExPost, lambda price: price.hit + Amount(wanted.tests), room.filter.budget.exact[0])
    terms = {"sensitivity": exact(wanted.sensitivity, "sensitivity"), "threshold": threshold, "low": low, "high": high}
    own = runs_noise(wanted.tests, wanted.hits, epsilon=loss, ratio=ROOT_OF_THREE_UP, **terms)
    other = ROOT_OF_THREE_UP * own
    error = crossing_error_up(own, other, thresholds=wanted.hits, tests=wanted.tests, confidence=wanted.confidence)
    charged = room.filter.price(ExPost(loss)).hit
    given = [f"{name}={written(number)}" for name, number in ({"threshold_noise": own} | terms).items()]
    return Option(
        "Gaussian above threshold",
        error,
        error,
        None,
        spending(room.filter, charged).share,
        None,
        math.hypot(own, other),
        None,
        code=f"session.start(AboveThreshold({', '.join(given)}))",
        opening=room.opening,
        note=(
            "opened again after each True; ask the run it gives: run.ask(query), key after key where there are keys; "
            "values are clipped to the range; the price is for the worst places of the hits, evenly spread"
        ),
    )
