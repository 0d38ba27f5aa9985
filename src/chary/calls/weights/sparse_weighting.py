"""Public histograms that are corrected in rounds of sparse vector, paid for once: opening one, and going on with it."""

from dataclasses import KW_ONLY
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event
from chary.accounting.intervals import Tails
from chary.accounting.sparse_vector import SparseTails
from chary.accounting.weights import Constants, WeightRounds, weight_rounds
from chary.calls.call import call
from chary.calls.fields import Cells, Exact, Positive, Probability, Whole
from chary.calls.run import Opening, Run, keeps
from chary.calls.weights.histogram_questions import OpenHistogram, WeightedAnswer
from chary.calls.weights.public_weights import KeptHistogram
from chary.calls.weights.sparse_histogram_questions import HistogramRound
from chary.calls.weights.sparse_public_weights import SparseWeightsState
from chary.core.plan import Json
from chary.core.transaction import Spine
from chary.data import Universe, count
from chary.data.size import public_size
from chary.errors import InvalidParameter
from chary.mechanisms import SparseVectorMachine
from chary.mechanisms.weights import Update
from chary.numbers import failing, plain


@call("sparse_weights", subject="weights")
class SparseWeights(Opening[Run[WeightedAnswer, SparseWeightsState]]):
    """Answer any number of queries about shares of rows from a public histogram; all is paid now, for ever.

    Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; more accurate), for all answers together, however
    far the table grows. Hard queries are found by rounds of sparse vector with one hit each ([GROW] Algorithm 3);
    as many may begin as the theorem allows hard answers, more as the table grows, and then the histogram answers
    alone. `rounds` foresees so many at the start instead, which is far more accurate where fewer suffice. A larger
    `exponent`, below 1, favours late rounds over early ones. `update` and `mixing` are those of `Weights`; with
    `constants="published"`, "published" and 1 all is as in [GROW], epsilon-DP or (epsilon, delta)-DP.
    `chary.accounting.weights` has calculators of the accuracy.

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`, `privacy_unit=None`),
    `InvalidParameter` for published constants that do not keep the budget, `NoPrice`, `BudgetRefused`.
    """

    _: KW_ONLY
    universe: Cells
    alpha: Exact
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Exact = 0
    exponent: Probability = "1/2"
    constants: Constants = "exact"
    rounds: Whole | None = None
    update: Update = "projected"
    mixing: Exact = "0.1"

    def __post_init__(self) -> None:
        failing(self.delta)

    def bind(self, spine: Spine) -> "OpenSparseWeights":
        return OpenSparseWeights(self, spine.rows.neighbouring, public_size(spine.rows))


class OpenSparseWeights(OpenHistogram[SparseWeights]):
    """A uniform public histogram over a universe, and the budget of all rounds that will correct it.

    Nothing is read but the public size.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_noise()

    def _check_noise(self) -> None:
        """Refuse constants that do not keep the budget, and a first round whose noise is out of range."""
        first = self.rounds.epsilon_down(1, self.size)
        try:
            self.machine(1, self.size)
            return
        except InvalidParameter:
            pass
        raise InvalidParameter(
            f"so many rounds leave an epsilon of {plain(first)} for the first, too little for any noise: give a larger "
            "alpha=, epsilon= or rho=, or a small number of rounds="
        )

    @cached_property
    def rounds(self) -> WeightRounds:
        """What each round may spend."""
        return weight_rounds(
            alpha=self.rule.alpha,
            cells=self.universe.cells,
            start=self.size,
            update=self.rule.update,
            mixing=self.rule.mixing,
            exponent=self.call.exponent,
            constants=self.call.constants,
            epsilon=self.call.epsilon,
            rho=self.call.rho,
            delta=self.call.delta,
            rounds=self.call.rounds,
        )

    def machine(self, number: int, size: int) -> SparseVectorMachine:
        """The sparse vector of a round that began at this size."""
        return SparseVectorMachine(self.rounds.noise(number, size), count().sensitivity(self.neighbouring))

    @property
    def event(self) -> Event:
        return self.rounds.event

    def body(self) -> Json:
        return super().body() | {"rounds": self.call.rounds}

    @property
    def fresh(self) -> bytes:
        return HistogramRound().dump()

    @property
    def first_told(self) -> Json:
        return self.told(1, self.size)

    def told(self, number: int, size: int) -> Json:
        """What an answer says of a round that began at this size."""
        return {"round": number, "epsilon": str(self.rounds.epsilon_down(number, size))}

    def tails(self, told: Json) -> Tails:
        noise = self.rounds.noise_of(Fraction(told["epsilon"]))
        return SparseTails(noise.scaled(count().sensitivity(self.neighbouring)))


@keeps
class KeptSparseWeights(KeptHistogram):
    """A histogram whose rounds were paid at the opening."""

    kind = SparseWeights.kind

    @cached_property
    def state(self) -> SparseWeightsState:
        told = {name: size for name, size in self.terms.items() if name not in ("columns", "missing")}
        opening = SparseWeights(universe=Universe.of_body(self.terms), **told)
        started = OpenSparseWeights(opening, self.spine.rows.neighbouring, self.size_then())
        return SparseWeightsState(self.spine, self.number, started)
