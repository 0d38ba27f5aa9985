"""Which mechanism for so many threshold tests: advice for a new dataset, and for what is left of one."""

from collections.abc import Callable
from functools import partial
from typing import Final

from chary.advise import comparisons, contenders, sharp_contenders, sparse_contenders
from chary.advise.advice import Advice, Option, Unfit
from chary.advise.affording import Room, Wanted, written
from chary.core.transaction import Door
from chary.data import Neighbouring, Relation
from chary.errors import CharyError, NoPrice
from chary.filters import Budget, PureFilter, RenyiFilter, exact_filter_for, largest_call
from chary.numbers import EVERY_CHARGED, MISSES_ENDED, Number, exact

Contender = Callable[[Wanted, Room], Option]
SPARSE: Final[dict[str, Contender]] = {
    "sparse vector, published": sparse_contenders.published_sparse,
    "sparse vector, published, delta": sparse_contenders.approximate_sparse,
    "sparse vector, tuned": sparse_contenders.tuned_sparse,
    "sparse vector, tuned, monotone": sparse_contenders.monotone_sparse,
    "sparse vector, one-sided": sparse_contenders.one_sided_sparse,
    "sparse vector, one-sided, monotone": sparse_contenders.monotone_one_sided_sparse,
}
RELEASES: Final[dict[str, Contender]] = {
    "plain composition, Laplace": contenders.laplace_releases,
    "plain composition, Gaussian": contenders.gaussian_releases,
}
GAUSSIAN: Final[dict[str, Contender]] = {"Gaussian above threshold": contenders.gaussian_runs}
SHARP: Final[dict[str, Contender]] = {
    "sharp test": sharp_contenders.sharp_tests,
    "sharp test, balanced": sharp_contenders.balanced_sharp_tests,
    "sharp test, agreed number of tests": sharp_contenders.agreed_sharp_tests,
}
COMPARED: Final[dict[str, Callable[[Wanted, Budget], Option]]] = {
    "plain composition, best theorem": comparisons.best_theorem,
    "target charging, published bound": comparisons.published_charging,
    "target charging, exact tail": comparisons.tail_charging,
    "target charging, exact curve": comparisons.curve_charging,
    "sparse vector, tuned, Gaussian values": comparisons.gaussian_values,
}


def advise_for(
    session: Door,
    *,
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
    confidence: Number = "0.95",
) -> Advice:
    """Every way to run so many threshold tests with what a session has left, the smallest error first; see `advise`.

    What is left is that of the dataset under its filter, or of the analyst's own cap if it is less; once free misses
    have ended, the epsilons that calls may still add up to. Nothing is read and nothing is charged. `monotone=None`:
    under add/remove, where counts and totals of values from 0 on are.
    """
    spine = session.spine
    wanted = Wanted.asked(
        spine.rows.neighbouring,
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
    relation: Relation | str = Relation.ADD_REMOVE,
    confidence: Number = "0.95",
) -> Advice:
    """Every way to run so many threshold tests of which `hits` are expected to be above, the smallest error first.

    They are `tests` single ones, in each of which one unit may be, or the `keys` of questions, of which a unit is in at
    most `reach` (default: all). `overlap` such questions are asked of the same units (by city, by age and by sex: 3),
    all of them `steps` times (52 in a year, each week). So there are `keys * overlap * steps` tests, in `reach *
    overlap * steps` of which one unit may be, and what is written is asked `overlap * steps` times. `hits` are those of
    all questions together.

    Each mechanism is calibrated to the budget of a new dataset and told with the filter to open that with and the call
    to write. `values`: each hit comes with a noisy value. `low` and `high`: the range of the questions, if it is
    public, for which Gaussian tests are priced, with `above` (by default the middle). `sensitivity`: how far one unit
    moves each single question, in steps of `grid`. `monotone`: all questions move in one direction between neighbours,
    as counts do under add/remove, the default of `relation`. What does not apply is listed with the reason.

    Errors: `InvalidParameter` for sizes that make no sense.

    >>> found = advise(epsilon=1, delta=1e-6, tests=10_000, hits=10)
    >>> found.best.mechanism, found.best.error
    ('sharp test, agreed number of tests', 141.0)
    >>> found.best.code
    'session.start(AgreedTests(tests=10000, hits=10, value=0.14))'
    """
    budget = Budget(epsilon, delta)
    neighbouring = Neighbouring(relation, None)
    wanted = Wanted.asked(
        neighbouring,
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
    """Advice for what is left; comparisons are for a whole budget, so only where nothing is spent."""
    found = _calls(wanted, room)
    if room.fresh:
        found.compare(room.filter.budget)
    else:
        found.unfit += [Unfit(name, "it is for a whole budget, and not all of this one is left") for name in COMPARED]
    return found.advice()


def options_within(wanted: Wanted, room: Room) -> tuple[Option, ...]:
    """The calls for what is left, without the comparisons, which no call can be written for."""
    return _calls(wanted, room).advice().options


def _calls(wanted: Wanted, room: Room) -> "_Collected":
    found, charging = _Collected(wanted), f"target charging, {room.filter.kind} filter"
    # Of runs whose questions are charged one by one no epsilons can be added up.
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
        """All comparisons."""
        for name, compared in COMPARED.items():
            self.add(name, partial(compared, self.wanted, budget))

    def advice(self) -> Advice:
        """All of it, the smallest error first."""
        ordered = sorted(self.options, key=lambda option: (option.error, option.share))
        asked = self.wanted
        sure = float(exact(asked.confidence, "confidence"))
        return Advice(asked.tests, asked.hits, asked.values, sure, tuple(ordered), tuple(self.unfit))


def _in_new(contender: Contender, wanted: Wanted, budget: Budget, room: Callable[[Wanted, Budget], Room]) -> Option:
    return contender(wanted, room(wanted, budget))


def _pure(wanted: Wanted, budget: Budget) -> Room:
    return Room.new(PureFilter(budget))


def _set_aside(wanted: Wanted, budget: Budget) -> Room:
    delta = budget.exact[1]
    return Room.new(PureFilter(budget, delta), f", approximate_delta={written(delta)}")


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
        raise NoPrice("it needs a delta greater than 0; without one, misses are charged")
