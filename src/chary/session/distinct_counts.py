"""Asking a private sketch: methods of a session, and the handle they give."""

from chary.data import Predicate
from chary.data.elements import Elements
from chary.errors import InvalidParameter
from chary.numbers import Number
from chary.session.door import Door
from chary.session.sketching import AskSketch, DistinctEstimate, StartSketch, is_paid
from chary.session.spine import Spine

REGISTERS = 1024


class DistinctCount:
    """A number of distinct elements, kept as a private sketch; made by `Session.sketch`, and found again by `call`.

    Guarantee: all answers together, whatever is asked and however the table grows, are epsilon-DP for one unit, with
    the epsilon of the sketch, and cost one call of that epsilon: nothing until an estimate is published, nothing after
    (docs/sketches.md). Where the filter charges misses too, the first question is charged. It rests on SHA-256 under
    the sketch's secret key being a random function.
    """

    def __init__(self, spine: Spine, call: int, started: StartSketch) -> None:
        """Use `Session.sketch`."""
        self._spine, self.call, self._started = spine, call, started

    def release_if(self, *, above: Number, request: str | None = None) -> DistinctEstimate:
        """The estimate if it is at or above the bar, otherwise nothing. Bars may be asked in any order.

        Rows that were appended by `Session.append` since the last question are read first, under fresh phantoms of
        which a further `Distinct.phantoms` in each register lie in the error bar. Otherwise no row is read.
        """
        version = self._spine.ledger.version(self._spine.dataset)
        made = AskSketch(self.call, self._started, above, version, self.paid)
        answer: DistinctEstimate = self._spine.perform(made, request)
        return answer

    def release(self, *, request: str | None = None) -> DistinctEstimate:
        """The estimate, whatever it is."""
        return self.release_if(above=0, request=request)

    @property
    def paid(self) -> bool:
        """Whether the sketch was charged, after which all its answers are free."""
        return is_paid(self._spine.ledger.secret(self.call))

    def error_bar(self, n: int, *, veils: int = 1) -> float:
        """The half-width of the 95 % interval for n elements, after `veils - 1` growths between questions."""
        return self._started.distinct.error_bar(n, veils=veils)

    def __repr__(self) -> str:
        return f"DistinctCount(call {self.call}: {self._started.body()})"


class Sketching(Door):
    """Numbers of distinct elements."""

    def sketch(
        self,
        where: Predicate | str | None = None,
        *,
        of: str | None = None,
        epsilon: Number | None = None,
        registers: int | None = None,
        keep_per_unit: int | None = None,
        stated_per_unit: int | None = None,
        call: int | None = None,
        request: str | None = None,
    ) -> DistinctCount:
        """Keep the number of distinct privacy units with a row satisfying `where` as a private sketch.

        With `of`, the number of distinct values of that column; one unit has at most r of them: `keep_per_unit=r`
        (chary enforces it and reads the rows once) or `stated_per_unit=r` (you vouch for it, for all rows to come).
        `call` goes on with an earlier sketch and takes nothing else.

        Guarantee: epsilon-DP for one unit and all answers together (see `DistinctCount`); starting costs nothing.
        Errors: `InvalidParameter` for registers (1024 by default) that are no power of two from 2**4 to 2**16 or an
        epsilon too small for one element, `InvalidQuery` for an unknown column or no limit on the values of a unit,
        `UnknownHeld` when that call started no sketch.
        """
        neighbouring = self.spine.rows.neighbouring
        if call is not None:
            if (where, of, epsilon, registers, keep_per_unit, stated_per_unit) != (None,) * 6:
                raise InvalidParameter("call= goes on with an earlier sketch: give nothing else")
            started = StartSketch.of_body(self.earlier(call, "sketch", "the start of a sketch"), neighbouring)
            return DistinctCount(self.spine, call, started)
        if epsilon is None:
            raise InvalidParameter("a sketch needs its epsilon, such as session.sketch(epsilon=0.5)")
        asked = Elements(of, Predicate.of(where), keep_per_unit, stated_per_unit)
        started = StartSketch(asked, neighbouring, epsilon, REGISTERS if registers is None else registers)
        return DistinctCount(self.spine, self.spine.perform(started, request), started)
