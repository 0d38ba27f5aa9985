"""ExactFinding audits of calls whose outcomes can be enumerated."""

from typing import Any, NamedTuple

from chary import noise
from chary.audit.auditing.enumeration import Enumeration, Law
from chary.audit.auditing.exact_bounds import exact_epsilon, needed_price
from chary.audit.auditing.promises import claimed
from chary.audit.worst_cases.worst_case import WorstCase
from chary.calls.call import Call
from chary.data import Rows
from chary.filters import Price, RenyiFilter
from chary.session import Session
from chary.spine.interaction import Interaction, Touched


class ExactFinding(NamedTuple):
    """A claim, what is exactly so, and what shows it."""

    claimed: float
    delta: float
    measured: float
    event: str


def exactly(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> ExactFinding:
    """The exact audit at k times the usual epsilon, which is judged by what is promised at the usual one.

    `TooMany` where the outcomes cannot be enumerated.
    """
    session, interaction = _bound(case, 1, pair[0])
    promise = interaction.price(session.spine.filter)
    laws = [_law(case, strength, rows) for rows in pair]
    if case.priced:
        return _priced(session, promise, laws)
    worst, filter_ = interaction.worst(promise), session.spine.filter
    epsilon, delta = claimed(filter_, worst.main, worst.delta)
    return ExactFinding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


def _priced(session: Session, promise: Price, laws: list[Law]) -> ExactFinding:
    filter_ = session.spine.filter
    if not isinstance(filter_, RenyiFilter):
        raise TypeError("prices of hits are audited at the order of a Renyi filter")
    hit, miss = (amount.main / filter_.steps for amount in (promise.hit, promise.miss))
    return ExactFinding(hit, 0.0, *needed_price(laws[0], laws[1], float(filter_.order), miss))


def _bound(case: WorstCase, strength: int, rows: Rows) -> tuple[Session, Interaction]:
    """The call of a case, bound to one of the neighbours."""
    session, asked = case.terms(strength).opened(rows, noise.OperatingSystem()), case.ask(strength)
    if not isinstance(asked, Call):
        raise TypeError("sessions are sampled")
    return session, asked.bind(session.spine)


def _law(case: WorstCase, strength: int, rows: Rows) -> Law:
    """The exact law of what is published, and with prices of whether it hit."""
    session, interaction = _bound(case, strength, rows)
    price = interaction.price(session.spine.filter)
    values = [plan.run() for plan in interaction.prepare(rows)]

    def run(source: Any) -> Any:
        ran = interaction.run(Touched(values, source, None, None, price))
        return [ran.answer, int(ran.hits > 0)]

    return Enumeration(run).law()
