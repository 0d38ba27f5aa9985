"""Mutants of the floors that carry the guarantee, drawn at random, and those that no test has seen."""

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from random import Random

from tests.paths import ROOT
from tests.soak.figures import Figures, Until
from tests.soak.mutation.concerning import near, wide
from tests.soak.mutation.mutator import Mutant, mutants_of
from tests.soak.mutation.trial import trial

CHARY = ROOT / "src" / "chary"
FLOORS = ("accounting", "filters", "mechanisms", "noise", "ledger")
MODULES = (*(f"{floor}/**/*.py" for floor in FLOORS), "core/transaction.py")
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
RESULTS = ROOT / "build" / "soak" / "mutants.jsonl"
# Unchanged, the tests must pass within this; a mutant that takes several times as long as they did never ends.
MOST_SECONDS, TIMES, SLACK_SECONDS = 120.0, 4, 5.0


def judged_equivalent() -> dict[str, str]:
    """The keys of mutants that change nothing anybody could see, each with the reason."""
    return {each["key"]: each["why"] for each in tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])}


class Trials:
    """Mutants of some modules, tried on the tests that concern each; figures and a file of results."""

    def __init__(self, modules: tuple[str, ...] = MODULES) -> None:
        paths = sorted(path for pattern in modules for path in CHARY.glob(pattern) if path.name != "__init__.py")
        self.mutants = [each for path in paths for each in mutants_of(str(path.relative_to(CHARY)), path.read_text())]
        self.figures = Figures()
        self._equivalent, self._usual = judged_equivalent(), {}
        RESULTS.parent.mkdir(parents=True, exist_ok=True)

    def one(self, mutant: Mutant) -> None:
        if mutant.key in self._equivalent:
            self.figures.count("judged equivalent")
            return
        outcome = self._outcome(mutant)
        self.figures.count("mutants")
        self.figures.count(outcome)
        if outcome == "survived":
            self.figures.violation(f"line {mutant.line}, {mutant.key}")
        with RESULTS.open("a") as results:
            results.write(json.dumps({"outcome": outcome, "key": mutant.key, **asdict(mutant)}) + "\n")

    def _outcome(self, mutant: Mutant) -> str:
        """By the nearest tests first; by all of its floor if those have seen nothing."""
        for tests in ([CHARY / mutant.path, *near(mutant.path)], wide(mutant.path)):
            usual = self._seconds(tests)
            if usual is None:
                return "untested: its tests fail as they are"
            found, _ = trial(CHARY, mutant, tests, TIMES * usual + SLACK_SECONDS)
            if found != "passed":
                return "killed"
        return "survived"

    def _seconds(self, tests: list[Path]) -> float | None:
        key = tuple(tests)
        if key not in self._usual:
            found, seconds = trial(CHARY, None, tests, MOST_SECONDS)
            self._usual[key] = seconds if found == "passed" else None
            self.figures.expect(found == "passed", f"without any change: {found}: {[test.name for test in tests]}")
        return self._usual[key]


def mutants(until: Until, random: Random, modules: tuple[str, ...] = MODULES) -> Figures:
    """The attack: as many mutants as the time allows, drawn at random; each that no test sees is a violation."""
    trials = Trials(modules)
    order = random.sample(trials.mutants, len(trials.mutants))
    for number, mutant in zip(until, order, strict=False):
        trials.one(mutant)
        trials.figures.counts["of"] = len(order)
        if number + 1 == len(order):
            break
    return trials.figures
