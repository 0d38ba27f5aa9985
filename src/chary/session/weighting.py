"""The public histograms of a session: opening one of either form, and going on with it."""

import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from chary.accounting import Targeted, four_digits_down, largest_size
from chary.accounting.sparse_weights import Constants
from chary.data.axes import Axis
from chary.data.size import public_size
from chary.data.universe import Universe
from chary.errors import BudgetRefused, CharyError, InvalidParameter, UnknownHeld
from chary.ledger import State
from chary.mechanisms.multiplicative_weights import MultiplicativeWeights, Update
from chary.numbers import Number, whole
from chary.session.door import Door
from chary.session.interaction import Json
from chary.session.multiplicative_weights import OpenWeights
from chary.session.public_weights import PublicWeights
from chary.session.sparse_public_weights import SparseWeights
from chary.session.sparse_weights import OpenSparseWeights

LARGEST_EPSILON, SMALLEST_EPSILON = 10.0, 1e-12


class Weighting(Door):
    """Private multiplicative weights, in two forms."""

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

    def sparse_multiplicative_weights(
        self,
        *,
        universe: Universe | Mapping[str, Axis | Iterable[Any]] | None = None,
        alpha: Number | None = None,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number = 0,
        exponent: Number = "1/2",
        constants: Constants = "exact",
        rounds: int | None = None,
        update: Update = "projected",
        mixing: Number = "0.1",
        call: int | None = None,
        request: str | None = None,
    ) -> SparseWeights:
        """Answer any number of queries about shares of rows from a public histogram; all is paid now, for ever.

        Guarantee: epsilon-DP, or rho-zCDP (for sessions with a delta; more accurate), for all answers together, however
        far the table grows. Hard queries are found by rounds of sparse vector with one hit each ([GROW] Algorithm 3);
        as many may begin as the theorem allows hard answers, more as the table grows, and then the histogram answers
        alone. `rounds` foresees so many at the start instead, which is far more accurate where fewer suffice. A larger
        `exponent`, below 1, favours late rounds over early ones. `update` and `mixing` are those of
        `MultiplicativeWeights`; with `constants="published"`, "published" and 1 all is as in [GROW], epsilon-DP or
        (epsilon, delta)-DP. `chary.accounting.sparse_weights` has calculators of the accuracy.

        `call=` goes on with an earlier one instead, also after a restart. Errors: `InvalidQuery` where the number of
        rows is secret (open with `relation="replace"`, `privacy_unit=None`), `InvalidParameter` for published constants
        that do not keep the budget, `NoPrice`, `BudgetRefused`.
        """
        terms = (epsilon, rho, delta, exponent, constants, rounds)
        if call is not None:
            given = (universe, alpha, *terms, update, mixing, request)
            if given != (None, None, None, None, 0, "1/2", "exact", None, "projected", "0.1", None):
                raise InvalidParameter("give call= alone: an open histogram keeps what it was opened with")
            return self._sparse_weights(call)
        if universe is None or alpha is None:
            raise InvalidParameter("open it with universe=, alpha= and one of epsilon= and rho=")
        cells, rule = Universe.of(universe), MultiplicativeWeights(alpha, update, mixing)
        size = public_size(self.spine.rows)
        made = OpenSparseWeights(cells, rule, self.spine.rows.neighbouring, *terms, size)
        return self._sparse_weights(self.spine.perform(made, request))

    @property
    def public_weights(self) -> list[PublicWeights | SparseWeights]:
        """Every public histogram of the dataset that was opened and not interrupted, of both forms, oldest first."""
        forms: dict[str, Callable[[int], PublicWeights | SparseWeights]]
        forms = {OpenWeights.kind: self._weights, OpenSparseWeights.kind: self._sparse_weights}
        calls = self.spine.ledger.calls(self.spine.dataset)
        return [forms[call.kind](call.number) for call in calls if call.kind in forms and call.state == State.SETTLED]

    def _weights(self, call: int) -> PublicWeights:
        body, size = self._opening(call, OpenWeights.kind)
        return PublicWeights(self.spine, call, OpenWeights.of_body(body, self.spine.rows.neighbouring, size))

    def _sparse_weights(self, call: int) -> SparseWeights:
        body, size = self._opening(call, OpenSparseWeights.kind)
        return SparseWeights(self.spine, call, OpenSparseWeights.of_body(body, self.spine.rows.neighbouring, size))

    def _opening(self, call: int, kind: str) -> tuple[Json, int]:
        """What was asked, and the size at that time."""
        body = self.earlier(call, kind, "an opening of such a histogram")
        answer = self.spine.ledger.call(call).answer
        if answer is None:
            raise UnknownHeld(f"call {call} keeps no histogram: it was interrupted; open a new one")
        return body, json.loads(answer)["size"]

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
