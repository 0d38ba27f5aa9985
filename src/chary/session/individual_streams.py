"""Individual charging in a session: opening a stream in which each unit pays for itself, and asking it."""

from fractions import Fraction
from typing import Any

from chary.data import Count
from chary.errors import InvalidParameter, InvalidQuery
from chary.ledger import State
from chary.numbers import Number
from chary.session.door import Door
from chary.session.individual import AskLiving, LivingCount, Memory, OpenIndividual
from chary.session.interaction import Question
from chary.session.results import WatchResult
from chary.session.spine import Spine


class IndividualStream:
    """A stream of queries that never ends and costs nothing more; made by `Session.individual`.

    Guarantee (theorem 2.10 of [TCT]): for every unit, that of `hits` hits of epsilon-DP calls with NotPrior targets,
    whatever is asked and for how long. `call` is the number that opens it again after a restart.
    """

    def __init__(self, spine: Spine, call: int, epsilon: Fraction, hits: int) -> None:
        """Use `Session.individual`."""
        self.call, self.epsilon, self.hits = call, epsilon, hits
        self._spine, self._memory = spine, Memory(spine.rows)

    def release_if(self, query: Question, *, above: Number, request: str | None = None) -> LivingCount:
        """The noisy count of living units that satisfy the query, if it is at or above the bar; otherwise nothing.

        If it is published, every unit in it has one hit less left; a unit without any left drops out of all later
        queries of this stream. Errors: `InvalidQuery` for anything but a `count` without keys.
        """
        if getattr(query, "keys", None) is not None:
            raise InvalidQuery("a keyed count is asked by stream.watch(query, above=...)")
        answer: LivingCount = self._spine.perform(self._asked(query, above), request)
        return answer

    def watch(self, query: Question, *, above: Number, request: str | None = None) -> WatchResult:
        """One such count for each key, in one scan; every key is tested.

        A unit with r hits left takes part in its first r keys, in the order of the list, and pays for those of them
        that are published. Errors: `InvalidQuery` for anything but a `count` with keys.
        """
        if getattr(query, "keys", None) is None:
            raise InvalidQuery('watch needs public keys, such as count().by("clinic", ["a", "b"])')
        answer: WatchResult = self._spine.perform(self._asked(query, above), request)
        return answer

    def _asked(self, query: Question, above: Number) -> AskLiving:
        if not isinstance(query, Count) or query.without is not None:
            raise InvalidQuery('a stream counts living units: ask count("age >= 65"), with by(...) for a watch')
        return AskLiving(self.call, self.epsilon, query, self._spine.rows.neighbouring, above, self._memory)

    def __repr__(self) -> str:
        return f"IndividualStream(call={self.call}, epsilon={self.epsilon}, hits={self.hits})"


class Individual(Door):
    """Individual charging."""

    def individual(
        self,
        *,
        epsilon: Number | None = None,
        hits: int | None = None,
        call: int | None = None,
        request: str | None = None,
    ) -> IndividualStream:
        """Open a stream in which each unit pays for itself: `hits` hits of `epsilon`-DP calls each, then it drops out.

        Guarantee: `hits` hits of `Targeted(epsilon)` for every unit (twice as many under `replace`), all charged now.
        Afterwards the stream is free and never ends. `call=` goes on with an earlier one instead, also after a
        restart: `stream.call` is its number. Errors: `InvalidQuery` for rows without unit ids, `NoPrice` under a filter
        that charges misses, `UnknownHeld` for a call that opened no stream.
        """
        if call is not None:
            if epsilon is not None or hits is not None or request is not None:
                raise InvalidParameter(
                    "give call= alone: an open stream keeps the epsilon and the hits it was opened with"
                )
            return self._stream(call, self.earlier(call, OpenIndividual.kind, "an opening of a stream"))
        if epsilon is None or hits is None:
            raise InvalidParameter("open a stream with both, such as individual(epsilon=0.02, hits=10)")
        made = OpenIndividual(epsilon, hits, self.spine.rows.neighbouring)
        return self._stream(self.spine.perform(made, request), made.body())

    @property
    def individual_streams(self) -> list[IndividualStream]:
        """Every stream of the dataset that was opened and not interrupted, oldest first."""
        calls = self.spine.ledger.calls(self.spine.dataset)
        opened = [call for call in calls if call.kind == OpenIndividual.kind and call.state == State.SETTLED]
        return [self._stream(call.number, self.earlier(call.number, call.kind, "a stream")) for call in opened]

    def _stream(self, call: int, body: dict[str, Any]) -> IndividualStream:
        return IndividualStream(self.spine, call, Fraction(body["epsilon_per_call"]), body["hits_per_unit"])
