"""`chary reproduce`: what it lists, runs, skips and refuses."""

import json

import pytest

from chary_research.commands import reproduce
from chary_research.experiments import EXPERIMENTS, Trend, reproduction


def test_all_are_listed(call):
    code, out, _ = call("reproduce --list --json")
    told = json.loads(out)["experiments"]
    assert code == 0
    assert [each["name"] for each in told] == list(EXPERIMENTS)
    assert all(each["absent"] == each["needs"] for each in told)
    assert all(name in call("reproduce --list")[1] for name in EXPERIMENTS)


def test_one_is_run_and_its_files_are_told(call, tmp_path):
    code, out, _ = call("reproduce loss-by-threshold --quick --jobs 1 --output figures --json")
    [told] = json.loads(out)["experiments"]
    assert code == 0
    assert told["holds"]
    assert (tmp_path / told["csv"]).exists()
    assert (tmp_path / told["picture"]).exists()
    code, out, _ = call("reproduce loss-by-threshold --quick --output figures")
    assert (code, out.count("holds: ")) == (0, len(told["trends"]))
    assert f"{told['pieces']} pieces from an earlier run" in out


def test_a_broken_trend_is_told_by_the_exit_code(call, monkeypatch):
    broken = [Trend("the moon is larger", False)]
    monkeypatch.setattr(EXPERIMENTS["loss-by-threshold"], "trends", lambda *_: broken)
    code, out, _ = call("reproduce loss-by-threshold --quick --jobs 1")
    assert code == reproduce.TREND_BROKEN == 4
    assert "DOES NOT HOLD: the moon is larger" in out


def test_absent_data_are_skipped_by_all_and_refused_by_name(call, monkeypatch):
    needing = {name: each for name, each in EXPERIMENTS.items() if each.needs}
    monkeypatch.setattr(reproduction, "EXPERIMENTS", needing)
    code, out, _ = call("reproduce --all --quick --json")
    assert (code, json.loads(out)["experiments"]) == (0, [])
    assert json.loads(out)["skipped"] == {name: list(each.needs) for name, each in needing.items()}
    for name, each in needing.items():
        code, _, err = call(f"reproduce {name}")
        assert code == 2
        assert each.needs[0] in err


@pytest.mark.parametrize("line", ["reproduce", "reproduce no-such-figure"])
def test_names_are_told_where_none_is_known(call, line):
    code, _, err = call(line)
    assert code == 2
    assert "loss-by-threshold" in err
