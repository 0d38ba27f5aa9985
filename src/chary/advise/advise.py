"""Advice: which mechanism answers a question best within a budget, and what else the cost of a call would buy."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, Unpack

from chary.accounting import error_of_all_up, gaussian_error_up
from chary.advise import contenders
from chary.advise.options import (
    LARGEST_RHO,
    Advice,
    HitValues,
    Option,
    Room,
    Unfit,
    Wanted,
    WantedTerms,
    epsilons_of,
    written,
)
from chary.amounts import Amount
from chary.calls import prepaid_tests, sharpness
from chary.calls.call import Call, Shorthand
from chary.calls.releases import Release
from chary.core import forecast
from chary.core.plan import Plan
from chary.core.quote import Alternative, Quote
from chary.core.transaction import SessionBase, Spine
from chary.data import NeighborRelation, Neighbors
from chary.errors import CharyError, NotPriced
from chary.filters import Budget, Filter, PureFilter, RenyiFilter, exact_filter_for, largest_call
from chary.numbers import EVERY_CHARGED, MISSES_ENDED, Number, exact, percent, whole

# Which mechanism for this many threshold tests: advice for a new dataset, and for what is left of one.

Contender = Callable[[Wanted, Room], Option]
SPARSE: Final[dict[str, Contender]] = {
    "sparse vector, published": partial(contenders.sparse, form="published"),
    "sparse vector, published, delta": contenders.approximate_sparse,
    "sparse vector, tuned": partial(contenders.sparse, monotone=False),
    "sparse vector, tuned, monotone": partial(contenders.sparse, monotone=True),
    "sparse vector, one-sided": partial(contenders.sparse, form="one-sided", monotone=False),
    "sparse vector, one-sided, monotone": partial(contenders.sparse, form="one-sided", monotone=True),
}
RELEASES: Final[dict[str, Contender]] = {
    "plain composition, Laplace": contenders.laplace_releases,
    "plain composition, Gaussian": contenders.gaussian_releases,
}
GAUSSIAN: Final[dict[str, Contender]] = {"Gaussian above threshold": contenders.gaussian_runs}
SHARP: Final[dict[str, Contender]] = {
    "optimal threshold test": contenders.sharp_tests,
    "optimal threshold test, balanced": contenders.balanced_sharp_tests,
    "optimal threshold test, fixed number of tests": contenders.agreed_sharp_tests,
}
COMPARED: Final[dict[str, Callable[[Wanted, Budget], Option]]] = {
    "plain composition, best theorem": contenders.best_theorem,
    "target charging, published bound": partial(contenders.charging_by, "published bound"),
    "target charging, exact tail": partial(contenders.charging_by, "exact tail"),
    "target charging, exact curve": contenders.curve_charging,
    "sparse vector, tuned, Gaussian values": contenders.gaussian_values,
}


def advise_for(session: SessionBase, **terms: Unpack[WantedTerms]) -> Advice:
    """Every way to run this many threshold tests with what a session has left, the smallest error first.

    The terms are those of `advise`. What is left is the rest of the dataset's budget, or of the analyst's quota if that
    is less. Once free misses have ended, it is the sum of epsilons that calls may still take. Nothing is read and
    nothing is charged. `monotone=None` means: monotone under add/remove, as counts and sums of values from 0 on are.
    """
    spine = session.spine
    wanted = Wanted.asked(spine.rows.neighbor_relation, **terms)
    return advice_within(wanted, Room.within(spine.filter, spine.accounts()))


def advise(
    *,
    epsilon: Number,
    delta: Number = 0,
    hits: int,
    tests: int | None = None,
    keys: int | None = None,
    reach: int | None = None,
    overlap: int = 1,
    steps: int = 1,
    values: bool = True,
    low: Number | None = None,
    high: Number | None = None,
    above: Number | None = None,
    sensitivity: Number = 1,
    grid: Number = 1,
    monotone: bool | None = None,
    neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
    confidence: Number = "0.95",
) -> Advice:
    """Every way to run this many threshold tests of which `hits` are expected to be above, the smallest error first.

    They are `tests` single ones, in each of which one unit may be, or the `keys` of questions, of which a unit is in at
    most `reach` (default: all). `overlap` such questions are asked of the same units (by city, by age and by sex: 3),
    all of them `steps` times (52 in a year, each week). So there are `keys * overlap * steps` tests, in `reach *
    overlap * steps` of which one unit may be, and what is written is asked `overlap * steps` times. `hits` are those of
    all questions together.

    Each mechanism is calibrated to the budget of a new dataset. The advice shows the filter to open that with and the
    call to write. `values`: each hit comes with a noisy value. `low` and `high`: the range of the questions, if it is
    public; Gaussian tests are calibrated to it, with `above` (by default the middle). `sensitivity`: the largest change
    of each single question by one unit, in steps of `grid`. `monotone`: all questions move in one direction between
    neighbours, as counts do under add/remove, the default of `neighbors`. What does not apply is listed with the
    reason.

    Errors: `InvalidParameter` for sizes that make no sense.

    >>> found = advise(epsilon=1, delta=1e-6, tests=10_000, hits=10)
    >>> found.best.mechanism, found.best.error
    ('optimal threshold test, fixed number of tests', 141.0)
    >>> found.best.code
    'session.start(PrepaidTests(tests=10000, hits=10, value=0.14))'
    """
    budget = Budget(epsilon, delta)
    wanted = Wanted.asked(
        NeighborRelation(neighbors, None),
        tests=tests,
        keys=keys,
        reach=reach,
        overlap=overlap,
        steps=steps,
        hits=hits,
        values=values,
        low=low,
        high=high,
        above=above,
        sensitivity=sensitivity,
        grid=grid,
        monotone=monotone,
        confidence=confidence,
    )
    rooms = dict.fromkeys(("plain composition, Laplace", *SPARSE, *GAUSSIAN), _pure)
    rooms |= {"sparse vector, published, delta": _set_aside, "plain composition, Gaussian": _renyi}
    found = _Collected(wanted)
    rooms |= dict.fromkeys(SHARP, _renyi_for_hits)
    for name, contender in (RELEASES | SPARSE | GAUSSIAN | SHARP).items():
        found.add(name, partial(_in_new, contender, wanted, budget, rooms[name]))
    for kind, room in {"pure": _pure, "renyi": _renyi_for_hits, "exact": _exact_for_hits}.items():
        found.add(f"target charging, {kind} filter", partial(_in_new, contenders.target_charging, wanted, budget, room))
    found.compare(budget)
    return found.advice()


def advice_within(wanted: Wanted, room: Room) -> Advice:
    """Advice for what is left; mechanisms for comparison need a whole budget, so they appear where nothing is spent."""
    found = _calls(wanted, room)
    if room.fresh:
        found.compare(room.filter.budget)
    else:
        found.unfit += [Unfit(name, "it is for a whole budget, and not all of this one is left") for name in COMPARED]
    return found.advice()


def _calls(wanted: Wanted, room: Room) -> "_Collected":
    found, charging = _Collected(wanted), f"target charging, {room.filter.kind} filter"
    # Runs that charge their questions one by one have no epsilon that could be added up.
    runs = {} if room.ended else GAUSSIAN
    found.unfit += [Unfit(name, f"{MISSES_ENDED}: {EVERY_CHARGED}") for name in GAUSSIAN if room.ended]
    for name, contender in (RELEASES | SPARSE | runs | SHARP | {charging: contenders.target_charging}).items():
        found.add(name, partial(contender, wanted, room))
    return found


class _Collected:
    """Options and what does not apply, as they are found."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.options: list[Option] = []
        self.unfit: list[Unfit] = []

    def add(self, name: str, make: Callable[[], Option]) -> None:
        """Keep the option, or why there is none."""
        try:
            self.options.append(make())
        except CharyError as error:
            self.unfit.append(Unfit(name, str(error)))

    def compare(self, budget: Budget) -> None:
        """Add the mechanisms that are listed for comparison."""
        for name, compared in COMPARED.items():
            self.add(name, partial(compared, self.wanted, budget))

    def advice(self) -> Advice:
        """The advice, the smallest error first."""
        ordered = sorted(self.options, key=lambda option: (option.error, option.share))
        asked, confidence = self.wanted, float(exact(self.wanted.confidence, "confidence"))
        return Advice(asked.tests, asked.hits, asked.values, confidence, tuple(ordered), tuple(self.unfit))


def _in_new(contender: Contender, wanted: Wanted, budget: Budget, room: Callable[[Wanted, Budget], Room]) -> Option:
    return contender(wanted, room(wanted, budget))


def _pure(wanted: Wanted, budget: Budget) -> Room:
    return Room.new(PureFilter(budget))


def _set_aside(wanted: Wanted, budget: Budget) -> Room:
    delta = budget.exact[1]
    return Room.new(PureFilter(budget, delta), f", delta_reserve={written(delta)}")


def _renyi(wanted: Wanted, budget: Budget) -> Room:
    return Room.new(RenyiFilter.best(budget))


def _renyi_for_hits(wanted: Wanted, budget: Budget) -> Room:
    _needs_delta(budget)
    grain = largest_call(budget, wanted.paid_hits, "renyi")
    return Room.new(RenyiFilter.best(budget, grain=grain), grain=grain)


def _exact_for_hits(wanted: Wanted, budget: Budget) -> Room:
    _needs_delta(budget)
    filter_ = exact_filter_for(budget, wanted.paid_hits)
    return Room.new(filter_, grain=filter_.grain)


def _needs_delta(budget: Budget) -> None:
    if not budget.exact[1]:
        raise NotPriced("it needs a delta greater than 0; without one, misses are charged")


# What else would answer the tests of a call at the cost of its hits, and how far off each would be.


def alternatives(spine: Spine, call: Call[Any], found: Quote, hits: int | None = None) -> list[Alternative]:
    """The call and every mechanism that fits into its cost, the smallest error of all tests and values first.

    Errors are those of `advise`. The cost is that of `hits` hits (default: as many as the call names, or as can be
    charged, where they still fit) and of all misses. A call beyond the whole budget is not listed, and mechanisms are
    listed that fit into the budget. Of a release by Laplace noise it is that by Gaussian noise, with the error of each
    value. Empty for all other calls that are no tests against a threshold.
    """
    made = call.stands_for() if isinstance(call, Shorthand) else call
    if isinstance(made, Release):
        code = "session.release(query, rho={})" if made is call else "rho={} for epsilon="
        return _releases(spine, made, found, code)
    if found.outlook is None or not isinstance(
        call, (prepaid_tests.SparseVector, prepaid_tests.PrepaidTests, sharpness.Threshold)
    ):
        return []
    agreed = call.terms(spine.filter) if isinstance(call, prepaid_tests.PrepaidTests) else None
    asked = call.plan(spine)
    try:
        expected = _hits(call, asked, found) if hits is None else whole(hits, "hits")
        ended = found.free_misses_ended or found.ends_free_misses
        filter_ = epsilons_of(spine.filter) if ended else spine.filter
        tests = found.outlook.tests
        terms = {"hits": min(expected, tests)} | _terms(call, asked, spine, tests)
        wanted = Wanted.asked(spine.rows.neighbor_relation, **terms)
        paid, own = _paid(call, agreed, asked, filter_, wanted), []
        if paid.fits_into(filter_.capacity):
            cost = filter_.shares.taken(paid)
            error = _error(call, agreed, asked, spine, wanted)
            own = [Alternative(f"{call.name}, as quoted: {percent(cost)} of the budget", error, None)]
        others = _calls(wanted, Room(filter_, paid.cut_to(filter_.capacity), ended=ended)).advice().options
    except CharyError:  # nothing to compare with: more hits than tests, say, or an order without a table
        return []
    told = [Alternative(each.mechanism, each.error, each.code) for each in others if each.code is not None]
    return sorted(own + told, key=lambda each: each.error)


def _releases(spine: Spine, call: Release[Any], found: Quote, code: str) -> list[Alternative]:
    """A release by Laplace noise and that of its cost by Gaussian noise, as code with its rho; empty where there is
    none of its cost."""
    ended = found.free_misses_ended or found.ends_free_misses
    if call.epsilon is None or call.delta is not None or found.error_bar is None or ended or not found.fits:
        return []

    def gaussian(rho: Fraction) -> Plan[Any]:
        return replace(call, epsilon=None, rho=rho).plan(spine)

    paid = call.plan(spine).price(spine.filter).hit
    try:
        room = Room(spine.filter, paid)
        rho = room.largest(lambda rho: gaussian(rho).event, lambda price: price.hit, Fraction(LARGEST_RHO))
    except CharyError:  # an account of epsilons alone takes no Gaussian noise
        return []
    error, cost = gaussian(rho).forecast().error_bar, percent(spine.filter.shares.taken(paid))
    if error is None:
        return []
    own = Alternative(f"Laplace noise, as quoted: {cost} of the budget", found.error_bar, None)
    return sorted((own, Alternative("Gaussian noise", error, code.format(written(rho)))), key=lambda each: each.error)


def _paid(
    call: Call[Any], agreed: prepaid_tests.AgreedTerms | None, asked: Plan[Any], filter_: Filter, wanted: Wanted
) -> Amount:
    """What all tests cost under this filter, with the hits that are expected."""
    if agreed is not None:
        return agreed.paid + Amount(agreed.charges.hit).times(wanted.paid_hits)
    price = asked.price(filter_)
    sparse = isinstance(call, prepaid_tests.SparseVector)
    return price.hit if sparse else price.total(wanted.paid_hits, wanted.paid_tests)


def _error(call: Any, agreed: Any, asked: Plan[Any], spine: Spine, wanted: Wanted) -> float:
    """How far off the call itself may be, all tests and values together."""
    within, tested = asked.forecast().within, isinstance(call, sharpness.Threshold)
    law: Any = call.law(spine, call.query) if tested else None
    if within is None:
        found = error_of_all_up(law.noise.law(), tests=wanted.tests, confidence=wanted.confidence)
        return float(found * call.query.grid)
    together = within(wanted.tests, wanted.confidence)
    return max(together.error if together else 0.0, _values_error(agreed, law, wanted))


def _values_error(agreed: Any, law: Any, wanted: Wanted) -> float:
    """The error of the fresh values of all hits; values of a sparse vector count among its tests."""
    if agreed is not None:
        rho = agreed.sharpness(1, Fraction(1)).value_rho
        return 0.0 if rho is None else wanted.units(HitValues(wanted, rho).beside_tests)
    if law is None or law.noise is None:
        return 0.0
    sure = (1 + exact(wanted.confidence, "confidence")) / 2
    return wanted.units(gaussian_error_up(law.noise.sigma_squared, tests=wanted.hits, confidence=sure))


def _hits(call: Any, asked: Plan[Any], found: Quote) -> int:
    """The hits that the call names, or as many as it can have, where they fit into what is left."""
    most = getattr(call, "hits", None) or asked.cost.most
    return max(1, most if found.hits_left is None else min(most, found.hits_left))


def _terms(call: Any, asked: Plan[Any], spine: Spine, tests: int) -> dict[str, Any]:
    """What the call says of its tests, in the words of an advice."""
    if isinstance(call, prepaid_tests.SparseVector):
        sizes = {name: getattr(call, name) for name in ("above", "sensitivity", "grid", "monotone", "values")}
        return sizes | {"tests": tests}
    if isinstance(call, prepaid_tests.PrepaidTests):
        return {"tests": tests, "values": call.value is not None}
    query, neighbor_relation = call.query, spine.rows.neighbor_relation
    terms = {"above": call.above, "values": isinstance(call, sharpness.Valued), "grid": query.grid}
    terms["sensitivity"] = query.sensitivity(neighbor_relation) * query.grid
    terms["monotone"] = None if forecast.least_of(query, neighbor_relation) == 0 else False
    if query.keys is None:
        return terms | {"tests": tests}
    reach = None if Wanted.is_series(neighbor_relation) else asked.cost.parts
    return terms | {"keys": len(query.keys), "reach": reach, "steps": -(-tests // len(query.keys))}
