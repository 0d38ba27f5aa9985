"""Worst-case neighbours of runs, asked in whole sessions."""

from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa

from chary.accounting.schedules import Law
from chary.audit.auditing.transcripts import Chained, OpenedUnder, Script
from chary.audit.worst_cases.of_thresholds import even
from chary.audit.worst_cases.worst_case import Tables, WorstCase, renyi
from chary.calls import (
    AboveThreshold,
    BlackBox,
    ContinualCount,
    GrowingSparse,
    Individual,
    Race,
    Schedule,
    SelfReporting,
    Weights,
)
from chary.calls.releases import AskRelease, Release
from chary.calls.run import Kept
from chary.core.plan import Interaction
from chary.data import Neighbouring, Query, count
from chary.filters import Budget
from chary.session import Session

PLACES = ["a", "b"]
COUNTED = Tables({"unit": list(range(6))}, {"unit": list(range(5))})
ROWS = Tables({"place": ["a"] * 3 + ["b"] * 2}, {"place": ["a"] * 2 + ["b"] * 3}, unit=None, relation="replace")
UNIVERSE: dict[str, Any] = {"universe": {"place": PLACES}, "alpha": "0.1"}
IN_A, IN_B = "place = 'a'", "place = 'b'"
A, B = count(IN_A), count(IN_B)
KEYS = 5
# At this noise, as at half of it, a halt at the fourth key is nearly what the budget can pay.
HALTING, RUN_NOISE = 3, 0.81
# So often that what misses tell is told.
ASKED = 24


def halves(keys: int) -> Tables:
    """One unit that is in the first so many keys, or in as many others."""
    sides = (list(range(first, first + keys)) for first in (0, keys))
    here, there = ({"unit": [0] * keys, "place": places} for places in sides)
    return Tables(here, there, relation="replace")


def halved(keys: int) -> Query:
    """The count of each of them."""
    return count().by("place", range(2 * keys), keep_per_unit=keys)


# A unit at which two keys are above, which would be below without it.
ABOVE = Tables(
    {"unit": [1, 1], "place": PLACES}, {"unit": pa.array([], pa.int64()), "place": pa.array([], pa.string())}
)
# Two hits are nearly what the total can pay, at this noise and at half of it.
HIT_NOISE = 0.85


def growing_sparse(k: int) -> Chained:
    """In which of some questions a round ended."""
    opening = GrowingSparse(above="0.5", epsilon=k, rounds=1)
    asked = [partial(_asked, query) for query in [A] * KEYS + [B] * KEYS]
    return Chained(opening, (lambda run: run.question(), *asked))


def _asked(query: Any, run: Kept[Any, Any]) -> Interaction:
    question: Interaction = run.question(query, above="0.5")
    return question


def above_threshold(k: int) -> Script:
    """At which key it halted, if the budget paid for so many: one unit moves all that did not hit down, and what hit
    up, from bound to bound."""
    opening = AboveThreshold(threshold=1, threshold_noise=f"{RUN_NOISE / k}", low=0, high=1)
    asked = halved(HALTING)

    def script(session: Session) -> Any:
        found = session.start(opening).ask(asked)
        return [found.value, found.tested]

    return script


def once(opening: Any, *question: Any, **options: Any) -> Chained:
    """A run that is asked one question."""
    return Chained(opening, (lambda run: run.question(*question, **options),))


class HowMany(BlackBox):
    """How many rows are in the first place, with Laplace noise."""

    @property
    def law(self) -> Law:
        return Law(1, 1)

    def interaction(self, epsilon: Fraction, neighbouring: Neighbouring) -> Interaction:
        return AskRelease(Release(A, epsilon=epsilon), neighbouring)


def scheduled(k: int) -> Chained:
    """The first run of a schedule."""
    return once(Schedule(HowMany(), epsilon=k, beta="0.05", growth=9))


def continual(steps: int, **size: Any) -> Chained:
    """All steps of a continual count, of rows that all came before the first."""
    return Chained(ContinualCount("place = 'a'", steps=steps, **size), (lambda run: run.question(),) * steps)


def individual(k: int) -> Chained:
    """Answers of a stream, beyond the hits that one unit pays for."""
    opening = Individual(hits=2, epsilon=Fraction(k, 2))
    return Chained(opening, (lambda run: run.question(count(), above=6),) * ASKED)


def self_reporting(k: int) -> Script:
    """Two tests whose values one unit moves from one bound to the other, the bar half way between."""
    bounds: dict[str, Any] = {"threshold": "0.5", "low": 0, "high": 1, "sensitivity": 1}
    opening = SelfReporting(**bounds, threshold_noise=f"{HIT_NOISE / k}", epsilon=k)
    query = count().by("place", PLACES, keep_per_unit=2)

    def script(session: Session) -> Any:
        found = session.start(opening).ask(query)
        return [found.hits, *found.states()]

    return script


def pure(k: int) -> OpenedUnder:
    """A budget of so much epsilon and no delta."""
    return OpenedUnder(Budget(k))


def race(k: int) -> Chained:
    """Bits that are hit for one target or for the other, so that each counter rises now and then."""
    priors = {"odd": "odd", "even": "even"}
    return Chained(Race(list(priors)), (lambda run: run.question(even(k, 4), priors=priors),) * ASKED)


CASES = [
    WorstCase("growing_sparse_test", growing_sparse, ROWS.opened, transcripts=10_000),
    WorstCase(
        "above_threshold_test",
        above_threshold,
        halves(HALTING).opened,
        lambda k: OpenedUnder(Budget(2 * k)),
        whole=True,
    ),
    WorstCase("multiplicative_weights_ask", lambda k: once(Weights(**UNIVERSE, epsilon=k), IN_A), ROWS.opened),
    WorstCase("scheduled_run", scheduled, ROWS.opened),
    WorstCase("continual_step", lambda k: continual(3, epsilon=k), ROWS.opened),
    WorstCase("continual_step by the root", lambda k: continual(3, rho=f"{k * k / 4}"), ROWS.opened, renyi(2)),
    WorstCase("individual_ask", individual, COUNTED.opened, renyi(16, "0.5"), priced=True, hits_only=True),
    WorstCase("self_reporting_test", self_reporting, ABOVE.opened, pure, whole=True, transcripts=3000),
    WorstCase("best_of_call", race, COUNTED.opened, renyi(2, "0.25"), priced=True),
]
