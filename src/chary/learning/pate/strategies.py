"""Ways to put one question to the teachers: what is published, and what of it is paid."""

from dataclasses import dataclass
from typing import Protocol

from chary.accounting import Event, Joint, Pure, Targeted, ZeroConcentrated
from chary.answers import handed_out
from chary.calls import Agreement, ClearLabel, Label
from chary.calls.choices import Labelled, Level, Option
from chary.numbers import Number, positive, whole
from chary.session import Session


class Strategy(Protocol):
    """One question at a time, by calls of a session, each under a request key of its own."""

    @property
    def guided(self) -> bool:
        """Whether it needs a guess, the student's prediction."""
        ...

    @property
    def plain(self) -> Event:
        """What a question that is answered would reveal if all of it were paid."""
        ...

    @property
    def pure(self) -> Number:
        """The epsilon of that."""
        ...

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """The label, or why there is none; `BudgetRefused` when it does not fit."""
        ...


@dataclass(frozen=True)
class _Sized:
    epsilon: Number

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")

    @property
    def guided(self) -> bool:
        """Most need no guess."""
        return False

    @property
    def pure(self) -> Number:
        """That of one choice."""
        return self.epsilon

    @property
    def plain(self) -> Event:
        """The exponential mechanism on votes (`chary.calls.choices`)."""
        return ZeroConcentrated(positive(self.epsilon, "epsilon") ** 2 / 8)


@dataclass(frozen=True)
class EveryLabel(_Sized):
    """A label for every point, every one paid; `flip` chooses by permute-and-flip, which suits a pure budget.

    >>> EveryLabel("0.1").plain
    ZeroConcentrated(rho=Fraction(1, 800))
    """

    flip: bool = False

    @property
    def plain(self) -> Event:
        return Pure(self.epsilon) if self.flip else super().plain

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Label`."""
        return session.ask(Label(question, epsilon=self.epsilon, flip=self.flip), request=request)


@dataclass(frozen=True)
class ClearLabels(_Sized):
    """A label where the vote is clear, free; "boundary" where it is not, paid.

    With `low`, also where it is clear that no class has so many votes, nothing is paid and no label released.
    """

    low: int | None = None

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.ClearLabel`."""
        return session.ask(ClearLabel(question, epsilon=self.epsilon, low=self.low), request=request)


@dataclass(frozen=True)
class AgreedLabels(_Sized):
    """First a noisy test whether some class has at least `above` votes, then, if so, `ClearLabels`.

    The test costs when it does not come out as expected: expect "high" where most points find agreement, which makes
    their labels free altogether; expect "low" where few do, and every point that does is paid.
    """

    above: int
    test_epsilon: Number
    expect: Level = "high"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.test_epsilon, "test_epsilon")
        whole(self.above, "above", least=0)

    @property
    def pure(self) -> Number:
        return positive(self.epsilon, "epsilon") + positive(self.test_epsilon, "test_epsilon")

    @property
    def plain(self) -> Event:
        return Joint((Pure(self.test_epsilon), super().plain))

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Agreement` and `ClearLabel`."""
        first, second = (None, None) if request is None else (f"{request}/agreement", f"{request}/label")
        above, size = self.above, self.test_epsilon
        agreed = session.ask(Agreement(question, above=above, epsilon=size, expect=self.expect), request=first)
        tested = agreed.surprising or not session.spine.filter.price(Targeted(size)).free_miss
        if not agreed:
            return handed_out(Labelled(agreed.call, "low", None, tested), session.spine)
        label = session.ask(ClearLabel(question, epsilon=self.epsilon), request=second)
        both = Labelled(label.call, label.state, label.option, label.paid or tested, agreed=agreed.call)
        return handed_out(both, session.spine)


@dataclass(frozen=True)
class Corrections(_Sized):
    """A label for every point, paid where it differs from what the student predicts; it is trained as labels arrive."""

    flip: bool = False

    @property
    def guided(self) -> bool:
        """By the student."""
        return True

    @property
    def plain(self) -> Event:
        return Pure(self.epsilon) if self.flip else super().plain

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Label` with a guess."""
        return session.ask(Label(question, epsilon=self.epsilon, guess=guess, flip=self.flip), request=request)
