"""The best analyst's whole sessions by exact laws: how much of a promise two bits reach, without a single sample."""

from collections.abc import Mapping
from fractions import Fraction

from chary import Algorithm
from chary.audit.enumeration import LOST
from chary.audit.exact_audits import laws_of
from chary.audit.transcripts import OpenedUnder, Tables, WorstCase
from chary.calls import RunAlgorithm
from chary.mechanisms import Laplace
from tests.soak.whole.desks import MIDDLE, UNITS, Promise
from tests.soak.whole.players import Best, Law

# Misses are free, so more moves always reach more; of these, nearly all.
MOVES_IN_ALL = 16
NAMES = [unit["unit"] for unit in UNITS]
SIDES = Tables({"unit": NAMES}, {"unit": [*NAMES, "px"]})


def reached(promise: Promise) -> float:
    """The delta that is reached at the epsilon of the promise by an analyst who looks at every way to go on.

    His two bits are a Laplace noise at the middle, which is randomized response, one with a hit where the odd unit is
    there and one where it is not: an exact filter leaves nothing beyond what they reach (theory 1.3).
    """
    laws = bits(promise)
    return Best(laws, float(promise.budget.exact[0]), MOVES_IN_ALL).worth


def bits(promise: Promise) -> Mapping[str, Law]:
    """The exact laws of both bits, found by running their code, each symbol with the part of the budget it costs."""
    return {name: _bit(promise, prior) for name, prior in (("here", "no"), ("away", "yes"))}


def _bit(promise: Promise, prior: str) -> Law:
    size = Fraction(promise.grain or "0.6")

    def told(rows: object, source: object) -> str:
        noisy = Laplace.for_epsilon(size, sensitivity=1).apply_one(rows.num_rows, source)
        return "yes" if noisy >= MIDDLE else "no"

    call = RunAlgorithm(Algorithm("bit", told, epsilon=size), prior=prior)
    terms = OpenedUnder(promise.budget, promise.filter, promise.grain)
    case = WorstCase("bit", lambda k: call, SIDES, lambda k: terms)
    with case.opened() as pair:
        spine = terms.opened(pair[0], None).spine
        price, capacity = call.plan(spine).price(spine.filter), spine.filter.capacity.main
        without, beside = laws_of(case, 1, pair)
    charges = [price.miss.main / capacity, price.hit.main / capacity]
    symbols = {
        outcome: f"{outcome} {charges[outcome.endswith('1]')]:.5f}" for outcome in (without | beside) if outcome != LOST
    }
    # What was lost counts against what is reached.
    lost = without.get(LOST, 0.0)
    chances = {symbols[outcome]: (without.get(outcome, 0.0) + lost, beside.get(outcome, 0.0)) for outcome in symbols}
    return Law(chances, max(charges))
