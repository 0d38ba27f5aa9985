"""Exact audits of calls and runs whose outcomes can be enumerated, against what they are charged."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from chary import noise
from chary.accounting.numerics import largest
from chary.audit.enumeration import LOST, Enumeration, Law, TooMany
from chary.audit.findings import Finding, exact_epsilon, needed_price
from chary.audit.transcripts import Begun, Chained, Step, WorstCase
from chary.calls.algorithm import canonical_outcome
from chary.calls.call import Call
from chary.core.plan import Data, Plan, Result
from chary.data import Rows
from chary.errors import CharyError
from chary.filters import Filter, Price, RenyiFilter
from chary.session import Session

# Exact audits of calls whose outcomes can be enumerated, or at least whether they hit.


def exactly(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """The exact audit of a call at `strength` times the usual epsilon, compared with the promise at the usual one.

    `TooMany` where the outcomes cannot be enumerated.
    """
    session, plan = _bound(case, 1, pair[0])
    promise = plan.price(session.spine.filter)
    laws = laws_of(case, strength, pair)
    if case.priced:
        ways = [_priced(session, promise, (laws[side], laws[1 - side])) for side in (0, 1)]
        return max(ways, key=lambda found: found.measured)
    epsilon, delta = session.spine.filter.promised(plan.worst(promise))
    return Finding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


def by_own_law(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """The same for a run with one question, whose distribution the case itself computes."""
    laws = [case.law(*_asked(case, strength, rows)) for rows in pair if case.law is not None]
    begun, step = _asked(case, 1, pair[0])
    first, second = (each.plan.worst(each.price) for each in (begun.opening, step))
    epsilon, delta = begun.spine.filter.promised(first + second)
    return Finding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


def _asked(case: WorstCase, strength: int, rows: Rows) -> tuple[Begun, Step]:
    """The opening of a run and its one question."""
    asked = case.ask(strength)
    if not isinstance(asked, Chained):
        raise TypeError("a distribution of its own is that of a run")
    begun = Begun.of(asked.opening, case.terms(strength).opened(rows, noise.OperatingSystem()))
    [question] = asked.questions
    return begun, begun.step(question)


def _at_an_order(filter_: Filter) -> RenyiFilter:
    if not isinstance(filter_, RenyiFilter):
        raise TypeError("costs are audited at the order of a Renyi filter")
    return filter_


def _priced(session: Session, promise: Price, laws: tuple[Law, Law]) -> Finding:
    """The cost of a hit that the first distribution needs against the second."""
    filter_ = _at_an_order(session.spine.filter)
    hit, miss = (amount.main / filter_.steps for amount in (promise.hit, promise.miss))
    return Finding(hit, 0.0, *needed_price(*laws, float(filter_.order), miss))


def _bound(case: WorstCase, strength: int, rows: Rows) -> tuple[Session, Plan[Any]]:
    """The call of a case, bound to one of the neighbours."""
    session, asked = case.terms(strength).opened(rows, noise.OperatingSystem()), case.ask(strength)
    if not isinstance(asked, Call):
        raise TypeError("sessions are sampled")
    return session, asked.plan(session.spine)


def laws_of(case: WorstCase, strength: int, pair: tuple[Rows, Rows]) -> list[Law]:
    """The exact distributions of what is published, and whether it hit; of costs at least those of whether it hit."""
    try:
        return [Enumeration(_publishing(case, strength, rows)).law() for rows in pair]
    except TooMany:
        if not case.priced:
            raise
        return [_hit_law(_publishing(case, strength, rows)) for rows in pair]


def _hit_law(publishing: Callable[[Any], Any]) -> Law:
    """The distribution of whether it hit, where that follows from what is drawn first; what a hit says besides only
    adds."""

    def run(source: Any) -> Any:
        return [None, publishing(source)[1]]

    law, other = (Enumeration(run, rest=seed).law() for seed in (1, 2))
    if law != other:
        raise TooMany("whether it hits does not follow from what is drawn first")
    return law


def _publishing(case: WorstCase, strength: int, rows: Rows) -> Callable[[Any], Any]:
    """What a call publishes, and whether it hit, by the words of a source."""
    session, plan = _bound(case, strength, rows)
    price = plan.price(session.spine.filter)
    values = [each.run() for each in plan.reads(rows)]

    def run(source: Any) -> Any:
        ran = plan.run(Data(values, source, None, None, price))
        return [ran.answer, int(ran.hits > 0)]

    return run


# Runs that are asked again and again, audited exactly: how much transcripts say, against what they are charged.

# The largest factor on the charges that is tried, and the precision in halvings; beyond it the result is infinite.
MOST_TIMES: Final = 64.0
HALVINGS: Final = 40
Secret = bytes | None


class Follows(NamedTuple):
    """What follows from an outcome: how much is charged, in log-moment, and the secret state."""

    charged: float
    secret: Secret


@dataclass
class Side:
    """A run on one of the neighbours: what it publishes at some strength, and what is promised at the usual one."""

    asked: Begun
    promised: Begun
    questions: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...]
    hits_only: bool
    laws: dict[tuple[int, Secret], tuple[Law, dict[str, Follows]] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, case: WorstCase, strength: int, rows: Rows) -> "Side":
        """Opened at both strengths."""
        asked, usual = case.ask(strength), case.ask(1)
        if not isinstance(asked, Chained) or not isinstance(usual, Chained):
            raise TypeError("only a run is asked again and again")
        begun = [
            Begun.of(run.opening, case.terms(k).opened(rows, noise.OperatingSystem()))
            for run, k in ((asked, strength), (usual, 1))
        ]
        return cls(begun[0], begun[1], tuple(zip(asked.questions, usual.questions, strict=True)), case.hits_only)

    @property
    def filter(self) -> RenyiFilter:
        """The filter whose costs are promised."""
        return _at_an_order(self.promised.spine.filter)

    @cached_property
    def opening(self) -> Follows:
        """What the opening is charged, and the state that it leaves; `TooMany` where it draws one."""
        opening, promise = self.asked.opening, self.promised.opening
        left: dict[str, Result] = {}

        def run(source: Any) -> Any:
            ran = opening.run(source, None)
            secret = (ran.secret or b"").hex()
            left[secret] = ran
            return secret

        if len(Enumeration(run).law()) > 1:
            raise TooMany("this run begins in a state that is drawn")
        [ran] = left.values()
        charged = promise.plan.cost.final(promise.price, ran, 0).main
        return Follows(charged / self.filter.steps, ran.secret)

    def law(self, place: int, secret: Secret) -> tuple[Law, dict[str, Follows]] | None:
        """The distribution of a question in this state, and what follows from each outcome; None where it is
        refused."""
        kind = min(k for k, each in enumerate(self.questions) if each == self.questions[place])
        if (kind, secret) not in self.laws:
            self.laws[kind, secret] = self._found(kind, secret)
        return self.laws[kind, secret]

    def _found(self, place: int, secret: Secret) -> tuple[Law, dict[str, Follows]] | None:
        question, usual = self.questions[place]
        promise = self.promised.step(usual)
        step = replace(self.asked.step(question), price=promise.price)
        try:
            step.plan.check(secret)
        except CharyError:
            return None
        after: dict[str, Follows] = {}

        def run(source: Any) -> Any:
            ran = step.run(source, secret)
            charged = promise.plan.cost.final(promise.price, ran, promise.plan.cost.most).main
            outcome = [None if self.hits_only else ran.answer, ran.hits]
            follows = Follows(charged / self.filter.steps, ran.secrets.get(self.asked.number, secret))
            if after.setdefault(canonical_outcome(outcome), follows) != follows:
                raise TooMany("the state of this run does not follow from what it publishes")
            return outcome

        return Enumeration(run).law(), after


def of_run(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """What the transcripts of a run would have to be charged, and the most that one of them is charged.

    A filter at an order is right where `E (p/q)^order e^-charged <= 1` over q, for whole transcripts (theory 1.4).
    Questions are followed to the last, through every state, so the states must be few. `TooMany` where outcomes cannot
    be enumerated.
    """
    sides = [Side.of(case, strength, rows) for rows in pair]
    ways = [_Course(sides[first], sides[1 - first]) for first in (0, 1)]
    most = max(way.most() for way in ways)
    return Finding(most, 0.0, most * max(way.needed() for way in ways), "transcripts of a run")


@dataclass
class _Course:
    """All transcripts of a run on the first neighbour, compared with the second."""

    here: Side
    there: Side

    def needed(self) -> float:
        """The least factor on all charges at which the charges cover the loss."""
        if self.moment(0) <= 1:
            return 0.0
        if self.moment(MOST_TIMES) > 1:
            return math.inf
        return largest(lambda times: self.moment(times) > 1, 0.0, MOST_TIMES, times=HALVINGS)

    def moment(self, times: float) -> float:
        """`E (p/q)^order e^(-times * charged)`, at least."""
        begun = self.here.opening, self.there.opening
        order, length = float(self.here.filter.order), len(self.here.questions)
        values: dict[tuple[int, Secret, Secret], float] = {}

        def value(place: int, one: Secret, other: Secret) -> float:
            if place == length:
                return 1.0
            if (place, one, other) not in values:
                laws = self.here.law(place, one), self.there.law(place, other)
                values[place, one, other] = 1.0 if None in laws else total(place + 1, *laws)
            return values[place, one, other]

        def total(place: int, one: Any, other: Any) -> float:
            (mine, after), (theirs, then) = one, other
            lost, found = theirs.get(LOST, 0.0), 0.0
            for outcome in mine.keys() - {LOST}:
                p, q = mine[outcome], theirs.get(outcome, 0.0) + lost
                if q == 0:
                    return math.inf
                if p > 0:
                    follows = after[outcome]
                    secret = then[outcome].secret if outcome in then else follows.secret
                    found += (
                        q * (p / q) ** order * math.exp(-times * follows.charged) * value(place, follows.secret, secret)
                    )
            return found

        return math.exp(-times * begun[0].charged) * value(0, begun[0].secret, begun[1].secret)

    def most(self) -> float:
        """The most that a transcript is charged."""
        length = len(self.here.questions)
        states = {self.here.opening.secret: self.here.opening.charged}
        for place in range(length):
            reached: dict[Secret, float] = {}
            for secret, charged in states.items():
                found = self.here.law(place, secret)
                follows = [Follows(0.0, secret)] if found is None else found[1].values()
                for each in follows:
                    reached[each.secret] = max(reached.get(each.secret, 0.0), charged + each.charged)
            states = reached
        return max(states.values())
