"""The page of the papers: every numbered item of the sources has a row, and what its rows name is there."""

import importlib
import json
import re
from functools import lru_cache

import pytest
import typer

from chary.cli import run
from chary.cli.app import app
from tests.paths import ROOT

PAGE = ROOT / "docs" / "theory" / "papers.md"
PAPERS = ROOT.parent / "shared" / "papers"
SOURCES = {"TCT": "000", "GAUSS": "002", "SVT": "003", "GROW": "004"}
PACKAGES = ["calls", "accounting", "mechanisms", "filters", "growth", "learning", "audit", "streaming"]
PLACES = ["", "chary", *(f"chary.{name}" for name in PACKAGES), "chary_research.attacks"]
ITEM = r"(?:Algorithm|Theorem|Lemma|Corollary|Definition|Remark|Example) (?:[A-Z]\.\d+|\d+\.\d+|\d+)"
LINK = r"\]\(([^)#]*)(?:#([^)]*))?\)"


@lru_cache
def tables():
    """The rows of each source: item, what it is, where, test, ours."""
    parts = re.split(r"^## .*\[(\w+)\]$", PAGE.read_text(), flags=re.MULTILINE)
    found = {}
    for source, text in zip(parts[1::2], parts[2::2], strict=True):
        lines = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("|")]
        found[source] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return found


ROWS = [pytest.param(row, id=f"{source}-{row[0]}") for source, rows in tables().items() for row in rows]


def resolved(path):
    """What a dotted path is, whole or below chary; a name alone is looked for in the packages."""
    for place in PLACES:
        parts = [part for part in (*place.split("."), *path.split(".")) if part]
        for known in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:known]))
            except ImportError:
                continue
            for name in parts[known:]:
                found = getattr(found, name, None)
            if found is not None:
                return found
            break
    return None


def is_command(line):
    """Whether `chary a b` is a command."""
    found = typer.main.get_command(app)
    for word in line.split()[1:]:
        found = found.commands[word] if word in getattr(found, "commands", {}) else None
        found = getattr(found, "behind", found)
    return found is not None


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_source_has_rows_and_no_item_has_two():
    assert {source: len(rows) for source, rows in tables().items()}.keys() == {"TCT", "INTRO", "GAUSS", "SVT", "GROW"}
    for rows in tables().values():
        items = [row[0] for row in rows]
        assert all(len(row) == 5 for row in rows)
        assert len(items) == len(set(items))


@pytest.mark.parametrize("source", SOURCES)
def test_every_numbered_item_of_the_sources_has_a_row(source):
    files = list(PAPERS.glob(f"{SOURCES[source]}_*.txt"))
    if not files:
        pytest.skip("the papers are not shipped: lay their text into ../shared/papers to run this")
    text = files[0].read_text()
    if source == "GROW":
        # Numbers of a book and of another paper, cited with theirs.
        text = re.sub(r"Proposition \d+", "", text)
    assert set(re.findall(ITEM, text)) - {row[0] for row in tables()[source]} == set()


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_what_is_there(row):
    _, _, where, test, _ = row
    names = re.findall(r"`([^`]+)`", re.sub(r"\[.*?\]\(.*?\)", "", where))
    assert where
    assert [name for name in names if not (is_command(name) if " " in name else resolved(name))] == []
    assert all((ROOT / script).exists() for script in re.findall(r"benchmarks/\w+\.py", where))
    assert (ROOT / "tests" / test).is_file() or (ROOT / test).is_file()


def test_links_lead_to_heads():
    for page, anchor in re.findall(LINK, PAGE.read_text()):
        found = PAGE.parent / (page or PAGE.name)
        assert found.is_file()
        assert not anchor or anchor in anchors(found), (page, anchor)


def test_names_in_ours_and_in_the_paragraphs_are_there():
    told = set(re.findall(r"`([A-Z]\w+|[a-z]\w+_\w+)`", PAGE.read_text())) - {"log_power"}
    assert [name for name in told if resolved(name) is None] == []


@pytest.mark.parametrize(
    "line", re.findall(r"^\| [^|]* \| `chary (account [^`]*)` \|$", PAGE.read_text(), re.MULTILINE)
)
def test_the_calculators_of_the_page_run(line, capsys):
    assert run([*line.split(), "--json"]) == 0
    assert all(figure is None or figure > 0 for figure in json.loads(capsys.readouterr().out).values())


def test_what_is_missing_gives_its_reason():
    for told in re.split(r"\*\*[Nn]ot here\*\*", PAGE.read_text())[1:]:
        reason = re.match(r"[^:|]*:([^|]*)", told)
        assert len(reason[1].split() if reason else []) >= 3


def test_a_name_that_is_not_there_would_be_seen():
    assert resolved("NoSuchCall") is None
    assert resolved("accounting.no_such_room.figure") is None
    assert not is_command("chary account no-such")
    assert is_command("chary account charging")
