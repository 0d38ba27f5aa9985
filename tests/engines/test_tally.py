"""The reporter of what was compared."""

from tests.engines.tally import Tally, written


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
