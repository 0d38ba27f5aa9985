"""A quote: what a question costs, how well it is answered and what else would do, before anything is charged."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from html import escape
from typing import Any, Final, NamedTuple

from chary.amounts import LIMIT, Amount
from chary.core.charges import ends_free_misses, free_epsilon, freed_by_a_delta, needed
from chary.core.forecast import RAISE, ExpectedHard, Forecast, Outlook, Within
from chary.core.plan import PREPAID, Plan
from chary.core.transaction import Spine
from chary.data.queries.stored import current_kind
from chary.ledger import Parts
from chary.numbers import (
    CONFIDENT,
    EVERY_CHARGED,
    MISSES_ENDED,
    Number,
    counted,
    exact,
    percent,
    plain,
    probability,
    sentence,
    whole,
)

# The other side of the confidence of every error bar.
_RARE: Final = Fraction(1, 20)
_SHOWN: Final = 5
_NOTHING: Final = Amount(0)
# Of no use without the filter, and worked out when it is wanted.
_UNTOLD: Final = (
    "compared",
    "distance_given",
    "hits_before_end",
    "by_test",
    "most",
    "basic",
    "block",
    "limits",
    "guarantee",
    "hard_answers",
    "parts",
)
_IF_SAID: Final = ("block", "guarantee", "limits")
NOT_FREE: Final = "misses are not free"
LAST_FREE: Final = "this call ends free misses"
NO_ROOM: Final = "the call does not fit"
NOT_KEPT: Final = "the stated accuracy is not kept"


class Alternative(NamedTuple):
    """Another call of the same cost. `error` bounds the errors of all its tests and values together.

    `code` is the call as Python code, None for the call that is quoted. There, `mechanism` says what all its hits and
    misses cost together.
    """

    mechanism: str
    error: float
    code: str | None


Comparing = Callable[[], Sequence[Alternative]]


@dataclass(frozen=True)
class Quote:
    """Cost and accuracy of a query. Nothing in it depends on the data, so it is free.

    **Cost.** Costs are fractions of the whole budget. `price_if_hit` and `price_if_miss` are for one part;
    `most_charged` is for the worst outcome of the whole call. `hits_left` is the number of hits (or releases) of this
    size that the remaining budget pays for, None when they are free. `left` is what could still be spent now.
    `left_after` is the least that is left after the call (for a run: after its opening); it is negative where the call
    does not fit. Where the budgets of blocks renew, both are those of `block`, which has the least left.

    **Misses.** `misses_charged` says that a test is charged although it misses. `free_below` is an epsilon at which
    misses would be free; None where there is none, as in a budget without a delta. `ends_free_misses` says that the
    call fits only if every call is charged its epsilon from then on, hit or miss; `free_misses_ended` says that this
    has happened. `later_hit` and `later_miss` are the costs of each later test of the run that this call opens. If the
    opening pays for the misses, its cost includes all of them.

    **Accuracy.** `error_bar` is half the width of the 95 % confidence interval of a published value. It is None where
    no value is published and where it depends on the data (means). It is also None where the noise of the value decides
    whether it is published; then `outlook` and `interval` say more. `wrong_call` is the probability that a value
    `distance` above (negative: below) the threshold is misclassified. `outlook` says what threshold tests will report:
    margin, expected false alarms, smallest threshold. With 95 % confidence, `shortfall` bounds how far the chosen
    candidate is below the best, and `rank_error` how many values the ranks of quantiles are off (see
    `QuantileAnswers`). `within` is the error of all tests together, where their number is known. `interval` describes
    an interval whose width depends on the data.

    `limits` says which values, rows and groups the query counts, where not all do. `guarantee` says what all answers
    together satisfy, and between which neighbours. In the steps of the filter, `most`
    is the worst outcome, `basic` the same in its basic account, and `parts` the parts of the rows it is charged in.
    `hard_answers` estimates how many answers of a PMW run are hard, if a public example was given (`ExpectedHard`).
    """

    kind: str
    epsilon: float | None
    price_if_hit: float
    price_if_miss: float
    most_charged: float
    hits_left: int | None
    fits: bool
    error_bar: float | None
    distance: float | None
    wrong_call: float | None
    shortfall: float | None = None
    rank_error: int | None = None
    within: Within | None = None
    later_hit: float | None = None
    later_miss: float | None = None
    interval: str | None = None
    free_below: float | None = None
    outlook: Outlook | None = None
    misses_charged: bool = False
    left: float = 1.0
    left_after: float = 1.0
    ends_free_misses: bool = False
    free_misses_ended: bool = False
    most: Amount = field(default=_NOTHING, repr=False, compare=False)
    basic: int = field(default=0, repr=False, compare=False)
    compared: Comparing | None = field(default=None, repr=False, compare=False)
    block: str | None = field(default=None, repr=False)
    guarantee: str | None = field(default=None, repr=False)
    limits: str | None = field(default=None, repr=False)
    parts: Parts | None = field(default=None, repr=False, compare=False)
    distance_given: bool = field(default=False, repr=False, compare=False)
    hits_before_end: int | None = field(default=None, repr=False, compare=False)
    by_test: bool = field(default=False, repr=False, compare=False)
    hard_answers: ExpectedHard | None = field(default=None, repr=False)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Calls that answer as many tests at the same cost, this call among them, the smallest error first.

        Computed at the first access, in about a second; empty for calls that are no tests against a threshold.
        """
        return () if self.compared is None else tuple(self.compared())

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        told = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _UNTOLD}
        told["within"] = None if self.within is None else asdict(self.within)
        told["outlook"] = None if self.outlook is None else self.outlook.as_dict()
        told |= {name: said for name in _IF_SAID if (said := getattr(self, name)) is not None}
        told |= {} if self.hard_answers is None else {"hard_answers": self.hard_answers.as_dict()}
        return told | {"alternatives": [each._asdict() for each in self.alternatives]}

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.compared_lines()])

    def lines(self) -> list[str]:
        """The figures in short lines: cost, what is left, accuracy, guarantee; false alarms first, if many."""
        expected = [] if self.outlook is None else self.outlook.lines()
        lines = [line for line in expected if RAISE in line]
        lines += ["Cost: free"] if self.hits_left is None else [self._price(), self._leaves()]
        if self.block is not None:
            lines.append(f"Of the blocks that it reads, {self.block} has the least budget left")
        if self.ends_free_misses:
            lines.append(sentence(f"{LAST_FREE}: after it {EVERY_CHARGED}"))
        if self.later_hit is not None and self.later_miss is not None:
            lines.append(self._later(percent(self.later_hit), percent(self.later_miss)))
        if self.error_bar is not None:
            lines.append(f"With {CONFIDENT}, a published value is within {plain(self.error_bar)} of the truth")
        if self.wrong_call is not None and (self.outlook is None or self.distance_given):
            wrong = plain(float(f"{self.wrong_call:.2g}"))
            lines.append(f"A value {self._apart()} the threshold is misclassified with probability {wrong}")
        if self.shortfall is not None:
            lines.append(f"With {CONFIDENT}, the chosen candidate is within {plain(self.shortfall)} of the best")
        if self.rank_error is not None:
            lines.append(f"With {CONFIDENT}, each rank is off by at most {self.rank_error} values")
        lines += [sentence(str(said)) for said in (self.within, self.interval, self.hard_answers) if said is not None]
        lines += [line for line in expected if RAISE not in line]
        lines += [] if self.limits is None else [sentence(self.limits)]
        return lines + ([] if self.guarantee is None else [f"Guarantee: {self.guarantee}"])

    def compared_lines(self) -> list[str]:
        """The alternatives at the same cost in lines, the best first."""
        shown = self.alternatives[:_SHOWN] + tuple(each for each in self.alternatives[_SHOWN:] if each.code is None)
        if len(shown) < 2:
            return []
        lines = [
            f"{plain(float(f'{each.error:.3g}'))}  {each.code or 'this call'}  ({each.mechanism})" for each in shown
        ]
        of = "each published value" if self.outlook is None else "all answers together"
        return [f"Error of {of} at the same cost:", *(f"  {each}" for each in lines)]

    def _repr_html_(self) -> str:
        """The lines as an HTML list, with warnings in red, and the alternatives as a table."""
        red = ' style="color:#b00020"'
        items = "".join(f"<li{red if warns(line) else ''}>{escape(line)}</li>" for line in self.lines())
        rows = "".join(
            f"<tr><td>{plain(each.error)}</td><td><code>{escape(each.code or 'this call')}</code></td></tr>"
            for each in self.alternatives
        )
        table = f"<table><tr><th>error at the same cost</th><th></th></tr>{rows}</table>" if rows else ""
        return f"<ul>{items}</ul>{table}"

    def _price(self) -> str:
        """What one part costs: a test, or all of a call or an opening that has no misses."""
        hit, miss = percent(self.price_if_hit), percent(self.price_if_miss)
        if self.price_if_hit == self.price_if_miss:
            said = f"Cost: {hit} of the budget{' for each test' if self.by_test else ''}, whatever the outcome"
        else:
            said = f"Cost: {hit} of the budget for a hit; a miss {f'costs {miss}' if self.price_if_miss else 'is free'}"
        return said + self._not_free()

    def _later(self, hit: str, miss: str) -> str:
        """The cost of each test of the run that this call opens. The opening pays for all misses, unless it is free."""
        if self.hits_left is not None:
            return f"Each hit costs {hit} more when it comes; this cost includes all misses, {miss} each"
        missed = f"costs {miss}" if self.later_miss else "is free"
        return f"Each hit costs {hit} of the budget when it comes; a miss {missed}"

    def _leaves(self) -> str:
        """How many such calls fit, and what is left after one of them."""
        if not self.fits:
            ended = f"; {MISSES_ENDED}: {EVERY_CHARGED}" if self.free_misses_ended else ""
            return sentence(f"{NO_ROOM}: {percent(self.left)} of the budget is left{ended}")
        what = "test" if self.by_test else "call" if self.price_if_hit == self.price_if_miss else "hit"
        most = self.hits_left or 0
        fits = most if self.hits_before_end is None else min(most, self.hits_before_end)
        fit = counted(fits, f"such {what}", f"such {what}s")
        fit += f", or {most} if free misses end" if fits < most else ""
        return f"The remaining budget pays for {fit}; this call leaves at least {percent(max(0.0, self.left_after))}"

    def _not_free(self) -> str:
        """What would make misses free, where they are charged."""
        if not self.misses_charged:
            return ""
        if self.ends_free_misses or self.free_misses_ended:
            return f" ({NOT_FREE} any more)"
        if self.free_below is None:
            return f" ({NOT_FREE}: they would be in a budget with a delta, and the first charge fixes the budget)"
        return f" ({NOT_FREE}: they would be at epsilon={plain(self.free_below)})"

    def _apart(self) -> str:
        distance = self.distance or 0
        return f"{plain(abs(distance))} {'below' if distance < 0 else 'above'}"


def quote(
    spine: Spine,
    plan: Plan[Any],
    distance: Number | None = None,
    tests: int | None = None,
    confidence: Number = "0.95",
    truth: Number | None = None,
) -> Quote:
    """Cost a plan against what is left. Without a distance, the error bar serves as the distance.

    `tests` is how many are expected, with that `confidence`, of truths up to `truth`. The question is checked as if it
    were asked (`InvalidQuery`), but nothing is read.
    """
    spine = spine.placed(plan)
    plan.reads(spine.rows)
    forecast = plan.forecast()
    confidence = probability(confidence, "confidence")
    read = spine.scope(plan)
    price, accounts = plan.price(spine.filter), spine.accounts(read)
    shares, left = spine.filter.shares, accounts.left
    later = forecast.later
    bar = forecast.error_bar
    apart = bar if distance is None else float(exact(distance, "distance"))
    tested, barred = forecast.step is not None, forecast.tests
    least, epsilons = needed(plan, spine.filter)
    fits, each = accounts.fits(least, epsilons), price.basic if plan.cost.adds_up else LIMIT
    # Told in shares of the account that it will be charged to.
    ending = ends_free_misses(plan, spine.filter, accounts)
    told = accounts.told_alone() if ending else accounts
    tests_charged = barred is not None and barred.bought is False and (told.alone or not price.free_miss)
    charged = tests_charged or freed_by_a_delta(plan, spine.filter) is not None
    free = free_epsilon(plan, spine.filter) if charged and not told.alone else None
    halts = plan.cost.halts and not (ending or accounts.alone)
    # Where a miss costs as much as a hit, all parts are charged: told of all together, but of tests that may halt.
    alike = price.hit == price.miss
    parts = plan.cost.parts if alike and not plan.cost.halts else 1
    hit, miss = (each_of.times(parts) for each_of in (price.hit, price.miss))
    most = _most(plan.worst(price), left, halts=halts)
    return Quote(
        kind=current_kind(plan.kind),
        epsilon=None if plan.event.epsilon is None else float(plan.event.epsilon),
        price_if_hit=told.taken(hit, min(each * parts, LIMIT)),
        price_if_miss=told.taken(miss, min(each * parts, LIMIT)),
        most_charged=told.taken(most, epsilons),
        left=accounts.share_left(),
        left_after=told.share_left(most, epsilons),
        most=most,
        basic=epsilons,
        ends_free_misses=ending,
        free_misses_ended=accounts.alone,
        hits_left=_of_calls(price.hits_left(told, each), parts),
        fits=fits,
        error_bar=None if forecast.decides else bar,
        distance=apart if tested else None,
        wrong_call=_wrong(forecast, apart) if tested else None,
        distance_given=distance is not None,
        by_test=alike and plan.cost.halts and plan.cost.parts > 1,
        hits_before_end=None if told.alone else _of_calls(told.copies(price.hit), parts),
        shortfall=None if forecast.shortfall is None else forecast.shortfall(_RARE),
        rank_error=forecast.rank_error,
        within=_within(forecast, tests, confidence),
        later_hit=None if later is None else shares.taken(later.hit),
        later_miss=None if later is None else shares.taken(later.miss),
        interval=forecast.interval,
        free_below=None if free is None else float(free),
        misses_charged=charged,
        outlook=None if barred is None else barred.outlook(tests=tests, truth=truth, confidence=confidence),
        # An opening that is free reads nothing: what is asked later may be of other blocks.
        guarantee=_guarantee(spine),
        block=spine.tightest(read) if read is not None and len(read.names) > 1 and plan.cost is not PREPAID else None,
        parts=read,
    )


def _of_calls(parts_left: int | None, parts: int) -> int | None:
    return None if parts_left is None else parts_left // parts


def _guarantee(spine: Spine) -> str:
    """What all answers together keep to, and between which neighbours."""
    epsilon, delta = map(plain, spine.filter.budget.exact)
    return f"all answers together are ({epsilon}, {delta})-DP, with {spine.rows.neighbor_relation.describe()}"


def compared_with(quote: Quote, compared: Comparing) -> Quote:
    """The quote with its alternatives."""
    return replace(quote, compared=compared)


def warns(line: str) -> bool:
    """Whether a line of a quote is a warning.

    >>> warns("Cost: 2 % of the budget for a hit; a miss is free")
    False
    """
    return any(warning in line.lower() for warning in (NOT_FREE, NO_ROOM, NOT_KEPT, LAST_FREE, RAISE))


def _most(worst: Amount, left: Amount, *, halts: bool) -> Amount:
    """What a call may be charged; one that halts when the budget is exhausted takes no more than is left, but its delta
    is paid whole."""
    return Amount(min(worst.main, left.main), worst.delta) if halts else worst


def _within(forecast: Forecast, tests: int | None, confidence: Number) -> Within | None:
    """For this many tests, or for as many as were agreed on."""
    if tests is None:
        return forecast.foreseen
    many = whole(tests, "tests")
    return None if forecast.within is None else forecast.within(many, confidence)


def _wrong(forecast: Forecast, distance: float | None) -> float | None:
    step = forecast.step
    if step is None or distance is None or forecast.wrong is None:
        return None
    return forecast.wrong(int(exact(distance, "distance") // step))
