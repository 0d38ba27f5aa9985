"""`chary findings`: all that was published, together."""

import json

import pytest

from chary.cli import output

ROWS = "--unit patient --columns patient=BIGINT,clinic=VARCHAR"
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6"


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    rows = [f"{patient},{'abc'[patient % 3]}" for patient in range(9000)]
    path.write_text("patient,clinic\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def watched(call, visits):
    asked = f"release-if {visits} {ROWS} --count --by clinic --keys a,b,nowhere --above 100 {BUDGET} --epsilon 0.02"
    code, out, err = call(f"{asked} --json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_watch_tells_intervals_of_each_and_of_all(watched):
    first = next(row for row in watched["above"] if row["key"] == ["a"])
    assert first["low_together"] <= first["low"] < first["value"] < first["high"] <= first["high_together"]
    assert 0 < first["p_value"] < 0.01
    assert (first["caution"], watched["error_bar"]) == (None, None)


def test_all_that_was_published_and_what_to_act_on(call, visits, watched):
    code, out, err = call(f"findings {visits} {ROWS} --fdr 0.1 --json")
    figures = json.loads(out)
    assert (code, err, figures["tests"], figures["procedure"]) == (0, "", 3, "online")
    assert "10 %" in figures["guarantee"]
    acted = {row["key"] for row in figures["findings"] if row["act_on"]}
    assert acted >= {"a", "b"}
    assert [row["low"] for row in figures["findings"]] == [row["low"] for row in watched["above"]]
    assert all(row["low_together"] <= row["low"] for row in figures["findings"])
    fixed = json.loads(call(f"findings {visits} {ROWS} --tests 3 --fdr 0.1 --procedure benjamini-hochberg --json")[1])
    assert fixed["procedure"] == "benjamini-hochberg"
    assert "findings" in call(f"findings {visits} {ROWS}")[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--confidence 1", "confidence"),
        ("--tests 2", "at least --tests 3"),
        ("--fdr 2", "fdr"),
        ("--fdr 0.1 --procedure hope", "procedure is one of"),
        ("--run 2", "opened no run"),
    ],
)
def test_bad_options(call, visits, watched, options, told):
    code, out, err = call(f"findings {visits} {ROWS} {options} --json")
    assert (code, out) == (2, "")
    assert told in err


def test_an_ordinary_release_is_neither_a_hit_nor_to_be_acted_on(call, visits, watched):
    asked = f"release {visits} {ROWS} --count --by clinic --keys a,b --assumed-groups-per-unit 1 --epsilon 0.01 --json"
    released = json.loads(call(asked)[1])
    assert all(row["low"] < row["value"] < row["high"] for row in released["values"])
    assert "not for all rows" in released["interval_says"]
    told = json.loads(call(f"findings {visits} {ROWS} --fdr 0.1 --json")[1])
    assert (told["values"], told["hits"]) == (watched["hits"] + 2, watched["hits"])
    assert [row["act_on"] for row in told["findings"][-2:]] == [None, None]


def test_the_ledger_says_what_the_rows_say(call, visits, watched):
    """Wherever a ledger is read, its rows name it too, and the other way round."""
    told = call(f"findings {visits} {ROWS} --fdr 0.1 --json")
    assert call(f"findings {visits}.ledger --fdr 0.1 --json") == told
    assert call(f"findings {visits}.ledger --dataset visits --fdr 0.1 --json") == told
    assert call(f"findings {visits}.ledger --dataset nobody") == (
        2,
        "",
        "chary: name one dataset of this ledger by --dataset; it holds visits\n",
    )
    assert call(f"findings {visits}.ledger --run 2")[0] == 2
    for line in ("ledger show {} --json", "ledger verify {}", "ledger head {}", "ledger export {}"):
        shown = call(line.format(f"{visits}.ledger"))
        assert shown[0] == 0
        assert call(line.format(visits)) == shown
    assert call(f"advise {visits} --tests 10 --hits 2")[1] == call(f"advise {visits}.ledger --tests 10 --hits 2")[1]
    assert call(f"report {visits} --md")[0] == 0
    assert visits.with_name("visits.csv.ledger.md").exists()


def test_a_dataset_of_a_chary_toml_names_its_ledger(call, visits, watched, tmp_path):
    (tmp_path / "books").mkdir()
    visits.with_name("visits.csv.ledger").rename(tmp_path / "books" / "one.ledger")
    (tmp_path / "chary.toml").write_text('[dataset.clinic]\nfile = "visits.csv"\nledger = "books/one.ledger"\n')
    for named in ("clinic", "visits.csv"):
        assert json.loads(call(f"ledger show {named} --json")[1])[0]["dataset"] == "visits"
    assert "no ledger nothing" in call("ledger show nothing")[2]


def test_tables_fit_a_narrow_terminal(call, visits, watched, monkeypatch):
    monkeypatch.setattr("chary.cli.output.console.width", 80)
    for line in (f"findings {visits} {ROWS} --fdr 0.1", f"findings {visits} {ROWS}"):
        out = call(line)[1]
        row = next(line for line in out.splitlines() if " a " in line)
        assert " to " in row.split(" a ")[1]
        assert len(row) <= 80
        assert "low_together" not in out


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_a_narrow_terminal_loses_no_column_and_breaks_no_date(monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", str(width))
    columns = ["call", "key", "value", "interval", "caution", "together", "act on", "a name of several words"]
    row = [2, "2012-01-01", 290, "207 to 373", "may be false", "156 to 424", "yes", "several words that may break"]
    output.show_table(columns, [row], "findings")
    told = capsys.readouterr().out
    for text in (*columns[:-1], *map(str, row[:-1])):
        assert text in told
    assert "".join(told.split()).count("break") == 1
