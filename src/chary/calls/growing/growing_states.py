"""What is public of a sparse vector on a growing table, how accurate it is, and what it is asked."""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from chary.accounting import Event
from chary.accounting.growing_rounds import growing_error_up, published_growing_error
from chary.calls.growing.growing_results import GrowingAccuracy, GrowingRound, GrowingTest, OpenRound
from chary.calls.growing.open_rounds import GrowingRoundState
from chary.calls.run import Run
from chary.core.transaction import Spine
from chary.data import Query
from chary.data.size import public_size
from chary.numbers import Number, exact, whole

if TYPE_CHECKING:
    from chary.calls.growing.growing_hits import OpenGrowingHits
    from chary.calls.growing.growing_sparse_vectors import OpenGrowingSparse


class GrowingState(ABC):
    """What is public of a sparse vector on a growing table: its rounds, and how accurate it is."""

    def __init__(self, spine: Spine, call: int, started: "OpenGrowingSparse | OpenGrowingHits") -> None:
        self._call, self._spine, self._most = call, spine, started.call.rounds

    @property
    def rounds(self) -> int:
        """How many rounds have begun; of sharp tests, how many have ended, each by its hit."""
        return self._now().number

    @property
    def open_round(self) -> OpenRound | None:
        """The round in which questions are free now; None if the next question begins one, and for sharp tests."""
        now = self._now()
        return OpenRound(now.number, now.size, now.epsilon) if now.open else None

    @property
    @abstractmethod
    def next_epsilon(self) -> Fraction | None:
        """What a round costs that begins at the size of now; None for sharp tests."""

    @property
    @abstractmethod
    def _next(self) -> Event:
        """What is charged next, at the size of now."""

    @property
    def left(self) -> int | None:
        """How many rounds may still begin, by `rounds=` and by what is left of the budget at the size of now.

        None if neither sets an end.
        """
        price, most = self._spine.filter.price(self._next), self._most
        ends = [price.hit.copies_in(self._spine.left()), None if most is None else most - self.rounds]
        return min((end for end in ends if end is not None), default=None)

    @abstractmethod
    def accuracy(self, *, tests: int, rounds: int = 1, confidence: Number = "0.95") -> GrowingAccuracy:
        """How far off so many tests from now on may be, per row, in the open round or the next, and those after it.

        Nothing is read but the public size.
        """

    @property
    def _size(self) -> int:
        return public_size(self._spine.rows)

    def _now(self) -> GrowingRoundState:
        return GrowingRoundState.load(self._spine.ledger.secret(self._call), self._call)


class GrowingHitsState(GrowingState):
    """The same of sharp tests."""

    def __init__(self, spine: Spine, call: int, started: "OpenGrowingHits") -> None:
        super().__init__(spine, call, started)
        self._started = started

    @property
    def next_epsilon(self) -> None:
        return None

    @property
    def _next(self) -> Event:
        return self._started.at(self._size).event

    def accuracy(self, *, tests: int, rounds: int = 1, confidence: Number = "0.95") -> GrowingAccuracy:
        """How far off so many tests at the size of now may be, and the values of so many hits, for questions of the
        sensitivity that was given."""
        call, size = self._started.call, self._size
        grid = Fraction(call.grid)
        steps = math.ceil(Fraction(call.sensitivity) / grid)
        terms, wrong = self._started.at(size), 1 - exact(confidence, "confidence")
        error = terms.sharpness(steps, grid).within(tests, 1 - wrong / 2 if terms.share else confidence).error
        if terms.share:
            bar = terms.noise(steps).error_bar(float(1 - wrong / 2 / whole(rounds, "rounds")))
            error = max(error, float(bar * grid))
        return GrowingAccuracy(tests, rounds, size, float(confidence), error / size, None)


class GrowingRoundsState(GrowingState):
    """The same of rounds with a hidden threshold."""

    def __init__(self, spine: Spine, call: int, started: "OpenGrowingSparse") -> None:
        super().__init__(spine, call, started)
        self._started = started

    @property
    def next_epsilon(self) -> Fraction:
        return self._started.terms.epsilon_down(self._size)

    @property
    def _next(self) -> Event:
        return self._started.round(self.next_epsilon).event

    def accuracy(self, *, tests: int, rounds: int = 1, confidence: Number = "0.95") -> GrowingAccuracy:
        started, now, size = self._started, self._now(), self._size
        begun = now.size if now.open else size
        sensitivity = started.round(now.epsilon if now.open else self.next_epsilon).mechanism.sensitivity
        given: dict[str, Any] = {"size": size, "tests": tests, "number": rounds, "begun": begun}
        error = growing_error_up(started.terms, **given, sensitivity=sensitivity, confidence=confidence)
        published = None
        if started.call.form == "published":
            single = published_growing_error(started.terms, **given, confidence=confidence)
            published = single * float(started.call.sensitivity)
        unit = float(Fraction(started.call.grid))
        return GrowingAccuracy(tests, rounds, size, float(confidence), error * unit, published)


class GrowingRun(Run[GrowingTest, GrowingState]):
    """A sparse vector on a growing table: `ask(query)` tests an average, `ask()` begins a round."""

    if TYPE_CHECKING:
        # A run of any kind takes any words; what these are says what is answered.
        @overload  # type: ignore[override]
        def ask(self, *, request: str | None = None) -> GrowingRound: ...

        @overload
        def ask(self, query: Query, *, above: Number | None = None, request: str | None = None) -> GrowingTest: ...

        def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
            """As for any run."""
