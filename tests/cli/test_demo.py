"""The main job on the built-in data: what the demonstration does, and that all it says is true."""

import json
import math
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

from chary.accounting import gaussian_delta
from chary.cli import demo, run
from chary.demo import BUDGET, story
from chary.demo.panel import INDICATORS, YEARS, alarms, indicators, of_year, people, true_counts
from chary.demo.story import HITS, TESTS, THRESHOLD, Rivals
from chary.ledger import open_ledger
from tests.paths import ROOT

EXTREME = {"xage": 99, "female": 1, "mdvis": 99, "outpdol": 9999, "meddol": 9999, "totadm": 9, "disea": 99, "coins": 0}


def test_demo_tells_its_story_and_keeps_its_budget(tmp_path, capsys, monkeypatch):
    played = []
    monkeypatch.setattr(demo, "run", lambda *asked: played.append(story.run(*asked)) or played[0])
    assert run(["demo", "--output", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert all(text in told for text in ("signal 9", "test (interrupted)", "the killed request, repeated"))
    assert len(told.splitlines()) < 50
    [sentence] = [line for line in told.splitlines() if line.startswith(f"chary answers {TESTS:,}")]
    assert sentence in " ".join((ROOT / "README.md").read_text().replace("\n> ", " ").split())
    monkeypatch.setattr(demo, "run", lambda *asked: played[0])
    assert run(["demo", "--output", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["calls"], figures["tests"]) == (11, TESTS + 3)
    assert 0 < figures["charged"] == figures["spent"]["share"] == pytest.approx(1 - figures["remaining"])
    # Ten of the hits are outside of their intervals, or one is lost so far above the bar, once in a million times.
    assert 12 < figures["hits"] <= HITS
    assert figures["covered"] > figures["hits"] - 10
    assert figures["overlooked"] <= 1
    assert figures["times"] > 10
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    ledger = open_ledger(tmp_path / "panel.ledger")
    assert ledger.verify().ok
    states = [str(call.state) for call in ledger.calls("panel.alarms")]
    ledger.close()
    assert states.count("reserved") == 1
    assert "one zper" in figures["statement"]


def test_the_alarms_are_the_people_who_fulfil_all_conditions():
    table = people()
    rows, year = alarms(table, 2), of_year(table, 2).to_pandas()
    counts = true_counts(rows)
    assert len(counts) == INDICATORS
    for number in (0, 7, 1234, 3999):
        chosen = year
        for level in indicators()[number]:
            values = chosen[level.column]
            chosen = chosen[values <= level.number if level.most else values >= level.number]
        assert counts[number] == len(chosen)
        asked = rows.filter(pa.compute.equal(rows["indicator"], number))
        assert sorted(asked["zper"].to_pylist()) == sorted(chosen["zper"])
    assert sum(true_counts(alarms(table, each))[7] >= THRESHOLD for each in YEARS) == 0


def test_one_person_may_be_in_all_indicators_so_no_method_may_count_on_less():
    row = pa.table({"zper": [1], "year": [1], **{name: [value] for name, value in EXTREME.items()}})
    assert true_counts(alarms(row, 1)).tolist() == [1] * INDICATORS


def test_what_rivals_are_said_to_err_is_what_their_mechanisms_err():
    rivals = Rivals(BUDGET, TESTS, HITS)
    sigma = rivals.sigma(TESTS)
    assert gaussian_delta(epsilon=1, sensitivity=str(math.sqrt(TESTS)), sigma=str(sigma)) == pytest.approx(
        1e-6, rel=1e-3
    )
    assert 2 * TESTS * NormalDist(0, sigma).cdf(-rivals.released(TESTS)) == pytest.approx(0.05)
    few = rivals.answers_within(243)
    assert rivals.released(few) <= 243 < rivals.released(few + 1)
    noise = np.random.default_rng(3).normal(0, rivals.sigma(few), (2000, few))
    wrong = int((np.abs(noise).max(axis=1) > rivals.released(few)).sum())
    assert 55 < wrong < 155  # 100 are expected, with a standard deviation of 10
