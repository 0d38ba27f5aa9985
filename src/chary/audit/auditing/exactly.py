"""Exact audits of calls whose outcomes can be enumerated, or at least whether they hit."""

from collections.abc import Callable
from typing import Any

from chary import noise
from chary.audit.auditing.audit_findings import Finding
from chary.audit.auditing.enumeration import Enumeration, Law, TooMany
from chary.audit.auditing.exact_bounds import exact_epsilon, needed_price
from chary.audit.auditing.promises import claimed
from chary.audit.auditing.transcripts import Begun, Chained, Step
from chary.audit.worst_cases.worst_case import WorstCase
from chary.calls.call import Call
from chary.core.plan import Interaction, Touched
from chary.data import Rows
from chary.filters import Price, RenyiFilter
from chary.session import Session


def exactly(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """The exact audit at k times the usual epsilon, which is judged by what is promised at the usual one.

    `TooMany` where the outcomes cannot be enumerated.
    """
    session, interaction = _bound(case, 1, pair[0])
    promise = interaction.price(session.spine.filter)
    laws = laws_of(case, strength, pair)
    if case.priced:
        ways = [_priced(session, promise, (laws[side], laws[1 - side])) for side in (0, 1)]
        return max(ways, key=lambda found: found.measured)
    worst, filter_ = interaction.worst(promise), session.spine.filter
    epsilon, delta = claimed(filter_, worst.main, worst.delta)
    return Finding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


def by_own_law(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """The exact audit of a run and its one question by the law that the case finds, likewise."""
    laws = [case.law(*_asked(case, strength, rows)) for rows in pair if case.law is not None]
    begun, step = _asked(case, 1, pair[0])
    worst = [each.interaction.worst(each.price) for each in (begun.opening, step)]
    epsilon, delta = claimed(begun.spine.filter, sum(w.main for w in worst), sum(w.delta for w in worst))
    return Finding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


def _asked(case: WorstCase, strength: int, rows: Rows) -> tuple[Begun, Step]:
    """The opening of a run and its one question."""
    asked = case.ask(strength)
    if not isinstance(asked, Chained):
        raise TypeError("a law of its own is that of a run")
    begun = Begun.of(asked.opening, case.terms(strength).opened(rows, noise.OperatingSystem()))
    [question] = asked.questions
    return begun, begun.step(question)


def _priced(session: Session, promise: Price, laws: tuple[Law, Law]) -> Finding:
    """What the first law over the second needs to be paid."""
    filter_ = session.spine.filter
    if not isinstance(filter_, RenyiFilter):
        raise TypeError("prices of hits are audited at the order of a Renyi filter")
    hit, miss = (amount.main / filter_.steps for amount in (promise.hit, promise.miss))
    return Finding(hit, 0.0, *needed_price(*laws, float(filter_.order), miss))


def _bound(case: WorstCase, strength: int, rows: Rows) -> tuple[Session, Interaction]:
    """The call of a case, bound to one of the neighbours."""
    session, asked = case.terms(strength).opened(rows, noise.OperatingSystem()), case.ask(strength)
    if not isinstance(asked, Call):
        raise TypeError("sessions are sampled")
    return session, asked.bind(session.spine)


def laws_of(case: WorstCase, strength: int, pair: tuple[Rows, Rows]) -> list[Law]:
    """The exact laws of what is published, and whether it hit; of prices at least those of whether it hit."""
    try:
        return [Enumeration(_publishing(case, strength, rows)).law() for rows in pair]
    except TooMany:
        if not case.priced:
            raise
        return [_hit_law(_publishing(case, strength, rows)) for rows in pair]


def _hit_law(publishing: Callable[[Any], Any]) -> Law:
    """The law of whether it hit, where that follows from what is drawn first; what a hit tells besides only adds."""

    def run(source: Any) -> Any:
        return [None, publishing(source)[1]]

    law, other = (Enumeration(run, rest=seed).law() for seed in (1, 2))
    if law != other:
        raise TooMany("whether it hits does not follow from what is drawn first")
    return law


def _publishing(case: WorstCase, strength: int, rows: Rows) -> Callable[[Any], Any]:
    """What a call publishes, and whether it hit, by the words of a source."""
    session, interaction = _bound(case, strength, rows)
    price = interaction.price(session.spine.filter)
    values = [plan.run() for plan in interaction.prepare(rows)]

    def run(source: Any) -> Any:
        ran = interaction.run(Touched(values, source, None, None, price))
        return [ran.answer, int(ran.hits > 0)]

    return run
