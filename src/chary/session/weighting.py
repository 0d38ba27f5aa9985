"""The public histograms of a session: opening one, asking it, and what can be made of it for free."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Targeted, four_digits_down, largest_size
from chary.accounting.multiplicative_weights import hard_answers_up, weights_alpha
from chary.data import Count, Predicate
from chary.data.axes import Axis
from chary.data.columns import classify
from chary.data.size import public_size
from chary.data.universe import Universe
from chary.errors import BudgetRefused, CharyError, InvalidParameter, InvalidQuery, NoPrice, UnknownHeld
from chary.ledger import State
from chary.mechanisms.multiplicative_weights import Change, MultiplicativeWeights, Transcript, Update
from chary.numbers import Number, plain, whole
from chary.session.door import Door
from chary.session.multiplicative_weights import EVERYTHING, AskWeights, Memory, OpenWeights, WeightedAnswer
from chary.session.spine import Spine

LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12


@dataclass(frozen=True)
class WeightsQuote:
    """Where a public histogram stands. Nothing in it depends on unpublished data, so it is free.

    `hard` queries there were so far, and `hard_left` still fit (None: they are free). `most_hard` is what the theorem
    allows from the opening until now, while all answers are within alpha/3. `epsilon` is that of a call now, `alpha`
    what the answers are meant to be within, `reached` what they are all within over `queries` queries, 95 times in 100.
    """

    hard: int
    hard_left: int | None
    most_hard: float
    epsilon: float
    alpha: float
    queries: int
    reached: float

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        left = "any number is" if self.hard_left is None else f"{self.hard_left} are"
        return (
            f"{self.hard} hard queries so far, {left} left, at most {plain(self.most_hard)} in the worst case; "
            f"{self.queries} answers are all within {plain(self.reached)} 95 times in 100"
        )


class PublicWeights:
    """A public histogram over a universe, corrected by hard answers; made by `Session.multiplicative_weights`.

    Guarantee: each query is one call with the NotPrior target "hard", charged if it is hard and free if it is easy.
    The histogram is a function of published answers: looking at it, and whatever is made of it, is free. `call` is the
    number that opens it again after a restart, bit by bit the same.
    """

    def __init__(self, spine: Spine, call: int, started: OpenWeights) -> None:
        """Use `Session.multiplicative_weights`."""
        self.call, self.universe = call, started.universe
        self._spine, self._started = spine, started
        self._memory = Memory(started, spine.rows.schema)

    def ask(
        self, where: Predicate | Count | str | None, *, must_verify: bool = False, request: str | None = None
    ) -> WeightedAnswer:
        """The share of rows that satisfy the condition, within alpha (see `quote`); None is every row.

        When no hit fits into the budget any more, the histogram answers alone, `verified` is False, and nothing is read
        or recorded; with `must_verify` that is a `BudgetRefused`. Errors: `InvalidQuery` for a condition that the
        universe cannot tell (see `Universe`).
        """
        asked = self._asked(where)
        try:
            answer: WeightedAnswer = self._spine.perform(asked, request)
        except BudgetRefused as refused:
            if must_verify or isinstance(refused, NoPrice):
                raise
            with self._memory.at(self._transcript()) as weights:
                return WeightedAnswer(None, weights.share(asked.located[0], asked.size), False, False, None)
        return answer

    def estimate(self, where: Predicate | Count | str | None) -> float:
        """The histogram's share, unchecked: free, and no data but the public size are read."""
        asked = self._asked(where)
        with self._memory.at(self._transcript()) as weights:
            return weights.share(asked.located[0], asked.size)

    def quote(self, *, queries: int = 1000) -> WeightsQuote:
        """How many hard queries are left, and how accurate so many answers are now."""
        asked, filter_, rule = self._asked(None), self._spine.filter, self._started.rule
        sizes = {"start": self._started.size, "size": max(asked.size, self._started.size)}
        most = hard_answers_up(
            alpha=rule.alpha, cells=self.universe.cells, **sizes, update=rule.update, mixing=rule.mixing
        )
        return WeightsQuote(
            hard=len(self.changes),
            hard_left=asked.price(filter_).hit.copies_in(self._spine.left()),
            most_hard=most,
            epsilon=float(asked.epsilon),
            alpha=float(rule.alpha),
            queries=queries,
            reached=max(float(rule.alpha), weights_alpha(epsilon=asked.epsilon, size=asked.size, queries=queries)),
        )

    @property
    def changes(self) -> tuple[Change, ...]:
        """What each hard answer did, in order; all of it is public."""
        return self._transcript().changes

    def histogram(self) -> NDArray[np.float64]:
        """What part of the rows is in each cell: one axis for each column, the missing cell last. It sums to 1."""
        size = public_size(self._spine.rows)
        with self._memory.at(self._transcript()) as weights:
            return weights.shares(size).reshape(self.universe.shape)

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A made-up table of that many rows drawn from the histogram: free, since nothing private is read.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        random = np.random.default_rng(whole(seed, "seed", least=0))
        sums = np.cumsum(self.histogram().ravel())
        drawn = np.searchsorted(sums, random.random(whole(rows, "rows")) * sums[-1], side="right")
        places = np.unravel_index(np.minimum(drawn, len(sums) - 1), self.universe.shape)
        schema = self._spine.rows.schema
        columns = {}
        for (name, axis), cells in zip(self.universe.columns, places, strict=True):
            columns[name] = pa.array(axis.drawn(cells, classify(schema, name), random))
        return pa.table(columns)

    def _asked(self, where: Predicate | Count | str | None) -> AskWeights:
        size = public_size(self._spine.rows)
        return AskWeights(self.call, self._started, _text(where), size, self._memory)

    def _transcript(self) -> Transcript:
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise UnknownHeld(f"call {self.call} keeps no histogram: it was interrupted; open a new one")
        return Transcript.load(secret)

    def __repr__(self) -> str:
        rule = self._started.rule
        return f"PublicWeights(call={self.call}, alpha={plain(Fraction(rule.alpha))}, {self.universe})"


def _text(where: Predicate | Count | str | None) -> str:
    """The condition, canonically."""
    if isinstance(where, Count):
        if where.keying is not None or where.without is not None:
            raise InvalidQuery("a histogram answers one condition at a time: count(condition), neither by nor without=")
        where = where.where
    if where is not None and not isinstance(where, (str, Predicate)):
        raise InvalidQuery(f"ask a condition, such as \"age >= 65 AND sex = 'f'\", not {type(where).__name__}")
    predicate = Predicate.of(where)
    return EVERYTHING if predicate is None else predicate.text


class Weighting(Door):
    """Private multiplicative weights."""

    def multiplicative_weights(
        self,
        *,
        universe: Universe | Mapping[str, Axis | Iterable[Any]] | None = None,
        alpha: Number | None = None,
        epsilon: Number | None = None,
        hits: int | None = None,
        follow_size: bool = True,
        update: Update = "projected",
        mixing: Number = "0.1",
        call: int | None = None,
        request: str | None = None,
    ) -> PublicWeights:
        """Answer any number of queries about shares of rows from a public histogram; pay only where it is off.

        Guarantee: each query is one epsilon-DP call with the NotPrior target "hard"; opening is free. `alpha` is how
        far answers may be off. Give `epsilon`, that of a call at the size of the opening, or `hits`: as many hard
        answers as are to fit into what is left. With `follow_size` calls get smaller as the table grows, so that more
        hits fit; otherwise answers get more accurate. `update` and `mixing` are those of `MultiplicativeWeights`;
        "published" and 1 reproduce [GROW].

        `call=` goes on with an earlier one instead, also after a restart. Errors: `InvalidQuery` where the number of
        rows is secret (open with `relation="replace"`, `privacy_unit=None`) or columns have other types.
        """
        if call is not None:
            given = (universe, alpha, epsilon, hits, follow_size, update, mixing, request)
            if given != (None, None, None, None, True, "projected", "0.1", None):
                raise InvalidParameter("give call= alone: an open histogram keeps what it was opened with")
            return self._weights(call)
        if universe is None or alpha is None or (epsilon is None) == (hits is None):
            raise InvalidParameter("open it with universe=, alpha= and either epsilon= or hits=")
        if hits is not None and request is not None:
            raise InvalidParameter(
                "hits= follows what is left, so a repeated request would be another question: give epsilon= with it"
            )
        cells, rule = Universe.of(universe), MultiplicativeWeights(alpha, update, mixing)
        size, usual = public_size(self.spine.rows), self._fitting(hits) if epsilon is None else epsilon
        made = OpenWeights(cells, rule, usual, follow_size, self.spine.rows.neighbouring, size)
        return self._weights(self.spine.perform(made, request))

    @property
    def public_weights(self) -> list[PublicWeights]:
        """Every public histogram of the dataset that was opened and not interrupted, oldest first."""
        calls = self.spine.ledger.calls(self.spine.dataset)
        opened = [call for call in calls if call.kind == OpenWeights.kind and call.state == State.SETTLED]
        return [self._weights(call.number) for call in opened]

    def _weights(self, call: int) -> PublicWeights:
        body = self.earlier(call, OpenWeights.kind, "an opening of a histogram")
        answer = self.spine.ledger.call(call).answer
        if answer is None:
            raise UnknownHeld(f"call {call} keeps no histogram: it was interrupted; open a new one")
        size = json.loads(answer)["size"]
        return PublicWeights(self.spine, call, OpenWeights.of_body(body, self.spine.rows.neighbouring, size))

    def _fitting(self, hits: int | None) -> Fraction:
        """The largest epsilon of which so many hits fit into what is left."""
        filter_, left, least = self.spine.filter, self.spine.left(), whole(hits or 0, "hits")

        def fits(size: float) -> bool:
            try:
                copies = filter_.price(Targeted(Fraction(size))).hit.copies_in(left)
            except CharyError:
                return False
            return copies is None or copies >= least

        if not fits(SMALLEST_EPSILON):
            raise BudgetRefused(f"{least} hard answers do not fit into what is left of the budget")
        return four_digits_down(largest_size(fits, LARGEST_EPSILON))
