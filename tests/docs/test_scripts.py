"""Code of the pages that is no doctest, since it needs files: it runs, and a user's type checker has nothing to say."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import chary
from chary.demo import panel
from chary.noise import Seeded

ROOT = Path(__file__).parents[2]
SOURCES = Path(chary.__file__).parents[1]


def block(page, holding):
    """The code of a page that holds these words."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    [found] = [code for code in blocks if holding in code]
    return found


def visits(first, last):
    """Patients with two rows each."""
    rows = range(first, last)
    return pa.table(
        {
            "patient_id": [row // 2 for row in rows],
            "age": [row // 2 % 100 for row in rows],
            "smoker": [row // 2 % 3 > 0 for row in rows],
            "clinic": ["north" if row % 8 < 6 else "south" for row in rows],
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(visits(0, 20_000), "visits.csv")
    pyarrow.csv.write_csv(visits(20_000, 30_000), "march.csv")
    pyarrow.parquet.write_table(visits(0, 20_000), "visits.parquet")
    return tmp_path


def test_the_example_of_the_readme(folder, monkeypatch):
    known = {}
    # The noise of one seed: with real noise a count near the threshold may fall on either side.
    monkeypatch.setattr(chary, "open", functools.partial(chary.open, unsafe_noise=Seeded(1)))
    exec(block("README.md", "1,200 overlapping"), known)
    with known["session"] as session:
        hits = [entry.hits for entry in session.history if entry.kind == "release_if"]
        assert len(hits) == 1200
        assert sum(hits) == 6  # of the seven that the page names, by the noise of this seed
        exact = panel.true_counts(panel.alarms(panel.people(), 1))
        assert sum(exact[:1200] >= 1000) == 7
        assert known["alert"].state.active
        assert session.spent.share == pytest.approx((sum(hits) + 1) / 20, rel=1e-2)


def test_the_script_of_the_tutorial_is_typed(folder):
    script = folder / "script.py"
    script.write_text(block("docs/start/quickstart.md", "visits.parquet"))
    environment = os.environ | {"MYPYPATH": str(SOURCES), "PYTHONPATH": str(SOURCES)}
    printed = []
    for command in (["-m", "mypy", "--strict", "--cache-dir", ".types", "script.py"], ["script.py"], ["script.py"]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    _, first, again = printed
    assert "charged" in first
    # The stored answers come back, of which only the costs are said anew.
    values = [re.findall(r"value [\d,]+|^north .*|^south .*", each, re.MULTILINE) for each in (first, again)]
    assert values[0] == values[1]
    assert len(values[0]) == 3


ANSWERED = """
from typing import assert_type
import chary
from chary.noise import Seeded
from chary import count, mean
from chary.answers import NoisyNumber, NoisyNumbers
from chary.calls import (
    GaussianAboveThreshold,
    ContinualCount,
    DistinctEstimate,
    FirstAbove,
    GrowingRound,
    GrowingTests,
    GrowingTest,
    IndividualTests,
    LivingCount,
    Release,
    DistinctSketch,
    SparseTest,
    SparseVector,
    SparseWatch,
    ReleaseIf,
    Conditional,
    ThresholdTest,
    Tested,
    TestedKeys,
    WatchResult,
    WeightedAnswer,
    PMW,
)

def ask(session: chary.Session) -> None:
    ages, days = mean("age", bounds=(0, 120), max_rows_per_unit=1), count().by("day", range(7))
    assert_type(session.release(ages, epsilon=1), NoisyNumber)
    assert_type(session.release(ages.by("day", range(7)), epsilon=1), NoisyNumbers)
    assert_type(session.ask(Release(days, epsilon=1)), NoisyNumbers)
    assert_type(session.ask(ThresholdTest(count(), above=5, epsilon=1)), Tested)
    assert_type(session.ask(ThresholdTest(days, above=5, epsilon=1)), TestedKeys)
    assert_type(session.ask(ReleaseIf(ages, above=5, epsilon=1)), Conditional)
    assert_type(session.ask(ReleaseIf(days, above=5, epsilon=1, value=None)), WatchResult)
    assert_type(session.test(ages, above=5, epsilon=1, request="one"), bool)
    assert_type(session.test(days, above=5, hits=1), TestedKeys)
    assert_type(session.release_if(count(), above=5, hits=1, value="0.5"), Conditional)
    gaussian = session.start(GaussianAboveThreshold(threshold=5, threshold_noise=1, low=0, high=9))
    assert_type(gaussian.ask(count()), Tested)
    assert_type(gaussian.ask(days), FirstAbove)
    sparse = session.start(SparseVector(above=5, hits=1, epsilon=1))
    assert_type(sparse.ask(count(), above=7), SparseTest)
    assert_type(sparse.ask(days), SparseWatch)
    stream = session.start(IndividualTests(epsilon=1, hits=1))
    assert_type(stream.ask(count(), above=5), LivingCount)
    assert_type(stream.ask(days, above=5), WatchResult)
    growing = session.start(GrowingTests(above="0.5", epsilon=1))
    assert_type(growing.ask(), GrowingRound)
    assert_type(growing.ask(count(), above="0.3"), GrowingTest)
    assert_type(session.start(DistinctSketch(epsilon=1)).ask(above=5), DistinctEstimate)
    weights = session.start(PMW(universe={"age": range(9)}, alpha="0.1", epsilon=1))
    assert_type(weights.ask("age < 5"), WeightedAnswer)
    told = session.start(ContinualCount(days, steps=9, epsilon=1)).ask()
    print(told.step, told.value["monday"], sparse.state.left, gaussian.state.told)
    for row in session.release_if(days, above=500, epsilon="0.02"):
        print(row["day"], row["value"])
"""


def test_types_of_answers_follow_from_the_question(tmp_path):
    (tmp_path / "asked.py").write_text(ANSWERED)
    environment = os.environ | {"MYPYPATH": str(SOURCES)}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".types", "asked.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 64
    for place, page in [(ROOT, ROOT / "README.md"), *((page.parent, page) for page in ROOT.glob("docs/**/*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", page.read_text())):
            assert (place / link).exists(), (page, link)
