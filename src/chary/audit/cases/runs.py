"""Worst cases of runs asked in whole sessions, and of one register of a sketch."""

from collections import defaultdict
from fractions import Fraction
from functools import partial
from itertools import count as naturals
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chary import calls
from chary.accounting.schedules import Law
from chary.audit.cases.tests import even
from chary.audit.enumeration import Enumeration
from chary.audit.enumeration import Law as Outcomes
from chary.audit.transcripts import Begun, Chained, OpenedUnder, Script, Step, Tables, WorstCase, renyi
from chary.calls import releases, sketch
from chary.calls.run import RunKind
from chary.core.plan import Plan
from chary.data import NeighborRelation, Query, count
from chary.filters import Budget
from chary.mechanisms.sketches import KEY_DIGITS, place_one, words
from chary.noise.source import Source, Words
from chary.session import Session

# Worst-case neighbours of runs, asked in whole sessions.

PLACES = ["a", "b"]
COUNTED = Tables({"unit": list(range(6))}, {"unit": list(range(5))})
ROWS = Tables({"place": ["a"] * 3 + ["b"] * 2}, {"place": ["a"] * 2 + ["b"] * 3}, unit=None, neighbors="replace")
UNIVERSE: dict[str, Any] = {"universe": {"place": PLACES}, "alpha": "0.1"}
IN_A, IN_B = "place = 'a'", "place = 'b'"
A, B = count(IN_A), count(IN_B)
KEYS = 5
# At this noise, as at half of it, a halt at the fourth key is nearly what the budget can pay.
HALTING, RUN_NOISE = 3, 0.81
# So often that what misses say is reported.
ASKED = 24


def halves(keys: int) -> Tables:
    """One unit that is in the first this many keys, or in as many others."""
    sides = (list(range(first, first + keys)) for first in (0, keys))
    here, there = ({"unit": [0] * keys, "place": places} for places in sides)
    return Tables(here, there, neighbors="replace")


def halved(keys: int) -> Query:
    """The count of each of them."""
    return count().by("place", range(2 * keys), max_groups_per_unit=keys)


# A unit at which two keys are above, which would be below without it.
ABOVE = Tables(
    {"unit": [1, 1], "place": PLACES}, {"unit": pa.array([], pa.int64()), "place": pa.array([], pa.string())}
)
# Two hits are nearly what the total can pay, at this noise and at half of it.
HIT_NOISE = 0.85


def growing_sparse(k: int) -> Chained:
    """In which of some questions a round ended."""
    opening = calls.GrowingTests(above="0.5", epsilon=k, rounds=1)
    asked = [partial(_asked, query) for query in [A] * KEYS + [B] * KEYS]
    return Chained(opening, (lambda run: run.plan(), *asked))


def _asked(query: Any, run: RunKind[Any, Any]) -> Plan[Any]:
    return run.plan(query, above="0.5")


def above_threshold(k: int) -> Script:
    """At which key it halted, if the budget paid for this many: one unit moves all that did not hit down, and what hit
    up, from bound to bound."""
    opening = calls.GaussianAboveThreshold(threshold=1, threshold_noise=f"{RUN_NOISE / k}", low=0, high=1)
    asked = halved(HALTING)

    def script(session: Session) -> Any:
        found = session.start(opening).ask(asked)
        return [found.value, found.tested]

    return script


def once(opening: Any, *question: Any, **options: Any) -> Chained:
    """A run that is asked one question."""
    return Chained(opening, (lambda run: run.plan(*question, **options),))


class HowMany(calls.BlackBox):
    """How many rows are in the first place, with Laplace noise."""

    @property
    def law(self) -> Law:
        return Law(1, 1)

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        return releases.released(calls.Release(A, epsilon=epsilon), neighbor_relation)


def scheduled(k: int) -> Chained:
    """The first run of a schedule."""
    return once(calls.Rerun(HowMany(), epsilon=k, beta="0.05", growth=9))


def continual(steps: int, **size: Any) -> Chained:
    """All steps of a continual count, of rows that all came before the first."""
    return Chained(calls.ContinualCount("place = 'a'", steps=steps, **size), (lambda run: run.plan(),) * steps)


def alerted(k: int) -> Chained:
    """An alert that one unit lifts to its threshold, and again from it where it became active."""
    opening = calls.Alert(count(), above=6, clear_below=6, epsilon=Fraction(k, 2), below_margin=True)
    return Chained(opening, (lambda run: run.plan(),) * ASKED)


def individual(k: int) -> Chained:
    """Answers of a stream, beyond the hits that one unit pays for."""
    opening = calls.IndividualTests(hits=2, epsilon=Fraction(k, 2))
    return Chained(opening, (lambda run: run.plan(count(), above=6),) * ASKED)


def self_reporting(k: int) -> Script:
    """Two tests whose values one unit moves from one bound to the other, the threshold half way between."""
    bounds: dict[str, Any] = {"threshold": "0.5", "low": 0, "high": 1, "sensitivity": 1}
    opening = calls.SelfReporting(**bounds, threshold_noise=f"{HIT_NOISE / k}", epsilon=k)
    query = count().by("place", PLACES, max_groups_per_unit=2)

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
    return Chained(calls.MultiTarget(list(priors)), (lambda run: run.plan(even(k, 4), priors=priors),) * ASKED)


RUNS = [
    WorstCase("growing_sparse_test", growing_sparse, ROWS, transcripts=10_000),
    WorstCase(
        "above_threshold_test", above_threshold, halves(HALTING), lambda k: OpenedUnder(Budget(2 * k)), whole=True
    ),
    WorstCase("multiplicative_weights_ask", lambda k: once(calls.PMW(**UNIVERSE, epsilon=k), IN_A), ROWS),
    WorstCase("scheduled_run", scheduled, ROWS),
    WorstCase("continual_step", lambda k: continual(3, epsilon=k), ROWS),
    WorstCase("continual_step by the root", lambda k: continual(3, rho=f"{k * k / 4}"), ROWS, renyi(2)),
    WorstCase("alert_ask", alerted, COUNTED, renyi(16, "0.5"), priced=True, hits_only=True),
    WorstCase("individual_ask", individual, COUNTED, renyi(16, "0.5"), priced=True, hits_only=True),
    WorstCase("self_reporting_test", self_reporting, ABOVE, pure, whole=True, transcripts=3000),
    WorstCase("best_of_call", race, COUNTED, renyi(2, "0.25"), priced=True),
]

# The worst case of a sketch: one register and the one element that falls into it, by exact distributions.

REGISTERS: Final = 16
# With 15 dummy elements and a least value of 4 a register says ln(16/15) of an element, nearly all of this; with 7 and
# 3, of twice this, ln(8/7).
EPSILON: Final = 0.0668
ELEMENT: Final = 1
# Registers from here on are one outcome: a value is there with probability 1/128.
HIGHEST: Final = 8
ONE_OR_NONE = Tables({"unit": [ELEMENT]}, {"unit": pa.array([], pa.int64())})


class OneRegister:
    """A source of words for a sketch of this key. Only what is drawn for one of its registers comes from another
    source; all other registers draw their least value."""

    def __init__(self, followed: Source, key: Words, register: int) -> None:
        self._followed, self._key, self._register = followed, key, register

    def words(self, count: int, bits: int) -> Words:
        """For all registers, for the key, for the rest of one of the registers, or for a name."""
        if count == 1:
            return self._followed.words(1, bits)
        if count == len(self._key):
            return self._key
        given = np.zeros(count, dtype=np.uint64)
        if count == REGISTERS:
            given[self._register] = self._followed.words(1, bits)[0]
        return given


def register_law(begun: Begun, step: Step) -> Outcomes:
    """The distribution of the register of the element once a question was asked, all registers from `HIGHEST` on being
    one.

    Its value is geometric, since the hash is a random function: each value has a key under which the element has it.
    All registers are independent, and the element falls into any. So all of them having one value is as much likelier
    or rarer for the element as one register having it. What is found here holds for all registers together, which may
    be published all (docs/theory/growing.md). It also holds for their least value, which decides whether anything is
    published at a low threshold."""
    law: Outcomes = defaultdict(float)
    for value in range(1, HIGHEST + 1):
        key, register = _key_of(value)

        def run(source: Any, key: Words = key, register: int = register) -> int:
            one = OneRegister(source, key, register)
            ran = step.run(one, begun.opening.run(one, None).secret)
            line = sketch.Line.load(ran.secrets[begun.number] or b"")
            return min(line.sketch.registers[register], HIGHEST)

        for outcome, chance in Enumeration(run).law().items():
            law[outcome] += chance * 2.0 ** -min(value, HIGHEST - 1)
    return dict(law)


def _key_of(value: int) -> tuple[Words, int]:
    """The words of the first key under which the element has this value, and its register."""
    keys = (np.array([number] + [0] * (KEY_DIGITS // 16 - 1), dtype=np.uint64) for number in naturals())
    placed = ((key, place_one(int(words(key.tobytes().hex(), [ELEMENT])[0]), REGISTERS)) for key in keys)
    return next((key, register) for key, (register, found) in placed if found == value)


def sketched(k: int) -> Chained:
    """An estimate of nobody or of one unit, whatever it is."""
    opening = calls.DistinctSketch(epsilon=EPSILON * k, registers=REGISTERS)
    return Chained(opening, (lambda run: run.plan(),))


SKETCHES = [WorstCase("sketch_release_if", sketched, ONE_OR_NONE, law=register_law)]
