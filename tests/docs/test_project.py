"""What stands beside the code: one version everywhere, a citation and forms that hosts of repositories can read."""

import re
import tomllib
from importlib.metadata import version

import pytest
import yaml

from tests.paths import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def read(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize("part", ["client", "research"])
def test_every_distribution_has_the_version_of_the_first(part):
    assert tomllib.loads(read(f"{part}/pyproject.toml"))["project"]["version"] == VERSION


def test_the_citation_the_changelog_and_the_pages_have_it_too():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == VERSION
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert f"## [{VERSION}]" in read("CHANGELOG.md")
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    assert set(re.findall(r"chary-(\d[\w.]*?)-py3", "".join(pages))) <= {VERSION}


def test_what_is_installed_says_it():
    assert version("chary") == VERSION


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda form: form.stem)
def test_a_form_of_issues_is_one_and_asks_for_no_real_data(form):
    said = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= said.keys()
    assert {field["type"] for field in said["body"]} <= FIELDS
    ids = [field["id"] for field in said["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert "Report a vulnerability" in said["body"][0]["attributes"]["value"]


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_reports_go_where_only_maintainers_read_and_not_to_an_address(name):
    assert "**Report a vulnerability**" in read(name)
    assert not re.search(r"\S@\S", read(name))
