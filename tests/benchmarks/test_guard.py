"""The guard of speed trips on a figure that doubled, and on nothing else."""

import contextlib
import dataclasses
import json
import sys

import pytest

NAME = "a change of half a million cells; NumPy"


@pytest.fixture
def guard(run_beside):
    return run_beside("guard")


class Measured:
    """A check whose measurements are given; it says how long each lasted."""

    def __init__(self, *times):
        self.left, self.lasted = list(times), []

    def times(self, lasting=2.5):
        self.lasted.append(lasting)
        return self.left.pop(0)

    @contextlib.contextmanager
    def __call__(self, folder):
        assert folder.is_dir()
        yield self


def test_twice_the_record_holds_and_more_fails(guard):
    assert guard.judged(Measured((0.02, 0.01)), 1.0).holds
    twice = Measured((0.0201, 0.01), (0.0202, 0.01))
    assert not guard.judged(twice, 1.0).holds
    assert twice.lasted == [2.5, 5]


def test_a_busy_spell_is_measured_again(guard):
    spell = Measured((0.05, 0.01), (0.019, 0.01))
    assert guard.judged(spell, 1.0).ratio == pytest.approx(1.9)
    assert spell.left == []
    worse_again = guard.judged(Measured((0.03, 0.01), (0.05, 0.01)), 1.0)
    assert not worse_again.holds
    assert worse_again.ratio == pytest.approx(3)


def test_a_lucky_record_counts_as_its_limit(guard):
    assert guard.judged(Measured((0.02, 0.01)), 0.3).holds
    assert not guard.judged(Measured((0.03, 0.01), (0.03, 0.01)), 0.3).holds


def test_a_tenth_of_a_millisecond_does_not_count(guard):
    assert guard.judged(Measured((0.00010, 0.00001)), 1.0).holds
    assert not guard.judged(Measured((0.00012, 0.00001), (0.00012, 0.00001)), 1.0).holds


def test_a_figure_without_a_record_fails(guard):
    found = guard.judged(Measured((0.01, 0.01)), None)
    assert not found.holds
    assert found.row("new")[-1] == "no record"


def records(path, ratio, guarded):
    rows = {f"{guarded.KEY}: {name}": {"ratio": ratio} for name in guarded.CHECKS}
    path.write_text(json.dumps({"benchmarks": {"guarded": {"ratios": rows}}}))
    return str(path)


def slowed(check):
    """The same figure with our call thirty times over."""

    @contextlib.contextmanager
    def made(folder):
        with check(folder) as pair:
            yield dataclasses.replace(pair, ours=lambda: [pair.ours() for _ in range(30)])

    return made


@pytest.mark.parametrize(("ratio", "failing"), [(1.0, 1), (10.0**6, 0)])
def test_the_command_trips_on_a_slow_call(run_beside, guard, tmp_path, monkeypatch, capsys, ratio, failing):
    guarded = run_beside("guarded")
    monkeypatch.setattr(guarded.Pair.times, "__defaults__", (0.1,))
    monkeypatch.setattr(guard, "LASTING", 0.1)
    monkeypatch.setattr(guard, "CHECKS", {NAME: slowed(guarded.CHECKS[NAME])})
    monkeypatch.setattr(sys, "argv", ["guard.py", "--record", records(tmp_path / "made.json", ratio, guarded)])
    assert guard.main() == failing
    assert NAME in capsys.readouterr().out


def test_every_guarded_figure_is_recorded(run_beside):
    guarded, results = run_beside("guarded"), run_beside("results")
    known = results.ratios(results.load())
    assert {f"guarded/{guarded.KEY}: {name}" for name in guarded.CHECKS} <= known.keys()
