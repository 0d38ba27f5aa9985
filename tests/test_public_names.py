"""The list of public names and the namespace say the same, and the pages of the API have every package of them."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import chary
from chary.calls import kinds
from chary.calls.call import SUBJECTS
from tests.paths import ROOT

HEAVY = ["duckdb", "ibis", "jinja2", "matplotlib", "numpy", "pyarrow", "pydantic", "scipy", "sklearn", "sqlalchemy"]


def test_public_names_are_few_sorted_and_there():
    assert chary.__all__ == sorted(chary.__all__)
    assert len(chary.__all__) <= 37
    assert {name for name in vars(chary) if name in chary.__all__} <= set(chary.__all__) <= set(dir(chary))
    given = {}
    exec("from chary import *", given)
    assert given.keys() - {"__builtins__"} == set(chary.__all__)


def test_a_session_has_few_members():
    assert len([name for name in dir(chary.Session) if not name.startswith("_")]) <= 24


@pytest.mark.parametrize("room", ["accounting", "calls", "data", "learning", "noise", "session"])
def test_rooms_are_found_without_importing_them(room):
    assert getattr(chary, room).__name__ == f"chary.{room}"


def test_what_is_not_there_is_told_as_usual():
    with pytest.raises(AttributeError, match="module 'chary' has no attribute 'opne'"):
        chary.opne  # noqa: B018
    with pytest.raises(ImportError):
        exec("from chary import Answer")


def test_an_import_loads_no_engine():
    told = run_python("import chary, sys; print([m for m in HEAVY if m in sys.modules])")
    assert told == "[]"


def test_the_version_is_told_without_an_engine():
    shown = "import sys; sys.argv = ['chary', '--version']; from chary.cli import main; main()"
    told = run_python(f"{shown}; print([m for m in HEAVY if m in sys.modules])").splitlines()
    assert told == [f"chary {version('chary')}", "[]"]


def run_python(code):
    """What a new process prints."""
    code = f"HEAVY = {HEAVY}; {code}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


API = ROOT / "docs" / "reference" / "api"
PACKAGES = [
    import_module(name)
    for page in re.findall(r"(?m)^\w+$", (API / "index.md").read_text())
    for name in re.findall(r"{api} (\S+)", (API / f"{page}.md").read_text())
]


def test_the_pages_have_every_package_of_public_names():
    inner = {"chary.cli", "chary.data", "chary.demo", "chary.filters", "chary.ledger", "chary.noise"}
    for tree in (ROOT / "src", ROOT / "research" / "src"):
        for path in tree.glob("*/**/*.py"):
            name = ".".join(path.relative_to(tree).with_suffix("").parts).removesuffix(".__init__")
            if "\n__all__ = " in path.read_text():
                assert (name in {each.__name__ for each in PACKAGES}) != (name in inner), name


def test_every_kind_of_call_has_a_subject_and_a_name():
    assert SUBJECTS.keys() == {kind.subject for kind in kinds().values()}
    assert {kind.__name__ for kind in kinds().values()} <= set(chary.calls.__all__)


NAMED = [(package, name) for package in PACKAGES for name in package.__all__ if name not in ("STEPS", "Procedure")]


@pytest.mark.parametrize(("package", "name"), NAMED, ids=lambda part: getattr(part, "__name__", part))
def test_everything_public_is_documented(package, name):
    thing = getattr(package, name)
    assert inspect.getdoc(thing)
    for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
        if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"
