"""Exact audits of calls whose outcomes can be enumerated, and prices of hits by samples where they cannot."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from chary import noise
from chary.audit.auditing.enumeration import Enumeration, Law
from chary.audit.auditing.exact_bounds import exact_epsilon, needed_price
from chary.audit.auditing.promises import claimed
from chary.audit.auditing.shown_bounds import ALPHA, lower_chance, upper_chance
from chary.audit.worst_cases.worst_case import WorstCase
from chary.calls.algorithms.algorithm import canonical_outcome
from chary.calls.call import Call
from chary.data import Rows
from chary.filters import Price, RenyiFilter
from chary.session import Session
from chary.spine.interaction import Interaction, Touched

# So many chances may be bounded at once: four for each of no more outcomes than a call by draws has.
MOST_BOUNDS: Final = 1000


class Finding(NamedTuple):
    """A claim, what was found against it, and what shows it."""

    claimed: float
    delta: float
    measured: float
    event: str


def exactly(case: WorstCase, pair: tuple[Rows, Rows], strength: int) -> Finding:
    """The exact audit at k times the usual epsilon, which is judged by what is promised at the usual one.

    `TooMany` where the outcomes cannot be enumerated.
    """
    session, interaction = _bound(case, 1, pair[0])
    promise = interaction.price(session.spine.filter)
    laws = [_law(case, strength, rows) for rows in pair]
    if case.priced:
        ways = [_priced(session, promise, (laws[side], laws[1 - side])) for side in (0, 1)]
        return max(ways, key=lambda found: found.measured)
    worst, filter_ = interaction.worst(promise), session.spine.filter
    epsilon, delta = claimed(filter_, worst.main, worst.delta)
    return Finding(epsilon, delta, *exact_epsilon(laws[0], laws[1], delta))


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


def price_by_samples(
    case: WorstCase, pair: tuple[Rows, Rows], strength: int, times: int, source: noise.Source
) -> Finding:
    """The price of a hit that so many transcripts prove to be needed, as `exactly` finds it.

    Every chance is bounded, from below on one neighbour and from above on the other, all at once with probability
    1 - 1e-6.
    """
    session, interaction = _bound(case, 1, pair[0])
    runs = [_publishing(case, strength, rows) for rows in pair]
    alpha = ALPHA / MOST_BOUNDS
    counts = [Counter(canonical_outcome(run(source)) for _ in range(times)) for run in runs]
    low, high = (
        [{name: float(bound(count[name], times, alpha)) for name in counts[0] | counts[1]} for count in counts]
        for bound in (lower_chance, upper_chance)
    )
    promise = interaction.price(session.spine.filter)
    ways = [_priced(session, promise, (low[side], high[1 - side])) for side in (0, 1)]
    return max(ways, key=lambda found: found.measured)


def _law(case: WorstCase, strength: int, rows: Rows) -> Law:
    """The exact law of what is published, and whether it hit."""
    return Enumeration(_publishing(case, strength, rows)).law()


def _publishing(case: WorstCase, strength: int, rows: Rows) -> Callable[[Any], Any]:
    """What a call publishes, and whether it hit, by the words of a source."""
    session, interaction = _bound(case, strength, rows)
    price = interaction.price(session.spine.filter)
    values = [plan.run() for plan in interaction.prepare(rows)]

    def run(source: Any) -> Any:
        ran = interaction.run(Touched(values, source, None, None, price))
        return [ran.answer, int(ran.hits > 0)]

    return run
