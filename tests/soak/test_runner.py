import json
from random import Random

import pytest

from tests.soak import runner
from tests.soak.figures import Figures, Until
from tests.soak.runner import Part


def fine(until, random):
    figures = Figures()
    for _ in until:
        figures.count("cases")
    figures.count("drawn", random.randrange(10**9))
    return figures


def broken(until, random):
    figures = fine(until, random)
    for number in range(100):
        figures.violation(f"wrong {number}")
    return figures


def run(monkeypatch, capsys, *arguments, **parts):
    monkeypatch.setattr(runner, "PARTS", parts)
    monkeypatch.setattr("sys.argv", ["soak", "--minutes", "0.0001", *arguments])
    with pytest.raises(SystemExit) as left:
        runner.main()
    return left.value.code, capsys.readouterr().out


def test_a_violation_is_told_and_fails(monkeypatch, capsys):
    code, out = run(monkeypatch, capsys, one=Part(fine, 1), two=Part(broken, 1))
    assert code == 1
    assert "two: wrong 0" in out
    assert "100" in out
    assert run(monkeypatch, capsys, one=Part(fine, 1))[0] == 0


def test_one_attack_alone_repeats_what_it_did_among_others(monkeypatch, capsys):
    parts = {"one": Part(fine, 1), "two": Part(fine, 1), "long": Part(broken, 1, least=20)}
    _, both = run(monkeypatch, capsys, "--json", "--seed", "7", **parts)
    code, alone = run(monkeypatch, capsys, "--json", "--seed", "7", "--only", "two", **parts)
    assert code == 0
    assert json.loads(both).keys() == {"seed", "one", "two"}
    assert json.loads(alone)["two"]["drawn"] == json.loads(both)["two"]["drawn"] != json.loads(both)["one"]["drawn"]
    assert run(monkeypatch, capsys, "--only", "long", **parts)[0] == 1


def test_until_ends_with_its_cases_or_its_seconds_and_makes_one_case_at_least():
    shares = []
    assert list(Until(cases=3, heard=shares.append)) == [0, 1, 2]
    assert shares == [0, 1 / 3, 2 / 3, 1]
    assert list(Until(seconds=0)) == [0]
    assert fine(Until(seconds=0.01), Random(1)).counts["cases"] >= 1
