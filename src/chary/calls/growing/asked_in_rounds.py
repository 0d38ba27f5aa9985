"""Asking a run whose questions are free while a round is open, and begin one where none is."""

from dataclasses import replace
from typing import Any

from chary.answers import Answer
from chary.calls.growing.growing_states import GrowingState
from chary.calls.growing.open_rounds import NoRoundOpen, RoundMoved
from chary.calls.run import Kept
from chary.core.quote import Quote
from chary.core.transaction import ATTEMPTS
from chary.errors import InvalidQuery


class AskedInRounds(Kept[Any, GrowingState]):
    """A question, or without one the beginning of a round, is asked in whatever round there is then."""

    def ask(self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None) -> Answer:
        """With `begins=1` it begins one round at most, with 0 none: what is charged is what was quoted. Otherwise
        another begins where somebody else's yes ended that one first, so that each yes is paid by one round."""
        return self._asked(asked, options, request, options.pop("begins", ATTEMPTS), ATTEMPTS)

    def _asked(
        self, asked: tuple[Any, ...], options: dict[str, Any], request: str | None, begins: int, left: int
    ) -> Answer:
        question = self.question(*asked, **options)
        try:
            answer: Answer = self.spine.perform(question, request)
            return answer
        except NoRoundOpen:
            if not (begins and left):
                raise
            question.prepare(self.spine.rows)
            begins -= self._begun(request)
        except RoundMoved as moved:
            if not (asked or options):
                raise InvalidQuery(str(moved)) from None
            if not left:
                raise
        return self._asked(asked, options, request, begins, left - 1)

    def _begun(self, request: str | None) -> bool:
        """Begin the next round for a question; False if another one began it meanwhile.

        Its key is made of the question's, so that what a request was charged is found.
        """
        key = None if request is None else f"{request}/round {self.state.rounds + 1} of {self.number}"
        try:
            self.spine.perform(self.question(), key)
        except RoundMoved:
            return False
        return True

    def quote(self, *asked: Any, **options: Any) -> Quote:
        """Where no round is open, a question has the price of one, which it begins."""
        told, state = super().quote(*asked, **options), self.state
        if not (asked or options) or state.next_epsilon is None or state.open_round is not None:
            return told
        begun = super().quote()
        prices = ("epsilon", "price_if_hit", "price_if_miss", "most_charged", "most", "fits", "left", "left_after")
        return replace(told, hits_left=state.left, **{name: getattr(begun, name) for name in prices})
