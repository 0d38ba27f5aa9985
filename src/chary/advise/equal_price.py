"""What else would answer the tests of a call at the price of its hits, and how far off each would be."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chary.accounting import error_of_all_up, gaussian_error_up
from chary.advise.adviser import options_within
from chary.advise.affording import Room, Wanted, epsilons_of
from chary.advise.sharp_values import HitValues
from chary.amounts import Amount
from chary.calls.agreed_tests import OpenAgreed
from chary.calls.call import Call
from chary.calls.sharpness import Threshold, Valued
from chary.calls.sparse_vector import OpenSparse
from chary.core.plan import Interaction, least_of
from chary.core.quote import Alternative, Quote
from chary.core.transaction import Spine
from chary.errors import CharyError
from chary.filters import Filter
from chary.mechanisms import Gaussian, Laplace
from chary.numbers import exact, whole


def alternatives(
    spine: Spine, call: Call[Any], bound: Interaction, found: Quote, hits: int | None = None
) -> list[Alternative]:
    """The call and every mechanism that fits into its price, the smallest error of all tests and values first.

    Errors are those of `advise`; the price is that of `hits` hits (default: as many as the call names, or as can be
    charged and still fit) and of all misses. A call beyond the whole budget is not listed, and what fits into that is.
    Empty for what is no test against a bar.
    """
    if found.outlook is None or not (isinstance(bound, (OpenSparse, OpenAgreed)) or isinstance(call, Threshold)):
        return []
    try:
        expected = _hits(call, bound, found) if hits is None else whole(hits, "hits")
        ended = found.free_misses_ended or found.ends_free_misses
        filter_ = epsilons_of(spine.filter) if ended else spine.filter
        tests = found.outlook.tests
        terms = {"hits": min(expected, tests)} | _terms(call, bound, tests)
        asked = _Compared.of(filter_, bound, Wanted.asked(spine.rows.neighbouring, **terms), ended=ended)
        own = [Alternative(f"{bound.kind}, as quoted", asked.error, None)] if asked.fits else []
        others = options_within(asked.wanted, asked.room)
    except CharyError:  # nothing to compare with: more hits than tests, say, or an order without a table
        return []
    told = [Alternative(each.mechanism, each.error, each.code) for each in others if each.code is not None]
    return sorted(own + told, key=lambda each: each.error)


@dataclass(frozen=True)
class _Compared:
    """A call, what is wanted of it, and the room of its price."""

    bound: Interaction
    wanted: Wanted
    room: Room
    fits: bool

    @classmethod
    def of(cls, filter_: Filter, bound: Interaction, wanted: Wanted, *, ended: bool) -> "_Compared":
        """For so many tests in all, and the hits that are expected; once free misses have `ended`, by epsilons."""
        price, parts = bound.price(filter_), wanted.paid_tests
        if isinstance(bound, OpenAgreed):
            paid = bound.terms.paid + Amount(bound.terms.charges.hit).times(wanted.paid_hits)
        else:
            paid = price.hit if isinstance(bound, OpenSparse) else price.total(wanted.paid_hits, parts)
        whole = filter_.capacity
        return cls(bound, wanted, Room(filter_, paid.cut_to(whole), ended=ended), paid.fits_into(whole))

    @property
    def error(self) -> float:
        """How far off the call itself may be, all tests and values together."""
        bound, wanted = self.bound, self.wanted
        within, accuracy = bound.within(wanted.tests, wanted.confidence), bound.accuracy()
        if within is None:
            noise, grid = accuracy or (Laplace(Fraction(1), 1), Fraction(1))
            return float(error_of_all_up(noise.law(), tests=wanted.tests, confidence=wanted.confidence) * grid)
        return max(within.error, self._values_error)

    @property
    def _values_error(self) -> float:
        """Of fresh values of all hits; those of a sparse vector are among its tests."""
        accuracy = self.bound.accuracy()
        rho = self.bound.terms.sharpness(1, Fraction(1)).value_rho if isinstance(self.bound, OpenAgreed) else None
        if rho is not None:
            return self.wanted.units(HitValues(self.wanted, rho).beside_tests)
        if accuracy is None or not isinstance(accuracy[0], Gaussian):
            return 0.0
        sure = (1 + exact(self.wanted.confidence, "confidence")) / 2
        steps = gaussian_error_up(accuracy[0].sigma_squared, tests=self.wanted.hits, confidence=sure)
        return float(steps * accuracy[1])


def _hits(call: Any, bound: Interaction, found: Quote) -> int:
    """As many as the call names, or as can be charged and still fit."""
    fitting = bound.most_hits if found.hits_left is None else min(bound.most_hits, found.hits_left)
    return getattr(call, "hits", None) or max(1, fitting)


def _terms(call: Any, bound: Any, tests: int) -> dict[str, Any]:
    """What the call says of its tests, in the words of an advice."""
    if isinstance(bound, OpenSparse):
        sizes = {name: getattr(bound, name) for name in ("above", "sensitivity", "grid", "monotone", "values")}
        return sizes | {"tests": tests}
    if isinstance(bound, OpenAgreed):
        return {"tests": tests, "values": call.value is not None}
    query, neighbouring = getattr(bound, "query", None) or bound.call.query, bound.neighbouring
    terms = {"above": call.above, "values": isinstance(call, Valued), "grid": query.grid}
    terms["sensitivity"] = query.sensitivity(neighbouring) * query.grid
    terms["monotone"] = None if least_of(query, neighbouring) == 0 else False
    if query.keys is None:
        return terms | {"tests": tests}
    reach = None if Wanted.is_series(neighbouring) else bound.parallel
    return terms | {"keys": len(query.keys), "reach": reach, "steps": -(-tests // len(query.keys))}
