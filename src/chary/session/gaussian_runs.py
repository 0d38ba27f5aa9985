"""A run of threshold tests with Gaussian noise: paid by what came out, to the first True or the end of the budget."""

from dataclasses import replace
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

from chary.accounting import ExPost
from chary.data import Query
from chary.errors import BudgetRefused, InvalidQuery, NoPrice, UnknownHeld
from chary.session.gaussian_steps import AskAbove, FirstAbove, Moved
from chary.session.run_state import RunState, RunTerms
from chary.session.spine import ATTEMPTS, Spine


class ThresholdRun:
    """Tests of values against one noisy threshold, up to the first True; made by `Session.above_threshold`.

    Guarantee: epsilon-DP by what was charged, whatever was asked and came out (see `Session.above_threshold`). Values
    are clipped to `clipped_to`. `call` is the number that opens the run again, also after a restart.
    """

    def __init__(self, spine: Spine, call: int, terms: RunTerms) -> None:
        """Use `Session.above_threshold`."""
        self.call = call
        self._spine, self._terms, self._closed = spine, terms, False

    def test(self, query: Query, *, request: str | None = None) -> bool:
        """Whether the value of a query without keys, clipped and noisy, is at or above the noisy threshold.

        True ends the run. Errors: `BudgetRefused` if the budget cannot pay for either outcome, with nothing touched;
        `UnknownHeld` when the run halted; `InvalidQuery` for a query with keys, a mean, or one of a larger sensitivity
        than the run was opened for.
        """
        if not isinstance(query, Query) or query.keys is not None:
            raise InvalidQuery("test asks a count or total without keys; run.watch(query) tests those with keys")
        answer: bool = self._perform(query, request)
        return answer

    def watch(self, query: Query, *, request: str | None = None) -> FirstAbove:
        """The same for each key in turn, in one scan, until one is above or the budget cannot pay for the next one.

        Guarantee and errors as for `test`; every key that was tested is a step of the run.
        """
        if not isinstance(query, Query) or not query.keys:
            raise InvalidQuery('watch needs public keys, such as count().by("day", days)')
        answer: FirstAbove = self._perform(query, request)
        return answer

    @property
    def steps(self) -> int:
        """How many values were tested."""
        return self._now().steps

    @property
    def loss(self) -> float:
        """What the run was charged: its answers so far are at most e^loss times as likely under a neighbour."""
        return self._now().charged

    @property
    def next_loss(self) -> float:
        """The most that the next step can add to `loss`, which is what it reserves; 0 when the run halted.

        Where the run has no `sensitivity` of its own, a query like those before it is assumed, and 0 if there was none.
        """
        return float(self._next(self._now()))

    @property
    def clipped_to(self) -> tuple[float, float]:
        """The bounds that values are clipped to."""
        low, high = map(float, self._terms.bounds)
        return low, high

    @property
    def state(self) -> str:
        """ "running", "halted at step t", or "stopped: the budget cannot pay for step t", of `next_loss`, as of now."""
        now = self._now()
        if now.halted:
            return f"halted at step {now.steps}"
        price = self._spine.filter.price(ExPost(self._next(now))).hit
        return "running" if price.fits_into(self._spine.left()) else self._stopped(now.steps + 1)

    def _perform(self, query: Query, request: str | None) -> Any:
        if self._closed:
            raise UnknownHeld(f"this run was left: open it again by session.above_threshold(call={self.call})")
        for _ in range(ATTEMPTS - 1):
            try:
                return self._asked(query, request)
            except Moved:
                continue
        return self._asked(query, request)

    def _asked(self, query: Query, request: str | None) -> Any:
        now = self._now()
        keys = 1 if query.keys is None else len(query.keys)
        made = AskAbove(self.call, self._terms, query, self._spine.rows.neighbouring, now, self._spine.filter, keys)
        fitting = made if now.halted else self._affordable(made)
        try:
            return self._spine.perform(fitting, request)
        except NoPrice:
            raise
        except BudgetRefused as error:
            if fitting.limit > 1:
                raise Moved("another call took the room for these keys: ask again") from None
            told = f"{self._stopped(now.steps + 1)}; {error}"
        raise BudgetRefused(told)

    def _affordable(self, made: AskAbove) -> AskAbove:
        """As many keys as can be paid for, at least one: the price never falls with their number."""
        if made.limit == 1:
            return made
        left, least, beyond = self._spine.left(), 1, made.limit + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            fits = self._spine.filter.price(replace(made, limit=middle).event).hit.fits_into(left)
            least, beyond = (middle, beyond) if fits else (least, middle)
        return replace(made, limit=least)

    def _now(self) -> RunState:
        secret = self._spine.ledger.secret(self.call)
        if secret is None:
            raise UnknownHeld(f"call {self.call} keeps no threshold: it was interrupted; open a new run")
        return RunState.load(secret)

    def _next(self, now: RunState) -> Fraction:
        sensitivity, step = max(now.sensitivity, Fraction(self._terms.sensitivity or 0)), now.steps + 1
        if now.halted or not sensitivity:
            return Fraction(0)
        return now.increment(self._terms.losses(sensitivity, step).worst(step, step))

    def _stopped(self, step: int) -> str:
        return f"stopped: the budget cannot pay for step {step} of run {self.call}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed = True

    def __repr__(self) -> str:
        low, high = self.clipped_to
        return f"ThresholdRun(call={self.call}, threshold={self._terms.threshold}, values clipped to [{low}, {high}])"
