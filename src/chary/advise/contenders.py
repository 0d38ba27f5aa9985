"""Mechanisms that could answer thresholds, each with its error at what is left of the budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final

from chary.accounting import accuracy, charging_curve, events, gaussian_noise, runs_noise, sparse_vector
from chary.advise import options
from chary.amounts import DELTA_STEPS, Amount
from chary.calls import prepaid_tests, thresholds
from chary.calls.prepaid_tests import Form, SparseLaw, SparseVector
from chary.calls.sharpness import SURE, VALUE_SHARE, Sharpness
from chary.core.charges import spending
from chary.data import count
from chary.errors import BudgetExceeded, InvalidParameter, NotPriced
from chary.filters import Budget, Price, largest_call
from chary.mechanisms import Gaussian, Laplace
from chary.mechanisms.threshold_tests import ROOT_OF_THREE_UP
from chary.numbers import exact

# The mechanisms that run threshold tests in a session, each calibrated to the largest size that fits into the room.
#
# Each is a function of what is wanted and of the room. One that does not apply raises an error, whose text says why.

_MISSES_PAID: Final = "every test is charged, hit or miss"
# Sizes of calls by published totals: they follow from budget and hits, whatever else is asked about.
_KEPT: Final = 64


def laplace_releases(wanted: options.Wanted, room: options.Room) -> options.Option:
    """Every value released with discrete Laplace noise: plain composition."""

    def noise(epsilon: Fraction) -> Laplace:
        return Laplace.for_epsilon(epsilon, sensitivity=wanted.steps)

    def cost(price: Price) -> Amount:
        return price.hit.times(wanted.paid_tests)

    size = room.largest(lambda epsilon: noise(epsilon).event(), cost, room.filter.budget.exact[0])
    charged = cost(room.filter.price(noise(size).event()))
    code = f"session.release(query, epsilon={wanted.whole(size)})"
    return _released(wanted, room, charged, noise(size), code, size)


def gaussian_releases(wanted: options.Wanted, room: options.Room) -> options.Option:
    """Every value released with discrete Gaussian noise: plain composition."""

    def noise(rho: Fraction) -> Gaussian:
        return Gaussian.for_rho(rho, l2_squared=wanted.steps**2)

    def cost(price: Price) -> Amount:
        return price.hit.times(wanted.paid_tests)

    rho = room.largest(lambda rho: noise(rho).event(), cost, Fraction(options.LARGEST_RHO))
    charged = cost(room.filter.price(noise(rho).event()))
    return _released(wanted, room, charged, noise(rho), f"session.release(query, rho={wanted.whole(rho)})", None)


def _released(
    wanted: options.Wanted,
    room: options.Room,
    charged: Amount,
    noise: Laplace | Gaussian,
    code: str,
    size: Fraction | None,
) -> options.Option:
    if isinstance(noise, Laplace):
        steps = accuracy.laplace_error_up(noise.scale, tests=wanted.tests, confidence=wanted.confidence)
        name, apart = "Laplace", accuracy.laplace_deviation(noise.scale)
    else:
        steps = accuracy.gaussian_error_up(noise.sigma_squared, tests=wanted.tests, confidence=wanted.confidence)
        name, apart = "Gaussian", math.sqrt(noise.sigma_squared)
    error, deviation = wanted.units(steps), wanted.units(apart)
    return options.Option(
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


def target_charging(wanted: options.Wanted, room: options.Room) -> options.Option:
    """Tests and conditional releases as the filter charges them: only hits where misses are free."""

    def cost(price: Price) -> Amount:
        return room.total(price, wanted)

    size = room.grain or room.largest(events.Targeted, cost, room.filter.budget.exact[0])
    price = room.filter.price(events.Targeted(size))
    scale = Laplace.for_epsilon(size, sensitivity=wanted.steps).scale
    error = wanted.units(accuracy.laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence))
    deviation = wanted.units(accuracy.laplace_deviation(scale))
    values = (error, deviation) if wanted.values else (None, None)
    given = f"(query, above={wanted.bar}, epsilon={options.written(size)})"
    single = "release_if" if wanted.keyed or wanted.values else "test"
    return options.Option(
        f"target charging, {room.filter.kind} filter",
        error,
        error,
        values[0],
        spending(room.filter, cost(price)).share,
        size,
        deviation,
        values[1],
        code=f"session.{single}{given}",
        by_key=f"session.release_if{given}",
        opening=room.opening,
        note="" if price.free_miss else _MISSES_PAID,
    )


def gaussian_runs(wanted: options.Wanted, room: options.Room) -> options.Option:
    """Above threshold with Gaussian noise, a new run after each hit, charged for the worst places of the hits."""
    if wanted.values:
        raise InvalidParameter("it publishes no values: ask for values=False")
    if wanted.low is None or wanted.high is None:
        raise InvalidParameter("it needs a bounded range: give low= and high=")
    low, high = exact(wanted.low, "low"), exact(wanted.high, "high")
    threshold = (low + high) / 2 if wanted.above is None else exact(wanted.above, "above")
    room.filter.price(events.ExPost(0))
    loss = room.largest(events.ExPost, lambda price: price.hit + Amount(wanted.tests), room.filter.budget.exact[0])
    terms = {"sensitivity": exact(wanted.sensitivity, "sensitivity"), "threshold": threshold, "low": low, "high": high}
    own = runs_noise(wanted.tests, wanted.hits, epsilon=loss, ratio=ROOT_OF_THREE_UP, **terms)
    other = ROOT_OF_THREE_UP * own
    error = accuracy.crossing_error_up(
        own, other, thresholds=wanted.hits, tests=wanted.tests, confidence=wanted.confidence
    )
    charged = room.filter.price(events.ExPost(loss)).hit
    given = [f"{name}={options.written(number)}" for name, number in ({"threshold_noise": own} | terms).items()]
    return options.Option(
        "Gaussian above threshold",
        error,
        error,
        None,
        spending(room.filter, charged).share,
        None,
        math.hypot(own, other),
        None,
        code=f"session.start(GaussianAboveThreshold({', '.join(given)}))",
        opening=room.opening,
        note=(
            "open it again after each True. Ask the run that it returns: run.ask(query), group after group where there "
            "are groups. Values are clipped to the range. The cost is for the worst places of the hits, evenly spread"
        ),
    )


# Sparse vectors as contenders of an advice, in every form, each with the largest epsilon that fits.


def approximate_sparse(wanted: options.Wanted, room: options.Room) -> options.Option:
    """The published sparse vector with as much delta as is left."""
    delta = Fraction(room.left.delta, DELTA_STEPS)
    if not delta:
        raise NotPriced("no delta is left that was set aside for such events (delta_reserve=)")
    return sparse(wanted, room, form="published", delta=delta)


def _check_monotone(wanted: options.Wanted) -> None:
    if not wanted.adds:
        raise InvalidParameter(f"under {wanted.neighbor_relation.neighbors} no questions are monotone")
    if wanted.monotone is False:
        raise InvalidParameter("the questions are not monotone, as you say")


def sparse(
    wanted: options.Wanted,
    room: options.Room,
    *,
    form: Form = "tuned",
    delta: Fraction = Fraction(0),
    monotone: bool | None = None,
) -> options.Option:
    """A sparse vector of this form; `monotone=True` is for questions that all move in one direction."""
    if monotone:
        _check_monotone(wanted)
    name = f"sparse vector, {form}" + (", delta" if delta else ", monotone" if monotone else "")

    def opened(epsilon: Fraction) -> SparseLaw:
        sizes: dict[str, Any] = {"sensitivity": wanted.sensitivity, "grid": wanted.grid, "values": wanted.values}
        sizes |= {"tests": wanted.tests} if form == "one-sided" else {}
        sizes |= {"hits": wanted.hits, "epsilon": epsilon, "delta": delta, "mechanism": form}
        sizes |= {} if monotone is None else {"monotone": monotone}
        return SparseVector(above=0, **sizes).law(wanted.neighbor_relation)

    size = room.largest(lambda epsilon: opened(epsilon).event, lambda price: price.hit, room.filter.budget.exact[0])
    made = opened(size)
    machine = made.machine
    answer = None if machine.answers is None else machine.answers.scale
    value = (
        None if answer is None else accuracy.laplace_error_up(answer, tests=wanted.hits, confidence=wanted.confidence)
    )
    return options.Option(
        name,
        wanted.units(machine.error_up(wanted.tests, wanted.confidence)),
        wanted.units(machine.tests_alone.error_up(wanted.tests, wanted.confidence)),
        None if value is None else wanted.units(value),
        spending(room.filter, room.filter.price(made.event).hit).share,
        size,
        wanted.units(machine.deviation),
        None if answer is None else wanted.units(math.sqrt(2) * float(answer)),
        code=_opening_call(wanted, made.call, form, monotone),
        opening=room.opening,
        note="charged once, whole; ask the run it gives: run.ask(query), group after group where there are groups",
    )


def _opening_call(wanted: options.Wanted, made: SparseVector, form: Form, monotone: bool | None) -> str:
    given = [f"above={wanted.bar}", f"hits={wanted.hits}", f"epsilon={options.written(Fraction(made.epsilon))}"]
    given += [f"delta={options.written(Fraction(made.delta))}"] if made.delta else []
    given += [f"tests={made.tests}"] if form == "one-sided" else [f'mechanism="{form}"']
    given += [] if monotone is None else [f"monotone={monotone}"]
    given += ["values=True"] if wanted.values else []
    given += _unlike(wanted, "sensitivity") + _unlike(wanted, "grid")
    return f"session.start(SparseVector({', '.join(given)}))"


def _unlike(wanted: options.Wanted, name: str) -> list[str]:
    """The argument where it is not 1."""
    number = exact(getattr(wanted, name), name)
    return [] if number == 1 else [f"{name}={options.written(number)}"]


# Optimal threshold tests as contenders of an advice: alone, with values, and for an agreed number of tests.

# A call on groups releases values as well, so these get a small part even where no values are wanted.
_UNWANTED: Final = Fraction(1, 100)


def sharp_tests(wanted: options.Wanted, room: options.Room) -> options.Option:
    """The optimal test, whose values take the usual part of the cost of a hit."""
    share = VALUE_SHARE if wanted.values else _UNWANTED if wanted.keyed else Fraction(0)
    return _Sharp(wanted, room, share).option("optimal threshold test")


def balanced_sharp_tests(wanted: options.Wanted, room: options.Room) -> options.Option:
    """The optimal test, whose values take that part of the cost of a hit with which they err as much as tests."""
    if not wanted.values:
        raise InvalidParameter("without values there is nothing to balance: ask for values=True")
    share = options.balanced_share(wanted, _Sharp(wanted, room, VALUE_SHARE).sharpness.event)
    return _Sharp(wanted, room, share).option("optimal threshold test, balanced")


def agreed_sharp_tests(wanted: options.Wanted, room: options.Room) -> options.Option:
    """Optimal tests whose misses are paid beforehand, the best part of what is left for them; values are balanced."""
    if not wanted.values:
        return _Agreed(wanted, room, Fraction(0)).option()
    return _Agreed(
        wanted, room, options.balanced_share(wanted, _Agreed(wanted, room, VALUE_SHARE).terms.event)
    ).option()


def _errors(wanted: options.Wanted, made: Sharpness) -> dict[str, Any]:
    """The errors of tests, of values and of both, and the deviations of their noise."""
    table, rho = made.sampler.table, made.value_rho
    low, high = table.false_alarm_reach(options.wrong_chance(wanted)), table.miss_reach(options.wrong_chance(wanted))
    tests = max(low + made.bar, high - made.bar)
    values = options.HitValues(wanted, rho) if rho is not None and wanted.values else None
    return {
        "error": wanted.units(max(tests, 0 if values is None else values.beside_tests)),
        "test_error": wanted.units(tests),
        "value_error": None if values is None else wanted.units(values.alone),
        "test_deviation": wanted.units(options.deviation(table)),
        "value_deviation": None if values is None else wanted.units(values.deviation),
    }


def _part(wanted: options.Wanted, room: options.Room) -> Fraction | None:
    """The fraction of the budget that is left, to eight digits; None where nothing is spent."""
    if room.fresh:
        return None
    if room.left.main < wanted.paid_hits:
        raise BudgetExceeded(f"it does not fit into what is left, {room.told_left}")
    # Optimal threshold tests take no delta, so what is left of that is no part of it.
    return options.eight_digits_down(room.filter.shares.exactly(Amount(room.left.main)))


@dataclass(frozen=True)
class _Sharp:
    """Optimal threshold tests within a budget, a part `share` of each hit's cost going to its value."""

    wanted: options.Wanted
    room: options.Room
    share: Fraction

    @cached_property
    def price(self) -> Fraction | None:
        """The fraction of the budget that a hit takes; None where nothing is spent."""
        part = _part(self.wanted, self.room)
        return None if part is None else options.eight_digits_down(part / self.wanted.paid_hits)

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test and the rho of a value."""
        how: dict[str, Any] = {"hits": self.wanted.paid_hits} if self.price is None else {"price": self.price}
        confidence = exact(self.wanted.confidence, "confidence")
        # Any question serves: a test depends on how far units move it, not on what it asks.
        asked = thresholds.ThresholdTest(count(), above=0, tests=self.wanted.tests, confidence=confidence, **how)
        return asked.sharpness(self.room.filter, self.wanted.steps, exact(self.wanted.grid, "grid"), self.share)

    def option(self, name: str) -> options.Option:
        """All of it."""
        return options.Option(
            name,
            **_errors(self.wanted, self.sharpness),
            share=spending(self.room.filter, self.charged).share,
            epsilon=None,
            code=self._call("release_if" if self.wanted.keyed or self.share else "test"),
            by_key=self._call("release_if") if self.share else None,
            opening=self.room.opening,
            note="misses are free" + ("; a value is drawn afresh at a hit" if self.wanted.values else ""),
        )

    @property
    def charged(self) -> Amount:
        """What all hits are charged."""
        return self.room.filter.price(self.sharpness.event).hit.times(self.wanted.paid_hits)

    def _call(self, method: str) -> str:
        wanted, confidence = self.wanted, exact(self.wanted.confidence, "confidence")
        given = [
            f"above={wanted.bar}",
            f"hits={wanted.paid_hits}" if self.price is None else f"price={options.written(self.price)}",
        ]
        given += [f"tests={wanted.tests}"]
        given += [] if confidence == SURE else [f"confidence={options.written(confidence)}"]
        given += [] if self.share in (0, VALUE_SHARE) else [f"value={options.written(self.share)}"]
        return f"session.{method}(query, {', '.join(given)})"


@dataclass(frozen=True)
class _Agreed:
    """A run of optimal threshold tests within a budget, a part `share` of each hit's cost going to its value."""

    wanted: options.Wanted
    room: options.Room
    share: Fraction

    @cached_property
    def call(self) -> prepaid_tests.PrepaidTests:
        """The opening. Its confidence is for the tests that one unit can be in, and such that all tests together have
        the one that is wanted."""
        wanted = self.wanted
        wrong = (1 - exact(wanted.confidence, "confidence")) * Fraction(wanted.paid_tests, wanted.tests)
        confidence = None if 1 - wrong == SURE else 1 - wrong
        return prepaid_tests.PrepaidTests(
            tests=wanted.paid_tests,
            hits=wanted.paid_hits,
            part=_part(wanted, self.room),
            value=self.share or None,
            confidence=confidence,
        )

    @cached_property
    def terms(self) -> prepaid_tests.AgreedTerms:
        """The terms that the opening fixes."""
        filter_ = self.room.filter.for_sharp_tests("take a sparse vector")
        return prepaid_tests.AgreedTerms.planned(self.call.paid(filter_), filter_)

    def option(self) -> options.Option:
        """All of it."""
        charged = self.terms.paid + Amount(self.terms.charges.hit).times(self.wanted.paid_hits)
        code = f"session.start(PrepaidTests({self._given()}))"
        made = self.terms.sharpness(self.wanted.steps, exact(self.wanted.grid, "grid"))
        return options.Option(
            "optimal threshold test, fixed number of tests",
            **_errors(self.wanted, made),
            share=spending(self.room.filter, charged).share,
            epsilon=None,
            code=code,
            by_key=code,
            opening=self.room.opening,
            note=f"misses are charged when it is opened; ask the run it gives: run.ask(query, above={self.wanted.bar})",
        )

    def _given(self) -> str:
        numbers = {name: getattr(self.call, name) for name in ("tests", "hits", "part", "value", "confidence")}
        return ", ".join(
            f"{name}={options.written(Fraction(given))}" for name, given in numbers.items() if given is not None
        )


# What other analyses would give for a whole budget: comparisons of an advice, without a call to write.

# The root of a confidence is rounded up in the ninth digit: both halves promise a little more, never less.
_FINE: Final = 10**9


def best_theorem(wanted: options.Wanted, budget: Budget) -> options.Option:
    """Plain composition by the best theorem, or with Gaussian noise calibrated exactly."""
    epsilon, delta = _approximate(budget)
    noise = gaussian_noise.plain_noise(epsilon=epsilon, delta=delta, tests=wanted.paid_tests)
    deviation = noise.deviation * wanted.steps
    if noise.gaussian:
        error = accuracy.gaussian_error_up(Fraction(deviation) ** 2, tests=wanted.tests, confidence=wanted.confidence)
    else:
        scale = Fraction(deviation / math.sqrt(2))
        error = accuracy.laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence)
    told = wanted.units(error), wanted.units(deviation)
    return _compared("plain composition, best theorem", told, None, told)


# The published bound of target charging, and the published remark on exact tails.
_TOTALS: Final = {"published bound": charging_curve.published_total, "exact tail": charging_curve.exact_tail_total}


def charging_by(total: str, wanted: options.Wanted, budget: Budget) -> options.Option:
    """Target charging whose calls have the size that one of the published totals allows."""
    size = _charging_size(_TOTALS[total], *_approximate(budget), wanted.paid_hits)
    return _charging(f"target charging, {total}", wanted, size)


def curve_charging(wanted: options.Wanted, budget: Budget) -> options.Option:
    """Target charging by the exact curve of calls of one size, which are all that is ever asked."""
    _approximate(budget)
    return _charging("target charging, exact curve", wanted, largest_call(budget, wanted.paid_hits, "exact"))


def gaussian_values(wanted: options.Wanted, budget: Budget) -> options.Option:
    """Rounds of the tuned sparse vector with Gaussian values, composed exactly; the best number of rounds."""
    epsilon, delta = _approximate(budget)
    if not wanted.values:
        raise InvalidParameter("without values it has nothing to make Gaussian: ask for values=True")
    if not wanted.adds or wanted.monotone is False:
        raise InvalidParameter("it is for monotone questions")
    sizes = sparse_vector.usual_rounds(wanted.hits)
    forms = [
        sparse_vector.sparse_rounds(epsilon=epsilon, delta=delta, hits=wanted.hits, rounds=rounds) for rounds in sizes
    ]
    error, form = min(((_error(wanted, form), form) for form in forms), key=lambda found: found[0])
    sure = exact(wanted.confidence, "confidence")
    deviation = wanted.units(form.deviation * wanted.steps)
    return options.Option(
        "sparse vector, tuned, Gaussian values",
        error,
        wanted.units(_tests_error(wanted, form, sure)),
        wanted.units(_values_error(wanted, form, sure)),
        1.0,
        None,
        deviation,
        deviation,
        note=f"{form.rounds} sparse vectors of {-(-form.hits // form.rounds)} hits each, composed exactly",
    )


def _error(wanted: options.Wanted, form: sparse_vector.SparseRounds) -> float:
    """The error of tests and values together. They are independent, so each has the root of the confidence."""
    squared = exact(wanted.confidence, "confidence") * _FINE**2
    sure = min(Fraction(math.isqrt(math.floor(squared)) + 1, _FINE), 1 - Fraction(1, _FINE))
    return wanted.units(max(_tests_error(wanted, form, sure), _values_error(wanted, form, sure)))


def _tests_error(wanted: options.Wanted, form: sparse_vector.SparseRounds, sure: Fraction) -> int:
    noise = sparse_vector.SparseNoise(form.rounds, form.threshold, form.test, None, form.rounds > 1).scaled(
        wanted.steps
    )
    return sparse_vector.error_up(noise, tests=wanted.tests, confidence=sure)


def _values_error(wanted: options.Wanted, form: sparse_vector.SparseRounds, sure: Fraction) -> int:
    variance = Fraction(form.deviation * wanted.steps) ** 2
    return accuracy.gaussian_error_up(variance, tests=wanted.hits, confidence=sure)


def _charging(name: str, wanted: options.Wanted, size: Fraction) -> options.Option:
    scale = Laplace.for_epsilon(size, sensitivity=wanted.steps).scale
    error = accuracy.laplace_error_up(scale, tests=wanted.tests, confidence=wanted.confidence)
    told = wanted.units(error), wanted.units(accuracy.laplace_deviation(scale))
    return _compared(name, told, size, told if wanted.values else (None, None))


def _compared(
    name: str, tests: tuple[float, float], size: Fraction | None, values: tuple[float | None, float | None]
) -> options.Option:
    return options.Option(name, tests[0], tests[0], values[0], 1.0, size, tests[1], values[1])


@lru_cache(maxsize=_KEPT)
def _charging_size(total: Callable[..., float], epsilon: Fraction, delta: Fraction, hits: int) -> Fraction:
    return charging_curve.charging_size(total, epsilon=epsilon, delta=delta, hits=hits)


def _approximate(budget: Budget) -> tuple[Fraction, Fraction]:
    epsilon, delta = budget.exact
    if not delta:
        raise NotPriced("it needs a delta greater than 0")
    return epsilon, delta
