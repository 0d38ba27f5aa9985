"""Worst-case neighbours of runs, asked in whole sessions."""

from fractions import Fraction
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from chary.accounting import one_sided_noise
from chary.accounting.growing.accuracy_laws import Law
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
    SparseVector,
    SparseWeights,
    Weights,
)
from chary.calls.numbers.releasing import AskRelease, Release
from chary.calls.run import Kept
from chary.data import Neighbouring, Query, count
from chary.filters import Budget
from chary.session import Session
from chary.spine.interaction import Interaction

PLACES = ["a", "b"]
COUNTED = Tables({"unit": list(range(6))}, {"unit": list(range(5))})
# One question moves up and the other down.
CROSSED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, relation="replace"
)
ROWS = Tables({"place": ["a"] * 3 + ["b"] * 2}, {"place": ["a"] * 2 + ["b"] * 3}, unit=None, relation="replace")
UNIVERSE: dict[str, Any] = {"universe": {"place": PLACES}, "alpha": "0.1"}
IN_A, IN_B = "place = 'a'", "place = 'b'"
A, B = count(IN_A), count(IN_B)
# A histogram that answers a quarter of the rows everywhere (a cell is for places that are not listed); up to so many of
# 151 are as near to that as alpha says.
EASY = 57
WIDE: dict[str, Any] = {"universe": {"place": [*PLACES, "c"]}, "alpha": "0.2"}
TIPPED = Tables(
    {"place": ["a"] * EASY + ["b"] * 36 + ["c"] * (EASY + 1)},
    {"place": ["a"] * (EASY + 1) + ["b"] * 36 + ["c"] * EASY},
    unit=None,
    relation="replace",
)
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


# Below the bar is a key where the one unit is not, and where it is one is at the bar: it is in the last key, or in all
# before it. Another unit is in every key.
MISSED, AT = 2, 2
EACH = list(range(MISSED + 1))
CROSSING = Tables(
    {"unit": [1] * len(EACH) + [0], "place": [*EACH, MISSED]},
    {"unit": [1] * len(EACH) + [0] * MISSED, "place": [*EACH, *EACH[:MISSED]]},
    relation="replace",
)
CROSSED_KEYS = count().by("place", EACH, keep_per_unit=len(EACH))
# A unit at which two keys are above, which would be below without it.
ABOVE = Tables(
    {"unit": [1, 1], "place": PLACES}, {"unit": pa.array([], pa.int64()), "place": pa.array([], pa.string())}
)
# Two hits are nearly what the total can pay, at this noise and at half of it.
HIT_NOISE = 0.85
# One unit that is in one of two keys.
MOVED = Tables({"unit": [0], "place": [0]}, {"unit": [0], "place": [1]}, relation="replace")
PAIRED = count().by("place", range(2), keep_per_unit=1)


def sparse(k: int, form: Literal["tuned", "published"], **options: Any) -> Chained:
    """Which of some keys is above, where one unit moves the first ones up and the last one down: that they miss and it
    hits is what uses up the noise of the threshold and that of a test."""
    opening = SparseVector(above=AT, hits=1, epsilon=2 * k, form=form, **options)
    return Chained(opening, (lambda run: run.question(CROSSED_KEYS),))


def last_is_high(told: Any) -> bool:
    """Whether only the last key was above, with a value at the bar or higher, which uses up the noise of values too."""
    found = told[1]
    return found["positions"] == [MISSED] and found["values"][0] >= AT


def one_sided(k: int, *, values: bool = False) -> Chained:
    """Which of two keys is above with one-sided noise, the bar lowered to where both are: that the first is not and the
    second is takes all of epsilon, since geometric noise has the same ratio everywhere."""
    lifted = one_sided_noise(epsilon=k, hits=1, tests=2, values=values).shift
    opening = SparseVector(above=-lifted, hits=1, epsilon=k, tests=2, values=values)
    return Chained(opening, (lambda run: run.question(PAIRED),))


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


def sparse_weights(k: int) -> Chained:
    """One round, which says how much it may spend of a budget that is kept for rounds of more rows: of the first
    questions the count comes up beyond the most that is easy, of the last it comes down to it."""
    asked = [partial(_weighed, place) for place in [PLACES[0]] * MISSED + ["c"]]
    return Chained(SparseWeights(**WIDE, epsilon=18 * k, rounds=1), tuple(asked))


def _weighed(place: str, run: Kept[Any, Any]) -> Interaction:
    question: Interaction = run.question(f"place = '{place}'")
    return question


def last_is_hard(told: Any) -> bool:
    """Whether only the last question was hard, with a count that is higher than any easy one."""
    last = told[-1]
    return bool(len(told) == MISSED + 2 and last["hard"] and last["count"] > EASY)


def of_the_round(told: Any) -> float:
    """The epsilon that its round says it has."""
    return float(Fraction(told[1]["epsilon"]))


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
    WorstCase("sparse_test", one_sided, MOVED.opened),
    WorstCase("sparse_watch", lambda k: one_sided(k, values=True), MOVED.opened),
    WorstCase(
        "sparse_watch in the tuned form with values",
        lambda k: sparse(k, "tuned", values=True),
        CROSSING.opened,
        seen=last_is_high,
    ),
    WorstCase("sparse_watch in the published form", lambda k: sparse(k, "published"), CROSSING.opened),
    WorstCase("sparse_watch in the tuned form", lambda k: sparse(k, "tuned"), CROSSING.opened),
    WorstCase("growing_sparse_test", growing_sparse, ROWS.opened, transcripts=10_000),
    WorstCase(
        "above_threshold_test",
        above_threshold,
        halves(HALTING).opened,
        lambda k: OpenedUnder(Budget(2 * k)),
        whole=True,
    ),
    WorstCase("multiplicative_weights_ask", lambda k: once(Weights(**UNIVERSE, epsilon=k), IN_A), ROWS.opened),
    WorstCase(
        "sparse_weights_ask",
        sparse_weights,
        TIPPED.opened,
        transcripts=8000,
        seen=last_is_hard,
        says=of_the_round,
    ),
    WorstCase("scheduled_run", scheduled, ROWS.opened),
    WorstCase("continual_step", lambda k: continual(3, epsilon=k), ROWS.opened),
    WorstCase("continual_step by the root", lambda k: continual(3, rho=f"{k * k / 4}"), ROWS.opened, renyi(2)),
    WorstCase("individual_ask", individual, COUNTED.opened, renyi(16, "0.5"), priced=True, hits_only=True),
    WorstCase("self_reporting_test", self_reporting, ABOVE.opened, pure, whole=True, transcripts=3000),
    WorstCase("best_of_call", race, COUNTED.opened, renyi(2, "0.25"), priced=True),
]
