"""Which tests concern a module: those that name what it defines first, then all of its floor."""

import ast
from functools import lru_cache
from pathlib import Path

from tests.paths import ROOT

TESTS = ROOT / "tests"
# It takes longer than all others together.
LEFT_OUT = {"test_ledger_scale.py"}
# Tests of other floors that see a module's laws through it.
BESIDE = {
    "filters": ["session/test_prices.py"],
    "core/transaction.py": [
        "conformance/test_kinds.py",
        "session/test_failures.py",
        "session/test_shares_and_requests.py",
        "session/test_session_laws.py",
        "session/test_answers.py",
    ],
}


def near(path: str) -> list[Path]:
    """The tests of a module such as `filters/filter.py`: its own name's, and those that import a name it defines."""
    if path in BESIDE:
        return wide(path)
    name, defined = Path(path).stem, _defined(path)
    found = [test for test in _floor(path) if name in test.stem or _imported(test) & defined]
    return sorted(found, key=lambda test: (name not in test.stem, test.name))


def wide(path: str) -> list[Path]:
    """All tests of its floor, and those beside them."""
    floor = path.split("/")[0]
    if path in BESIDE:
        return [TESTS / test for test in BESIDE[path]]
    return _floor(path) + [TESTS / test for test in BESIDE.get(floor, [])]


def _floor(path: str) -> list[Path]:
    tests = sorted((TESTS / path.split("/")[0]).rglob("test_*.py"))
    return [test for test in tests if test.name not in LEFT_OUT]


@lru_cache
def _defined(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "src" / "chary" / path).read_text())
    named = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return frozenset(name for name in named if not name.startswith("_"))


@lru_cache
def _imported(test: Path) -> frozenset[str]:
    tree = ast.parse(test.read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    used = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return frozenset([*names, *used])
