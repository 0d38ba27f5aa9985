"""Sharp tests as contenders of an advice: alone, with values, and for an agreed number of tests."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.advise.advice import Option
from chary.advise.affording import Room, Wanted, eight_digits_down, written
from chary.advise.sharp_values import HitValues, balanced_share, deviation, wrong_chance
from chary.amounts import Amount
from chary.calls.agreed_tests import AgreedTerms, AgreedTests
from chary.calls.sharpness import SURE, VALUE_SHARE, Sharpness, priced_by
from chary.calls.thresholds import Test
from chary.core.charges import spending
from chary.data import count
from chary.errors import BudgetRefused, InvalidParameter
from chary.numbers import exact

# Values and keys that are asked at once are watched, which gives something to values even where they are not wanted.
_UNWANTED: Final = Fraction(1, 100)


def sharp_tests(wanted: Wanted, room: Room) -> Option:
    """The sharp test, whose values take the usual part of the price of a hit."""
    share = VALUE_SHARE if wanted.values else _UNWANTED if wanted.keyed else Fraction(0)
    return _Sharp(wanted, room, share).option("sharp test")


def balanced_sharp_tests(wanted: Wanted, room: Room) -> Option:
    """The sharp test, whose values take that part of the price of a hit with which they err as much as tests."""
    if not wanted.values:
        raise InvalidParameter("without values there is nothing to balance: ask for values=True")
    share = balanced_share(wanted, _Sharp(wanted, room, VALUE_SHARE).sharpness.event)
    return _Sharp(wanted, room, share).option("sharp test, balanced")


def agreed_sharp_tests(wanted: Wanted, room: Room) -> Option:
    """Sharp tests whose misses are paid beforehand, the best part of what is left for them; values are balanced."""
    if not wanted.values:
        return _Agreed(wanted, room, Fraction(0)).option()
    return _Agreed(wanted, room, balanced_share(wanted, _Agreed(wanted, room, VALUE_SHARE).terms.event)).option()


def _errors(wanted: Wanted, made: Sharpness) -> dict[str, Any]:
    """Of tests, of values, and of both together; and deviations."""
    table, rho = made.sampler.table, made.value_rho
    low, high = table.false_alarm_reach(wrong_chance(wanted)), table.miss_reach(wrong_chance(wanted))
    tests = max(low + made.bar, high - made.bar)
    values = HitValues(wanted, rho) if rho is not None and wanted.values else None
    return {
        "error": wanted.units(max(tests, 0 if values is None else values.beside_tests)),
        "test_error": wanted.units(tests),
        "value_error": None if values is None else wanted.units(values.alone),
        "test_deviation": wanted.units(deviation(table)),
        "value_deviation": None if values is None else wanted.units(values.deviation),
    }


def _part(wanted: Wanted, room: Room) -> Fraction | None:
    """Of the whole budget, what is left, to eight digits; None if all of it is."""
    if room.fresh:
        return None
    if room.left.main < wanted.paid_hits:
        raise BudgetRefused(f"it does not fit into what is left, {room.told_left}")
    # Sharp tests take no delta, so what is left of that is no part of it.
    return eight_digits_down(room.filter.shares.exactly(Amount(room.left.main)))


@dataclass(frozen=True)
class _Sharp:
    """Sharp tests in a room, a part `share` of each hit's price going to its value."""

    wanted: Wanted
    room: Room
    share: Fraction

    @cached_property
    def price(self) -> Fraction | None:
        """Of the whole budget, what a hit takes; None where all of it is left."""
        part = _part(self.wanted, self.room)
        return None if part is None else eight_digits_down(part / self.wanted.paid_hits)

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test and the rho of a value."""
        how: dict[str, Any] = {"hits": self.wanted.paid_hits} if self.price is None else {"price": self.price}
        sure = exact(self.wanted.confidence, "confidence")
        # Any question serves: a test depends on how far units move it, not on what it asks.
        asked = Test(count(), above=0, tests=self.wanted.tests, sure=sure, **how)
        return asked.sharpness(self.room.filter, self.wanted.steps, exact(self.wanted.grid, "grid"), self.share)

    def option(self, name: str) -> Option:
        """All of it."""
        return Option(
            name,
            **_errors(self.wanted, self.sharpness),
            share=spending(self.room.filter, self.charged).share,
            epsilon=None,
            code=self._call("watch" if self.wanted.keyed else "release_if" if self.share else "test"),
            by_key=self._call("watch") if self.share else None,
            opening=self.room.opening,
            note="misses are free" + ("; a value is drawn afresh at a hit" if self.wanted.values else ""),
        )

    @property
    def charged(self) -> Amount:
        """By all hits."""
        return self.room.filter.price(self.sharpness.event).hit.times(self.wanted.paid_hits)

    def _call(self, method: str) -> str:
        wanted, confidence = self.wanted, exact(self.wanted.confidence, "confidence")
        given = [
            f"above={wanted.bar}",
            f"hits={wanted.paid_hits}" if self.price is None else f"price={written(self.price)}",
        ]
        given += [f"tests={wanted.tests}"]
        given += [] if confidence == SURE else [f"sure={written(confidence)}"]
        given += [] if self.share in (0, VALUE_SHARE) else [f"value={written(self.share)}"]
        return f"session.{method}(query, {', '.join(given)})"


@dataclass(frozen=True)
class _Agreed:
    """A run of sharp tests in a room, a part `share` of each hit's price going to its value."""

    wanted: Wanted
    room: Room
    share: Fraction

    @cached_property
    def call(self) -> AgreedTests:
        """Its opening; it places its bar for the tests that one unit can be in, so it has to be as sure of those."""
        wanted = self.wanted
        wrong = (1 - exact(wanted.confidence, "confidence")) * Fraction(wanted.paid_tests, wanted.tests)
        sure = None if 1 - wrong == SURE else 1 - wrong
        return AgreedTests(
            tests=wanted.paid_tests,
            hits=wanted.paid_hits,
            part=_part(wanted, self.room),
            value=self.share or None,
            sure=sure,
        )

    @cached_property
    def terms(self) -> AgreedTerms:
        """What it is agreed at."""
        filter_ = priced_by(self.room.filter, "take a sparse vector")
        return AgreedTerms.planned(self.call.plan(filter_), filter_)

    def option(self) -> Option:
        """All of it."""
        charged = self.terms.paid + Amount(self.terms.charges.hit).times(self.wanted.paid_hits)
        code = f"session.start(AgreedTests({self._given()}))"
        made = self.terms.sharpness(self.wanted.steps, exact(self.wanted.grid, "grid"))
        return Option(
            "sharp test, agreed number of tests",
            **_errors(self.wanted, made),
            share=spending(self.room.filter, charged).share,
            epsilon=None,
            code=code,
            by_key=code,
            opening=self.room.opening,
            note=f"misses are charged when it is opened; ask the run it gives: run.ask(query, above={self.wanted.bar})",
        )

    def _given(self) -> str:
        numbers = {name: getattr(self.call, name) for name in ("tests", "hits", "part", "value", "sure")}
        return ", ".join(f"{name}={written(Fraction(given))}" for name, given in numbers.items() if given is not None)
