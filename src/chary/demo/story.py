"""The demonstration: an alarm system on a growing panel under one budget, interrupted and reopened."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chary.accounting import gaussian_noise, sparse_vector
from chary.accounting.numerics import largest, least
from chary.answers import Answer
from chary.calls import Conditional, PrepaidTests, Run, SparseVector, Widen
from chary.data import count
from chary.demo.panel import INDICATORS, YEARS, alarms, label, people, start, true_counts
from chary.filters import Budget, largest_call
from chary.numbers import percent
from chary.session import Session, open

# Other methods under the same guarantee, which do not charge by the hit: the errors of their tests and of their values.

CONFIDENCE: Final = 0.95
OWN: Final = "chary, charged by the hit"
# A budget is divided into thousandths, which is finer than anything that is printed.
_PARTS: Final = 1000


def _reach(chance: float) -> float:
    """The number that a standard normal variable exceeds with this probability."""
    return -NormalDist().inv_cdf(chance)


@dataclass(frozen=True)
class Precision:
    """With 95 % confidence, all tests are right for counts farther than `tests` from the threshold, and each published
    value is within `values` of the truth."""

    name: str
    tests: float
    values: float


@dataclass(frozen=True)
class Rivals:
    """Other methods for a number of tests and of hits, if one person can be in all tests.

    Each spends the whole budget. Sparse vectors divide it: Gaussian noise for values of precision `values` takes one
    part, the tests take the rest, and the epsilons of both add up.
    """

    budget: Budget
    tests: int
    hits: int

    def all(self, session: Session, values: float) -> list[Precision]:
        """The best first; `session` only quotes, which charges nothing."""
        epsilon = self._left_for_tests(values)
        one_sided = float(
            sparse_vector.sparse_half_width_up(
                epsilon=epsilon, tests=self.tests, hits=self.hits, confidence=str(CONFIDENCE)
            )
        )
        tuned = SparseVector(above=1, hits=self.hits, epsilon=epsilon, mechanism="tuned", monotone=True)
        found = session.quote(tuned, tests=self.tests, confidence=str(CONFIDENCE)).within
        released = self.released(self.tests)
        return [
            Precision("one-sided sparse vector", one_sided, values),
            Precision("tuned sparse vector", math.inf if found is None else found.error, values),
            Precision("Gaussian release of all", released, self.sigma(self.tests) * _reach((1 - CONFIDENCE) / 2)),
        ]

    def sigma(self, answers: int) -> float:
        """The standard deviation of Gaussian noise on this number of answers, if one person can be in all of them."""
        epsilon, delta = self.budget.exact
        return gaussian_noise.gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=str(math.sqrt(answers)))

    def released(self, answers: int) -> float:
        """The largest error of this number of released answers, with 95 % confidence."""
        return self.sigma(answers) * _reach((1 - CONFIDENCE) / (2 * answers))

    def answers_within(self, error: float) -> int:
        """How many answers can be released with a largest error of at most `error`."""
        return largest(lambda answers: self.released(answers) <= error, 1, self.tests)

    def _left_for_tests(self, values: float) -> str:
        """Epsilon without the part that Gaussian noise takes for the values of all hits."""
        epsilon, delta = (float(part) for part in self.budget.exact)
        wanted, sensitivity = values / _reach((1 - CONFIDENCE) / 2), str(math.sqrt(self.hits))

        def precise(parts: int) -> bool:
            taken = str(epsilon * parts / _PARTS)
            return gaussian_noise.gaussian_sigma(epsilon=taken, delta=str(delta), sensitivity=sensitivity) <= wanted

        return str(epsilon * (_PARTS - least(precise, 1, _PARTS - 1)) / _PARTS)


# The main job, end to end: an alarm system on a growing panel, interrupted and reopened, under one budget.

BUDGET: Final = Budget(epsilon=1, delta=1e-6)
TESTS: Final = INDICATORS * len(YEARS)
HITS: Final = 40
THRESHOLD: Final = 1100
# The rest pays for the other questions of the story.
PART: Final = "0.9"
ONE: Final = count("year = 3 AND indicator = 7")
REQUEST: Final = "indicator 7, year 3"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Hit:
    """A published count with its interval, next to the truth. `place` is the number of the question, over all years."""

    label: str
    place: int
    value: float
    low: float
    high: float
    truth: int

    @property
    def false(self) -> bool:
        """Whether the truth is below the threshold."""
        return self.truth < THRESHOLD

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


@dataclass
class Story:
    """The result of the demo: hits, true counts of all indicators of all years, precision of the methods."""

    folder: Path
    say: Say
    table: pa.Table = field(default_factory=people)
    hits: list[Hit] = field(default_factory=list)
    truths: list[int] = field(default_factory=list)
    methods: list[Precision] = field(default_factory=list)
    misses: float = 0.0
    price_of_hit: float = 0.0
    seconds: float = 0.0

    @property
    def rows(self) -> Path:
        """The DuckDB file that grows."""
        return self.folder / "panel.duckdb"

    @property
    def ledger(self) -> Path:
        """The ledger."""
        return self.folder / "panel.ledger"

    @property
    def times(self) -> float:
        """The error of a release of all answers, divided by the error of these tests."""
        return self.methods[-1].tests / self.methods[0].tests

    @property
    def answers(self) -> int:
        """How many answers could be released with the error of these tests."""
        return RIVALS.answers_within(self.methods[0].tests)

    @property
    def overlooked(self) -> int:
        """How many indicators exceed the threshold by more than the tests' error and were no hits; 0 at 95 %."""
        surely = sum(truth > THRESHOLD + self.methods[0].tests for truth in self.truths)
        return surely - sum(hit.truth > THRESHOLD + self.methods[0].tests for hit in self.hits)

    def open(self, on_step: Callable[[str], None] | None = None) -> Session:
        """Open the same session again."""
        return open(
            self.rows,
            table="alarms",
            privacy_unit="zper",
            ledger=self.ledger,
            budget=BUDGET,
            filter="renyi",
            grain=SIZE,
            on_step=on_step,
        )


RIVALS: Final = Rivals(BUDGET, TESTS, HITS)
SIZE: Final = float(largest_call(BUDGET, HITS, "renyi"))


def run(folder: Path, say: Say) -> Story:
    """Run the story in a folder, whose earlier panel and ledger are replaced."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("panel.*"):
        old.unlink()
    story = Story(folder, say)
    first = alarms(story.table, YEARS[0])
    start(story.rows, first)
    opened, held = _first_years(story, first)
    _interrupted(story)
    _reopened(story, opened, held)
    story.seconds = time.monotonic() - began
    return story


def _first_years(story: Story, first: pa.Table) -> tuple[int, int]:
    """Years 1 to 3, and an outcome that is withheld: the numbers of the run and of the call that withheld it."""
    with story.open() as session:
        tests = session.start(PrepaidTests(tests=TESTS, hits=HITS, part=PART, value="0.25"), request="indicators")
        story.misses, story.price_of_hit = tests.state.misses, tests.state.price_if_hit
        story.say(f"{INDICATORS:,} indicators a year, of which one person may be in all; {BUDGET} for five years")
        story.say(
            f"{TESTS:,} tests prepaid: all misses cost {tests.spent}, each hit costs {percent(story.price_of_hit)}"
        )
        _watch(story, tests, YEARS[0], first)
        for year in YEARS[1:3]:
            _arrived(story, session, tests, year)
        held = session.release_if(count("year = 3"), above=5000, epsilon=SIZE)
        story.say(f"people in any indicator in year 3, published if above 5,000: {_shown(held)}")
        return tests.call, held.call


def _arrived(story: Story, session: Session, tests: Run[Any, Any], year: int) -> None:
    rows = alarms(story.table, year)
    session.append(rows)
    _watch(story, tests, year, rows)


def _watch(story: Story, tests: Run[Any, Any], year: int, rows: pa.Table) -> None:
    """Test all indicators of a year in one scan."""
    found = tests.ask(count(f"year = {year}").by("indicator", range(INDICATORS)), above=THRESHOLD)
    truths, before = true_counts(rows), len(story.truths)
    for (key,) in found.above:
        row = found[key]
        place, told = before + key + 1, f"{label(key)} (year {year})"
        story.hits.append(Hit(told, place, row["value"], row["low"], row["high"], int(truths[key])))
    story.truths += truths.tolist()
    if not story.methods:
        own = Precision(OWN, tests.state.accuracy().error, found.error_bar)
        with story.open() as session:
            story.methods = [own, *RIVALS.all(session, found.error_bar)]
    story.say(f"year {year}: {found.hits} indicators above {THRESHOLD:,} people, {found.tested - found.hits:,} below")


def _interrupted(story: Story) -> None:
    """Kill a process that has read the data but not yet published: its reservation must stay charged."""
    child = multiprocessing.get_context("spawn").Process(target=_cut_off, args=(story.folder,))
    child.start()
    child.join()
    story.say(f"a second process was killed (signal {-(child.exitcode or 0)}) after reading, before publishing")


def _cut_off(folder: Path) -> None:
    def kill(step: str) -> None:
        if step == "evaluated":
            os.kill(os.getpid(), signal.SIGKILL)

    with Story(folder, lambda line: None).open(on_step=kill) as session:
        session.test(ONE, above=THRESHOLD, epsilon=SIZE, request=REQUEST)


def _reopened(story: Story, opened: int, held: int) -> None:
    """Years 4 and 5 in a new session: the repeated request, the withheld outcome, an ordinary release."""
    with story.open() as session:
        story.say(f"reopened: {session.spent} spent, the killed call included")
        again = session.test(ONE, above=THRESHOLD, epsilon=SIZE, request=REQUEST)
        story.say(f"the killed request, repeated: {'above' if again else 'not above'} {THRESHOLD:,}")
        story.say(
            f"the withheld outcome, its threshold lowered to 2,000: {_shown(session.ask(Widen(held, above=2000)))}"
        )
        tests = session.resume(opened)
        for year in YEARS[3:]:
            _arrived(story, session, tests, year)
        answer = session.release(count("year = 5"), epsilon="0.02")
        story.say(f"people in any indicator in year 5, an ordinary release: {_told(answer)}")


def _shown(held: Conditional) -> str:
    return f"nothing, the outcome is withheld; {held.price}" if held.value is None else _told(held)


def _told(answer: Answer) -> str:
    low, high = ("unbounded" if end is None else f"{end:,.0f}" for end in answer.interval or (None, None))
    return f"{answer.value:,}, 95 % interval {low} to {high}; {answer.price}"


def noisy(story: Story, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """All answers as a Gaussian release of everything would have published them, simulated for the picture."""
    noise = np.random.default_rng(seed).normal(0, RIVALS.sigma(TESTS), len(story.truths))
    return np.array(story.truths) + noise
