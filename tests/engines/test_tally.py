"""The reporter of what was compared."""

from tests.engines.asked import named, rows_of
from tests.engines.openers import ENGINES
from tests.engines.tally import HEAD, Tally, written
from tests.paths import ROOT

PAGE = ROOT / "docs" / "howto" / "engines.md"


def test_cases_are_added_up_and_a_failure_is_not_hidden():
    tally = Tally()
    tally.passed("one", [["b", "count", "each row", "none", 3], ["b", "count", "each row", "none", 4]])
    tally.passed("two", [["a", "total", "each row", "none", 2000]])
    tally.failed("test_forms.py::test_of_rows[a-1]", "a")
    assert tally.table().splitlines() == [
        "| asked | neighbours | limit | a | b |",
        "| --- | --- | --- | ---: | ---: |",
        "| count | each row | none | - | 7 |",
        "| test_of_rows |  |  | FAILED | - |",
        "| total | each row | none | 2,000 | - |",
        "| all |  |  | 2,000 | 7 |",
    ]


def test_a_run_replaces_what_its_tests_counted_and_keeps_the_rest(tmp_path):
    first, second = Tally(), Tally()
    first.failed("one", "a")
    first.passed("two", [["b", "count", "", "", 2]])
    written(first, tmp_path)
    assert "FAILED" in (tmp_path / "engines.md").read_text()
    second.passed("one", [["a", "count", "", "", 9]])
    written(second, tmp_path)
    assert (tmp_path / "engines.md").read_text().splitlines()[2:] == [
        "| count |  |  | 9 | 2 |",
        "| all |  |  | 9 | 2 |",
    ]


def page():
    """The engines of the page's table, and its cells by row."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    [head] = [line for line in lines if line[: len(HEAD)] == HEAD]
    named = [[part.strip() for part in line] for line in lines if len(line) == len(head)]
    return head[len(HEAD) :], {tuple(line[: len(HEAD)]): line[len(HEAD) :] for line in named}


def test_the_page_has_every_engine_and_no_failure():
    """Those that take long to start may have been left out."""
    names = [each.name for each in ENGINES]
    shown = page()[0]
    assert [name for name in names if name in shown] == shown
    assert {each.name for each in ENGINES if not each.marks} <= set(shown)
    assert "FAILED" not in PAGE.read_text()


def test_the_page_has_what_the_suite_asks():
    """Of every form, for all neighbours and limits, on each of these engines."""
    engines, cells = page()
    for form, neighbors, unit, limits in rows_of():
        row = form, f"{neighbors}, {'each row' if unit is None else 'a unit'}", named(limits)
        for each in ENGINES:
            assert each.marks or cells[row][engines.index(each.name)].isdigit(), (row, each.name)
