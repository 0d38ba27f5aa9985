"""The list of public names, the namespace and the reference page say the same."""

import inspect

import pytest

import chary
from tests.paths import ROOT
from tests.reference_page import GROUPS, PACKAGES, render


def test_list_equals_namespace():
    modules = {name for name, value in vars(chary).items() if inspect.ismodule(value)}
    public = {name for name in vars(chary) if not name.startswith("_")} - modules
    assert public == set(chary.__all__)
    assert chary.__all__ == sorted(chary.__all__)


def test_reference_page_is_the_docstrings():
    assert (ROOT / "docs" / "reference.md").read_text() == render()


def test_reference_page_has_every_name():
    errors = {name for name in chary.__all__ if f"### `chary.{name}`" in render()}
    assert errors == set(chary.__all__) >= {name for names in GROUPS.values() for name in names}


NAMED = [(package, name) for package in (chary, *PACKAGES.values()) for name in package.__all__]


@pytest.mark.parametrize(("package", "name"), NAMED, ids=lambda part: getattr(part, "__name__", part))
def test_everything_public_is_documented(package, name):
    thing = getattr(package, name)
    assert inspect.getdoc(thing)
    for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
        if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"
