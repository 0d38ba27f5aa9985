"""Public histograms whose hard answers are charged one by one: opening one, and going on with it."""

from dataclasses import KW_ONLY, replace
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event, Targeted, four_digits_down, largest_size
from chary.calls.call import call
from chary.calls.fields import Cells, Exact, Flag, Positive, Whole
from chary.calls.openings import FreeOpening
from chary.calls.run import Opening, Run, keeps
from chary.calls.weights.histogram_questions import OpenHistogram, WeightedAnswer
from chary.calls.weights.public_weights import KeptHistogram, WeightsState
from chary.data import Universe
from chary.data.size import public_size
from chary.errors import BudgetRefused, CharyError, InvalidParameter
from chary.mechanisms.synthesis.weights_update import Transcript, Update
from chary.spine.interaction import Json
from chary.spine.spine import Spine

# Between these the largest call of which so many fit is looked for; smaller ones are no use to anybody.
LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12


@call("multiplicative_weights", subject="weights")
class Weights(Opening[Run[WeightedAnswer, WeightsState]]):
    """Answer any number of queries about shares of rows from a public histogram; pay only where it is off.

    Guarantee: each query is one epsilon-DP call with the NotPrior target "hard"; opening is free. `alpha` is how
    far answers may be off. Give `epsilon`, that of a call at the size of the opening, or `hits`: as many hard
    answers as are to fit into what is left (then a repeated request would be another question). With `follow_size`
    calls get smaller as the table grows, so that more hits fit; otherwise answers get more accurate. `update` and
    `mixing` are those of `chary.mechanisms.synthesis.weights_update`; "published" and 1 reproduce [GROW].

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`, `privacy_unit=None`) or
    columns have other types.
    """

    _: KW_ONLY
    universe: Cells
    alpha: Exact
    epsilon: Positive | None = None
    hits: Whole | None = None
    follow_size: Flag = True
    update: Update = "projected"
    mixing: Exact = "0.1"

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.hits is None):
            raise InvalidParameter("open it with universe=, alpha= and either epsilon= or hits=")

    def bind(self, spine: Spine) -> "OpenWeights":
        size, usual = public_size(spine.rows), self.epsilon or _fitting(spine, self.hits or 1)
        return OpenWeights(replace(self, epsilon=usual, hits=None), spine.rows.neighbouring, size)

    def perform(self, spine: Spine, request: str | None = None) -> Run[WeightedAnswer, WeightsState]:
        if self.hits is not None and request is not None:
            raise InvalidParameter(
                "hits= follows what is left, so a repeated request would be another question: give epsilon= with it"
            )
        return super().perform(spine, request)


class OpenWeights(OpenHistogram[Weights], FreeOpening[Weights]):
    """A uniform public histogram over a universe; its call says `epsilon`, that of a call at the size of the opening.

    Nothing is read but the public size, and nothing is charged. With `follow_size` a call at t rows is smaller by the
    size of the opening over t, so that noise stays the same part of the table; otherwise calls stay as they are and
    noise shrinks.
    """

    @property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    def body(self) -> Json:
        told = super().body()
        return told | {"epsilon_per_call": told.pop("epsilon")}

    @property
    def fresh(self) -> bytes:
        return Transcript().dump()


@keeps
class KeptWeights(KeptHistogram):
    """A histogram whose hard answers are charged one by one."""

    kind = Weights.kind

    @cached_property
    def state(self) -> WeightsState:
        names = ("alpha", "follow_size", "update", "mixing")
        told = {name: self.terms[name] for name in names} | {"epsilon": self.terms["epsilon_per_call"]}
        opening = Weights(universe=Universe.of_body(self.terms), **told)
        started = OpenWeights(opening, self.spine.rows.neighbouring, self.size_then())
        return WeightsState(self.spine, self.number, started)


def _fitting(spine: Spine, hits: int) -> Fraction:
    """The largest call of which so many hits fit into what is left."""
    filter_, left = spine.filter, spine.left()

    def fits(size: float) -> bool:
        try:
            copies = filter_.price(Targeted(Fraction(size))).hit.copies_in(left)
        except CharyError:
            return False
        return copies is None or copies >= hits

    if not fits(SMALLEST_EPSILON):
        raise BudgetRefused(f"{hits} hard answers do not fit into what is left of the budget")
    return four_digits_down(largest_size(fits, LARGEST_EPSILON))
