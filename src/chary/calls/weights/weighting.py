"""Public histograms whose hard answers are charged one by one: opening one, and going on with it."""

from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from chary.accounting import Event, Targeted, four_digits_down, largest_size
from chary.accounting.intervals import Tails
from chary.calls.call import call
from chary.calls.fields import Cells, Exact, Flag, Positive, Probability, Whole
from chary.calls.openings import FreeOpening
from chary.calls.run import Opening, Run, keeps
from chary.calls.thresholds.hit_terms import HitTerms
from chary.calls.thresholds.how_sharply import check_one_way, check_tests, value_part
from chary.calls.thresholds.sharpness import Wanted, priced_by
from chary.calls.weights.charged_questions import AskSharpWeights, AskWeights
from chary.calls.weights.histogram_questions import HistogramMemory, OpenHistogram, WeightedAnswer
from chary.calls.weights.public_weights import KeptHistogram, WeightsState
from chary.core.plan import Json, Ran, Touched, laplace_for
from chary.core.transaction import Spine
from chary.data import Universe, count
from chary.data.size import public_size
from chary.errors import BudgetRefused, CharyError
from chary.filters import Filter, RenyiFilter
from chary.mechanisms.weights import Transcript, Update

# Between these the largest call of which so many fit is looked for; smaller ones are no use to anybody.
LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12
_TOLD: Final = (
    "hits=60 (so many fit), price= (the share of the budget for one), tests=1000 (all told within alpha/3), or "
    "epsilon= for Laplace noise"
)
# What ledgers keep of a call under the names of its fields.
_OWN: Final = ("alpha", "follow_size", "update", "mixing", "hits", "price", "tests", "sure", "value")


@call("multiplicative_weights", subject="weights")
class Weights(Opening[Run[WeightedAnswer, WeightsState]]):
    """Answer any number of queries about shares of rows from a public histogram; pay only where it is off.

    Guarantee: each query is one call that hits if it is "hard"; opening is free. `alpha` is how far answers may be off.
    How sharply hard is told from easy is said in one way: `hits`, so many hard answers fit into the whole budget;
    `price`, the share of the whole budget that one may take; `tests` alone, the least price at which so many queries
    are told rightly within alpha/3, with probability `sure` (0.95); or `epsilon`, that of a call. The first three are
    `SharpTest`, with an unbiased value for the part `value` (a quarter) of the price; with `tests` the bar lies half
    way between false alarms and misses. They need a session with a delta and the Renyi filter, but for `hits`, which
    under other filters is the largest call by Laplace noise of which so many fit. A call of that form is epsilon-DP
    with the NotPrior target "hard".

    Sizes are those at the opening. With `follow_size` calls get smaller as the table grows, so that more hits fit;
    otherwise answers get more accurate. `update` and `mixing` are those of
    `chary.mechanisms.weights`; "published" and 1 reproduce [GROW].

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`, `privacy_unit=None`) or
    columns have other types; `NoPrice` under another filter.
    """

    _: KW_ONLY
    universe: Cells
    alpha: Exact
    epsilon: Positive | None = None
    hits: Whole | None = None
    follow_size: Flag = True
    update: Update = "projected"
    mixing: Exact = "0.1"
    price: Probability | None = None
    tests: Whole | None = None
    sure: Probability | None = None
    value: Probability | None = None

    def __post_init__(self) -> None:
        if self.tests is None or any(way is not None for way in (self.epsilon, self.hits, self.price)):
            check_one_way(self, ("epsilon", "hits", "price"), _TOLD)
        check_tests(self)

    def bind(self, spine: Spine) -> "OpenWeights | OpenSharpWeights":
        size, neighbouring, filter_ = public_size(spine.rows), spine.rows.neighbouring, spine.filter
        if self.epsilon is None and (isinstance(filter_, RenyiFilter) or self._only_sharp):
            renyi = priced_by(filter_, "give epsilon= for Laplace noise")
            return OpenSharpWeights(self, neighbouring, size, self.terms(renyi, size))
        usual = self.epsilon or _fitting(filter_, self.hits or 1)
        return OpenWeights(replace(self, epsilon=usual, hits=None), neighbouring, size)

    def terms(self, filter_: RenyiFilter, size: int) -> HitTerms:
        """The sharp tests that are asked for, of a table of this size."""
        alone = self.hits is None and self.price is None
        within = Fraction(self.alpha) / 3 * size if alone else None
        wanted = Wanted.said(self, within=within)
        return HitTerms.found(wanted, filter_, Fraction(1), self.value_share)

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hard answer that its count takes."""
        return value_part(self.value)

    @property
    def _only_sharp(self) -> bool:
        """Whether something was said that only a sharp test has."""
        return any(said is not None for said in (self.price, self.tests, self.value))


class OpenWeights(OpenHistogram[Weights], FreeOpening[Weights]):
    """A uniform public histogram over a universe; its call says `epsilon`, that of a call at the size of the opening.

    Nothing is read but the public size, and nothing is charged. With `follow_size` a call at t rows is smaller by the
    size of the opening over t, so that noise stays the same part of the table; otherwise calls stay as they are and
    noise shrinks.
    """

    @property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    def asked(self, opened: int, text: str, size: int, memory: HistogramMemory) -> AskWeights:
        """A query at this size."""
        return AskWeights(opened, self, text, size, memory)

    def body(self) -> Json:
        told = super().body()
        return told | {"epsilon_per_call": told.pop("epsilon")}

    @property
    def fresh(self) -> bytes:
        return Transcript().dump()

    @property
    def first_told(self) -> Json:
        return {"epsilon": str(self.call.epsilon)}

    def tails(self, told: Json) -> Tails:
        return laplace_for(count(), self.neighbouring, Fraction(told["epsilon"])).law()


@dataclass(frozen=True)
class OpenSharpWeights(OpenHistogram[Weights], FreeOpening[Weights]):
    """The same histogram, told hard from easy by sharp tests.

    The answer keeps the price of a hit at the size of the opening: it may have been found in floats, so it is read
    again and never found anew. With `follow_size` the price at t rows is smaller by the square of that size over t.
    """

    terms: HitTerms = field(compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.terms.sharpness(), self.terms.noise()  # refuses what has no table

    @property
    def event(self) -> Event:
        return self.terms.event

    def asked(self, opened: int, text: str, size: int, memory: HistogramMemory) -> AskSharpWeights:
        """A query at this size."""
        return AskSharpWeights(opened, self, text, size, memory)

    @property
    def fresh(self) -> bytes:
        return Transcript().dump()

    @property
    def first_told(self) -> Json:
        return {"price": str(self.terms.price)}

    def tails(self, told: Json) -> Tails:
        return replace(self.terms, price=Fraction(told["price"])).sharpness().tails

    def run(self, touched: Touched) -> Ran:
        ran = super().run(touched)
        return replace(ran, answer=ran.answer | self.first_told)


@keeps
class KeptWeights(KeptHistogram):
    """A histogram whose hard answers are charged one by one."""

    kind = Weights.kind

    @cached_property
    def state(self) -> WeightsState:
        own = {name: told for name, told in self.terms.items() if name in _OWN}
        opening = Weights(universe=Universe.of_body(self.terms), epsilon=self.terms.get("epsilon_per_call"), **own)
        neighbouring, size = self.spine.rows.neighbouring, self.size_then()
        if opening.epsilon is not None:
            return WeightsState(self.spine, self.number, OpenWeights(opening, neighbouring, size))
        filter_ = priced_by(self.spine.filter, "open another histogram with epsilon=")
        terms = HitTerms(filter_, Fraction(self.opened_as["price"]), opening.value_share, Wanted.said(opening).chance)
        return WeightsState(self.spine, self.number, OpenSharpWeights(opening, neighbouring, size, terms))


def _fitting(filter_: Filter, hits: int) -> Fraction:
    """The largest call by Laplace noise of which so many hits fit into the whole budget."""

    def fits(size: float) -> bool:
        try:
            copies = filter_.price(Targeted(Fraction(size))).hit.copies_in(filter_.capacity)
        except CharyError:
            return False
        return copies is None or copies >= hits

    if not fits(SMALLEST_EPSILON):
        raise BudgetRefused(f"{hits} hard answers do not fit into the budget")
    return four_digits_down(largest_size(fits, LARGEST_EPSILON))
