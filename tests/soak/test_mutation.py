"""The mutation run: its changes, what tests say to them, and the list of those judged equivalent."""

import ast
from random import Random

import pytest

from tests.soak.figures import Until
from tests.soak.mutation import mutants as running
from tests.soak.mutation.concerning import near, wide
from tests.soak.mutation.mutants import CHARY, MODULES, judged_equivalent, mutants
from tests.soak.mutation.mutator import changes, mutants_of, mutated
from tests.soak.mutation.trial import trial

SOURCE = '''
import math

SIZE: int = 3

def larger(a, b, strict=False):
    """Docstring 7 > 5."""
    check(a)
    if a < b and not strict:
        raise ValueError(f"{a + 1}")
    a += 2
    return max(a, b) * 0.5 + math.floor(a) if a in (b,) else -round_up(a)

def round_up(a):
    return math.nextafter(a, math.inf)

def round_down(a):
    return a // 2

class Box:
    def __repr__(self):
        return "Box" + "es"
'''


def test_each_change_is_one_change_that_compiles():
    found = list(mutants_of("toy.py", SOURCE))
    assert len({each.key for each in found}) == len(found) > 20
    plain = ast.unparse(ast.parse(SOURCE))
    for mutant in found:
        changed = mutated(SOURCE, mutant)
        compile(changed, "toy.py", "exec")
        assert ast.unparse(changed) != plain


@pytest.mark.parametrize(
    "change",
    [
        "3 -> 4",
        "check(a) -> pass",
        "a < b -> a <= b",
        "a < b and (not strict) -> a < b or not strict",
        "not strict -> strict",
        "raise ValueError(f'{a + 1}') -> pass",
        "a += 2 -> pass",
        "a += 2 -> a -= 2",
        "max -> min",
        "0.5 -> 0.505",
        "math.floor -> math.ceil",
        "a in (b,) -> a not in (b,)",
        "-round_up(a) -> round_up(a)",
        "round_up -> round_down",
        "math.inf -> -math.inf",
        "a // 2 -> a * 2",
        "False -> True",
    ],
)
def test_it_changes(change):
    assert change in [mutant.change for mutant in mutants_of("toy.py", SOURCE)]


def test_what_is_only_said_is_left_alone():
    assert not [place for place, *_ in changes(SOURCE)[1] if "Box" in place]
    assert not [mutant for mutant in mutants_of("toy.py", SOURCE) if "7" in mutant.change]


@pytest.fixture
def toy(tmp_path):
    package = tmp_path / "toy_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "law.py").write_text("def squared(a):\n    return a * a\n")
    for name, value in {"weak": 1, "strong": 3}.items():
        test = f"from toy_package.law import squared\n\ndef test():\n    assert squared({value}) == {value**2}\n"
        (tmp_path / f"test_{name}.py").write_text(test)
    return package


def test_a_strong_test_kills_what_a_weak_one_lets_live(toy):
    source = (toy / "law.py").read_text()
    [mutant] = mutants_of("law.py", source)
    weak, strong = ([toy.parent / f"test_{name}.py"] for name in ("weak", "strong"))
    assert trial(toy, None, weak, 60)[0] == trial(toy, None, strong, 60)[0] == "passed"
    assert trial(toy, mutant, weak, 60)[0] == "passed"
    assert trial(toy, mutant, strong, 60)[0] == "failed"
    assert (toy / "law.py").read_text() == source


def test_a_module_of_which_no_test_is_near_is_no_failure(toy):
    """Nothing that is run has seen the mutant: all tests of its floor come next."""
    assert trial(toy, None, [toy / "__init__.py"], 60)[0] == "passed"


def test_a_mutant_that_never_ends_is_ended(toy):
    (toy / "law.py").write_text("def squared(a):\n    while a == -1:\n        pass\n    return a * a\n")
    [endless] = [
        each for each in mutants_of("law.py", (toy / "law.py").read_text()) if each.change == "a == -1 -> a != -1"
    ]
    assert trial(toy, endless, [toy.parent / "test_weak.py"], 2)[0] == "too long"


def test_every_module_has_tests_that_concern_it():
    for pattern in MODULES:
        for module in CHARY.glob(pattern):
            path = str(module.relative_to(CHARY))
            assert wide(path), path
            assert all(test.exists() for test in [*near(path), *wide(path)])


def test_what_is_judged_equivalent_is_still_there_and_has_a_reason():
    judged = judged_equivalent()
    files = {key.split()[0] for key in judged}
    keys = {each.key for file in files for each in mutants_of(file, (CHARY / file).read_text())}
    assert judged.keys() <= keys
    assert all(len(why) > 20 for why in judged.values())


def with_tests(monkeypatch, tmp_path, toy, seeing):
    """The toy is what is mutated, and whoever is asked sees every change, or none."""
    monkeypatch.setattr(running, "CHARY", toy)
    monkeypatch.setattr(running, "RESULTS", tmp_path / "build" / "results.jsonl")
    monkeypatch.setattr(running, "near", lambda path: [toy])
    monkeypatch.setattr(running, "wide", lambda path: [toy])
    found = {True: "failed", False: "passed"}
    monkeypatch.setattr(running, "trial", lambda package, mutant, *_: (found[seeing and mutant is not None], 1.0))


def test_a_survivor_is_a_violation(monkeypatch, tmp_path, toy):
    with_tests(monkeypatch, tmp_path, toy, seeing=False)
    figures = mutants(Until(cases=9), Random(1), ("*.py",))
    assert figures.counts["survived"] == figures.counts["mutants"] == figures.counts["of"] == 1
    assert figures.violations == ["line 2, law.py squared: a * a -> a / a"]
    assert len((tmp_path / "build" / "results.jsonl").read_text().splitlines()) == 1


def test_one_that_is_seen_or_judged_equivalent_is_none(monkeypatch, tmp_path, toy):
    with_tests(monkeypatch, tmp_path, toy, seeing=True)
    figures = mutants(Until(cases=9), Random(1), ("*.py",))
    assert figures.ok
    assert figures.counts["killed"] == 1
    with_tests(monkeypatch, tmp_path, toy, seeing=False)
    monkeypatch.setattr(running, "judged_equivalent", lambda: {"law.py squared: a * a -> a / a": "for this test"})
    figures = mutants(Until(cases=9), Random(1), ("*.py",))
    assert figures.ok
    assert figures.counts["judged equivalent"] == 1
