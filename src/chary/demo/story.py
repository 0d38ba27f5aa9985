"""The main job, end to end: a growing panel is watched, tested, asked, interrupted and reopened under one budget."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from chary.answer import Ends
from chary.calls import Conditional, NoisyNumber, Revise
from chary.data import Count, count, total
from chary.demo.panel import GROUPS, YEARS, of_year, people, start, true_count
from chary.filters import Budget, largest_call
from chary.session import Session, open

BUDGET = Budget(epsilon=3, delta=1e-6)
# The story's own figures: with 12 hits the calls are large enough for groups of a hundred people to show.
EXPECTED_HITS = 12
LEVELS = (5, 10, 15, 20, 30)
BAR = 100
REQUEST = "site 2, year 3"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A published value beside the truth."""

    label: str
    value: float
    truth: float
    interval: Ends


@dataclass
class Story:
    """What the demo did: published values, the history by call, and how long it took."""

    folder: Path
    epsilon_per_call: float
    say: Say
    table: pa.Table = field(default_factory=people)
    points: list[Point] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rows(self) -> Path:
        """The DuckDB file that grows."""
        return self.folder / "panel.duckdb"

    @property
    def ledger(self) -> Path:
        """The ledger."""
        return self.folder / "panel.ledger"

    def open(self, on_step: Callable[[str], None] | None = None) -> Session:
        """The same session, as often as it takes."""
        return open(
            self.rows,
            table="people",
            privacy_unit="zper",
            ledger=self.ledger,
            budget=BUDGET,
            filter="renyi",
            grain=self.epsilon_per_call,
            on_step=on_step,
        )


def run(folder: Path, say: Say) -> Story:
    """Play the story in a folder, whose earlier panel and ledger are replaced."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("panel.*"):
        old.unlink()
    story = Story(folder, float(largest_call(BUDGET, EXPECTED_HITS, "renyi")), say)
    start(story.rows, of_year(story.table, 1))
    held = _first_years(story)
    _interrupted(story)
    _reopened(story, held)
    story.seconds = time.monotonic() - began
    return story


def _first_years(story: Story) -> int:
    """Years 1 to 3: watch, test, and hold one outcome back; the number of the holding call."""
    with story.open() as session:
        story.say(f"budget: {BUDGET}; each call is {story.epsilon_per_call:g}-DP; a person is the privacy unit")
        for year in YEARS[:3]:
            if year > 1:
                session.append(of_year(story.table, year))
            _watch(story, session, year)
            _tests(story, session, year)
        held = session.release_if(_admitted(3), above=650, epsilon=story.epsilon_per_call)
        story.say(f"year 3: people with a hospital stay, published if above 650: {_shown(held)}")
        return held.call


def _watch(story: Story, session: Session, year: int) -> None:
    for visits in LEVELS:
        question = count(f"mdvis >= {visits} AND year = {year}").by(["site", "plan"], GROUPS, keep_per_unit=1)
        found = session.watch(question, above=BAR, epsilon=story.epsilon_per_call)
        story.say(
            f"year {year}: {len(GROUPS)} groups watched for {BAR} people with {visits}+ visits: {found.hits} above"
        )
        for key, value in found.above.items():
            truth = true_count(story.table, year, visits, (int(key[0]), int(key[1])))
            label = f"y{year} site {key[0]} plan {key[1]}, {visits}+"
            _point(story, label, float(value), truth, found.interval_of(value))


def _tests(story: Story, session: Session, year: int) -> None:
    for site in range(1, 7):
        question = count(f"totadm >= 3 AND year = {year} AND site = {site}")
        session.test(question, above=BAR, epsilon=story.epsilon_per_call)
    story.say(f"year {year}: 6 tests for {BAR} people with 3+ hospital stays at a site")


def _interrupted(story: Story) -> None:
    """Kill a process that has read the data but not yet published: its reservation must stay charged."""
    child = multiprocessing.get_context("spawn").Process(target=_cut_off, args=(story.folder, story.epsilon_per_call))
    child.start()
    child.join()
    story.say(f"a second process was killed (signal {-(child.exitcode or 0)}) after reading, before publishing")


def _cut_off(folder: Path, epsilon_per_call: float) -> None:
    def kill(step: str) -> None:
        if step == "evaluated":
            os.kill(os.getpid(), signal.SIGKILL)

    with Story(folder, epsilon_per_call, _unheard).open(on_step=kill) as session:
        session.test(_often(2, 3), above=BAR, epsilon=epsilon_per_call, request=REQUEST)


def _unheard(line: str) -> None:
    """A process about to be killed tells nobody."""


def _reopened(story: Story, call: int) -> None:
    """Years 4 and 5 in a new session: the repeated request, the held outcome, an ordinary release."""
    with story.open() as session:
        story.say(f"reopened: {session.spent} is spent, the lost call included")
        again = session.test(_often(2, 3), above=BAR, epsilon=story.epsilon_per_call, request=REQUEST)
        story.say(f"the lost request, asked again: site 2, 5+ visits in year 3 above {BAR}: {again}")
        held = session.ask(Revise(call, above=450))
        story.say(f"the outcome held before the restart, bar lowered to 450: {_shown(held)}")
        if held.value is not None:
            _point(story, "y3 any hospital stay", held.value, _true_admitted(story, 3), held.interval)
        for year in YEARS[3:]:
            session.append(of_year(story.table, year))
            _watch(story, session, year)
            _tests(story, session, year)
        _release(story, session)


def _release(story: Story, session: Session) -> None:
    spending = total("meddol", bounds=(0, 2000), grid=1, where="year = 5", rows_per_unit=1)
    answer = session.release(spending, epsilon=0.2)
    if isinstance(answer, NoisyNumber):
        story.say(f"year 5: medical spending, an ordinary release: {answer.value:,} dollars +- {answer.error_bar:,}")


def _often(site: int, year: int) -> Count:
    return count(f"mdvis >= 5 AND year = {year} AND site = {site}")


def _admitted(year: int) -> Count:
    return count(f"totadm >= 1 AND year = {year}")


def _true_admitted(story: Story, year: int) -> int:
    return int(of_year(story.table, year).filter(pc.field("totadm") >= 1).num_rows)


def _point(story: Story, label: str, value: float, truth: float, interval: Ends | None) -> None:
    story.points.append(Point(label, value, truth, interval or (None, None)))


def _shown(held: Conditional) -> str:
    return "nothing, free, kept as a secret" if held.value is None else f"{held.value}, truth in {held.interval}"
