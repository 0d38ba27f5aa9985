"""Asking the same again and again, and paying only when the answer changes."""

import json
from typing import Any

from chary.data import Query
from chary.numbers import Number
from chary.session.algorithm import Algorithm
from chary.session.calling import UNSAID, Call, CallAgain, Track
from chary.session.door import Door
from chary.session.results import Outcome, Pair, Tracked
from chary.session.spine import Spine
from chary.session.twice import CallTwice


class Tracker:
    """One question, asked as often as you like; made by `Session.track`.

    Guarantee: each `ask` is one epsilon-DP call whose NotPrior target is "not the last published answer", so it is
    charged when the answer changes and free when it does not. The last answer is read from the ledger, also after a
    restart. The first answer is charged.
    """

    def __init__(self, spine: Spine, question: Query | Algorithm, step: Number | None, epsilon: Number | None) -> None:
        """Use `Session.track`."""
        self._spine, self._question, self._step, self._epsilon = spine, question, step, epsilon
        self._last: Any = UNSAID
        self._looked = False
        self._made(UNSAID)

    def ask(self, *, request: str | None = None) -> Tracked | Outcome:
        """The answer now; `changed` (or `hit`) says whether it is another one and so was charged."""
        if not self._looked:
            self._last, self._looked = self._stored(), True
        answer: Tracked | Outcome = self._spine.perform(self._made(self._last), request)
        self._last = self._stored_in(self._spine.ledger.call(answer.call).answer)
        return answer

    def _made(self, prior: Any) -> Call | Track:
        if isinstance(self._question, Algorithm):
            return CallAgain(self._question, prior)
        neighbouring = self._spine.rows.neighbouring
        last = None if prior is UNSAID else prior
        return Track(self._question, neighbouring, self._step or 0, self._epsilon or 0, last)

    def _stored(self) -> Any:
        """The last answer to this question that the ledger holds."""
        body = self._made(UNSAID).text()
        calls = self._spine.ledger.calls(self._spine.dataset)
        answers = [call.answer for call in calls if call.kind == "track" and call.body == body and call.answer]
        return self._stored_in(answers[-1]) if answers else UNSAID

    @staticmethod
    def _stored_in(answer: str | None) -> Any:
        return json.loads(answer or "{}").get("value", UNSAID)

    def __repr__(self) -> str:
        return f"Tracker({self._made(UNSAID).body()})"


class Calling(Door):
    """Private algorithms that the caller brings, and questions that are asked again and again."""

    def call(
        self,
        algorithm: Algorithm,
        *,
        prior: Any = UNSAID,
        target: list[Any] | None = None,
        q: Number | None = None,
        request: str | None = None,
    ) -> Outcome:
        """Run any private algorithm once.

        Guarantee: the algorithm's own. With `prior`, an outcome that may depend on everything published before, the
        call is free unless something else comes out (NotPrior). With `target`, a list of declared outcomes, it is free
        unless one of those comes out; `q` is what the caller states about the target (a q-target, theory 1.2) and can
        be left out where the target misses one outcome only. With neither it is always charged, like a release.

        Errors: `InvalidParameter` for a target that is no subset of the declared outcomes; `AlgorithmFailed`, charged,
        when it raises or returns what is no finite JSON value.
        """
        answer: Outcome = self.spine.perform(Call(algorithm, prior, target, q), request)
        return answer

    def call_twice(self, algorithm: Algorithm, *, request: str | None = None) -> Pair:
        """Run any private algorithm twice: two outcomes that agree are free, two that differ are charged.

        Guarantee: `TwiceCall(epsilon)`, 2 epsilon-DP, with nothing else known of the algorithm (black-box boundary,
        [TCT] section 4). Errors: `InvalidParameter` for an algorithm with a delta; `AlgorithmFailed`, charged.
        """
        answer: Pair = self.spine.perform(CallTwice(algorithm), request)
        return answer

    def track(
        self, question: Query | Algorithm, *, step: Number | None = None, epsilon: Number | None = None
    ) -> Tracker:
        """Ask the same again and again, and pay only when the answer changes: `session.track(...).ask()`.

        A query is answered with noise for `epsilon`, rounded to a multiple of `step` (without rounding, noise would
        change every answer: take a step of several error bars); an `Algorithm` brings its own epsilon.
        """
        return Tracker(self.spine, question, step, epsilon)
