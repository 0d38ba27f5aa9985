"""`chary.toml`: what is said once, who wins, and what is refused."""

import json

import duckdb
import pytest

import chary
from chary.cli import run
from chary.cli.config import KINDS
from chary.config import RowOptions
from tests.cli.kit import SECRET

TOML = """
budget-delta = "1e-6"
plots = "pictures"

[dataset.visits]
file = "visits.csv"
unit = "patient_id"
budget-epsilon = 1
columns = {age = "BIGINT"}
keys = {clinic = ["a", "b", "c"], age = "1..3"}
ledger = "books.ledger"

[dataset.other]
file = "other.csv"
row-level = true
neighbors = "replace"
budget-epsilon = 2.50
"""
KEYED = "--count --by clinic --above 1000 --max-groups-per-unit 1 --hits 10"


@pytest.fixture
def toml(tmp_path):
    def write(text, folder="."):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "chary.toml").write_text(text)

    return write


@pytest.fixture
def held(call):
    """What `chary config` tells: values and origins by option."""

    def ask(line):
        code, out, err = call(f"config {line} --json")
        assert (code, err) == (0, ""), err
        told = json.loads(out)
        return {row["option"]: (row["value"], row["from"]) for row in told["options"]}

    return ask


def test_nothing_is_repeated(call, visits, toml, tmp_path):
    toml(TOML)
    code, out, err = call(f"release-if visits.csv {KEYED} --json")
    assert (code, err) == (0, "")
    assert {hit["key"][0] for hit in json.loads(out)["above"]} == {"a", "b", "c"}
    assert (tmp_path / "books.ledger").exists()
    code, out, _ = call("test visits --count --above 10 --hits 10 --json")
    assert (code, json.loads(out)["above"]) == (0, True)
    calls = json.loads(call("ledger show books.ledger --json")[1])
    assert [(each["dataset"], each["epsilon"], len(each["calls"])) for each in calls] == [("visits", 1, 2)]


def test_each_file_has_its_own_and_all_have_what_is_shared(held, visits, toml):
    toml(TOML)
    visits.with_name("other.csv").write_text(visits.read_text())
    one, other = held("visits.csv"), held("other.csv")
    assert (one["unit"], one["neighbors"]) == (("patient_id", "chary.toml"), ("add_remove", "default"))
    assert (other["row-level"], other["neighbors"]) == ((True, "chary.toml"), ("replace", "chary.toml"))
    assert other["budget-epsilon"] == ("2.50", "chary.toml")
    assert one["budget-delta"] == other["budget-delta"] == ("1e-6", "chary.toml")
    assert one["keys.clinic"] == ('"a","b","c"', "chary.toml")
    assert "unit" not in other
    assert "unit" not in held("other.csv --no-config")


def test_what_is_typed_wins(held, visits, toml):
    toml(TOML)
    assert held("visits --budget-epsilon 3")["budget-epsilon"] == ("3", "command line")
    typed = held("visits --row-level")
    assert typed["row-level"] == (True, "command line")
    assert "unit" not in typed
    assert "columns" not in held("visits --infer-types")


def test_it_is_looked_for_here_then_beside_the_file_or_named(held, call, visits, toml, tmp_path):
    (tmp_path / "far").mkdir()
    far = visits.rename(tmp_path / "far" / "visits.csv")
    toml('unit = "beside"\n[dataset.visits]\nfile = "visits.csv"\nledger = "l"', "far")
    assert held(far)["unit"] == ("beside", str(tmp_path / "far" / "chary.toml"))
    assert held("far/visits.csv")["ledger"] == ("far/l", "far/chary.toml")
    toml('unit = "here"')
    assert held(far)["unit"] == ("here", "chary.toml")
    toml('unit = "named"', "else")
    assert held(f"{far} --config else/chary.toml")["unit"] == ("named", "else/chary.toml")
    assert call(f"config {far} --config nowhere.toml")[0] == 2
    assert call(f"config {far} --config else/chary.toml --no-config")[0] == 2


def test_what_the_ledger_recorded_need_not_be_said_and_must_agree(call, held, visits, toml):
    visits.write_text(visits.read_text().replace(",", ";"))
    written = "--csv-format delimiter=; --csv-format quote="
    first = f"test {visits} --row-level --neighbors replace --infer-types {written} --count"
    assert call(f"{first} --above 10 --hits 10 --budget-epsilon 1 --budget-delta 1e-6")[0] == 0
    recorded = held(visits)
    assert recorded["row-level"] == (True, "ledger")
    assert recorded["neighbors"] == ("replace", "ledger")
    assert recorded["csv-format"] == (["delimiter=;", "quote="], "ledger")
    assert recorded["infer-types"] == (True, "ledger")
    assert call(f"test {visits} --count --where age>=65 --above 10 --hits 10")[0] == 0
    code, _, err = call(f"test {visits} --unit patient_id --count --above 10 --hits 10")
    assert (code, "holds" in err) == (2, True)
    toml("row-level = true\nneighbors = 'replace'\nbudget-epsilon = 2\nbudget-delta = 1e-6")
    code, _, err = call(f"test {visits} --count --above 10 --hits 10")
    assert (code, "holds this dataset under epsilon 1" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("budget-eps = 1", "the nearest is 'budget-epsilon'"),
        ("[dataset.x]\nfile = 'x.csv'\ncolumn = 'age'", "the nearest is 'columns'"),
        ("file = 'visits.csv'", "there is no option 'file'"),
        ("request = 'a'", "there is no option 'request'"),
        ("row_level = 1", "row-level: input should be a valid boolean"),
        ("budget-epsilon = true", "budget-epsilon: must be a text or a number"),
        ("sensitivity = '1'", "sensitivity: input should be a valid integer"),
        ("keys = 'a'", "keys: input should be"),
        ("dataset = 1", "datasets are tables"),
        ("budget-epsilon", "chary.toml is no TOML (at"),
        ("budget-epsilon = inf", "epsilon"),
        ("budget-epsilon = 1\ncsv-format = ['nothing=1']", "csv-format has no 'nothing'"),
    ],
)
def test_what_is_no_setting_is_refused_in_one_line(call, visits, toml, text, told):
    toml(text)
    code, out, err = call(f"test {visits} --row-level --count --above 1 --hits 1 --budget-delta 0")
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert not visits.with_name("visits.csv.ledger").exists()


def test_a_data_file_that_is_named_as_settings_is_not_shown(call, visits):
    visits.with_name("odd.csv").write_bytes(b"\xff\xfe" + SECRET.encode())
    for name in (visits.name, "odd.csv"):
        code, _, err = call(f"config {visits} --config {name}")
        assert (code, SECRET in err, "patient" in err) == (2, False, False)


def test_pictures_go_to_their_folder(call, visits, toml, tmp_path):
    toml(TOML)
    (tmp_path / "pictures").mkdir()
    visits.with_name("other.csv").write_text(visits.read_text())
    line = "pmw other --infer-types --alpha 0.2 --values clinic=a,b,c --epsilon 0.05 --where clinic='a'"
    code, _, err = call(f"{line} --plot shares.svg")
    assert (code, (tmp_path / "pictures" / "shares.svg").exists()) == (0, True), err
    assert call(f"{line} --plot ./nowhere/shares.svg")[0] == 2


def test_keys_of_a_file_are_found_from_the_settings(call, visits, toml, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "clinics.txt").write_text("a\nb\n")
    toml(
        f'[dataset.v]\nfile = "{visits}"\nunit = "patient_id"\ncolumns = {{}}\nkeys = {{clinic = "@clinics.txt"}}',
        "sub",
    )
    line = "release v --count --by clinic --max-groups-per-unit 1 --budget-epsilon 1 --epsilon 0.1 --json"
    code, out, err = call(f"{line} --config sub/chary.toml")
    assert code == 0, err
    assert [row["key"] for row in json.loads(out)["values"]] == [["a"], ["b"]]
    assert "one --keys for each column" in call(f"{line.replace('clinic', 'age')} --config sub/chary.toml")[2]


def test_init_writes_what_is_typed_and_then_nothing_is_repeated(call, held, visits, tmp_path):
    typed = "--unit patient_id --columns age=BIGINT --budget-epsilon 1 --budget-delta 1e-6 --ledger books.ledger"
    code, out, err = call(f"init visits.csv {typed} --csv-format delimiter=, --json")
    assert (code, err) == (0, "")
    assert json.loads(out)["dataset"] == "visits"
    assert held("visits")["csv-format"] == (["delimiter=,"], "chary.toml")
    assert call("test visits --count --where age>=65 --above 10 --hits 10")[0] == 0
    before = (tmp_path / "chary.toml").read_text()
    visits.with_name("new.csv").write_text("age\n1\n")
    wrong = [
        "nothing.csv --row-level",
        "new.csv",
        "new.csv --row-level --columns= --budget-epsilon 0",
        "new.csv --row-level --columns age",
    ]
    for line in (
        f"visits.csv {typed}",
        *wrong,
        "new.csv --row-level --unit age",
        "new.csv --row-level --columns= --csv-format no=1",
    ):
        assert call(f"init {line}")[0] == 2
    assert (tmp_path / "chary.toml").read_text() == before
    visits.with_name("o'ther \".csv").write_text(visits.read_text())
    assert run(["init", "o'ther \".csv", "--row-level", "--columns=", "--budget-epsilon", "1"]) == 0
    assert run(["config", "o'ther \".csv"]) == 0
    assert run(["init", "o'ther \".csv", "--row-level"]) == 2


@pytest.mark.parametrize("line", ["config nothing", "test nothing --count --above 3 --hits 2", "findings nothing"])
def test_a_name_that_is_none_is_refused_with_those_that_are(call, visits, toml, line):
    told = call(line)
    assert told[:2] == (2, "")
    assert "no dataset 'nothing'; there is no chary.toml that names datasets" in told[2]
    toml(TOML)
    code, out, err = call(line)
    assert (code, out) == (2, "")
    assert "no dataset 'nothing'; chary.toml names visits, other" in err


def test_a_ledger_is_not_taken_for_rows(call, visits):
    assert call(f"test {visits} --row-level --columns= --count --above 10 --hits 2 --budget-epsilon 1")[0] == 0
    code, out, err = call("config visits.csv.ledger")
    assert (code, out) == (2, "")
    assert "visits.csv.ledger is a ledger: name the rows it is of, visits.csv" in err


@pytest.mark.parametrize(("table", "name"), [("stops", "stops"), ("days", "stops.days")])
def test_a_table_that_is_named_as_its_file_is_not_named_twice(call, tmp_path, table, name):
    with duckdb.connect("stops.duckdb") as database:
        database.execute(f"CREATE TABLE {table} AS SELECT * FROM range(100)")
    code, out, _ = call(f"init stops.duckdb --table {table} --row-level --json")
    assert (code, json.loads(out)["dataset"]) == (0, name)
    assert call(f"test {name} --count --above 10 --hits 2 --budget-epsilon 1")[0] == 0
    assert json.loads(call(f"ledger show {name} --json")[1])[0]["dataset"] == name


def test_a_ledger_that_names_a_table_twice_is_gone_on_with(call, tmp_path):
    with duckdb.connect("stops.duckdb") as database:
        database.execute("CREATE TABLE stops AS SELECT * FROM range(100)")
    rows = {"privacy_unit": None, "table": "stops", "ledger": "stops.duckdb.ledger"}
    with chary.open("stops.duckdb", **rows, budget=chary.Budget(1), dataset="stops.stops") as session:
        session.release(chary.count(), epsilon="0.5")
    with chary.open("stops.duckdb", **rows) as session:
        assert len(session.history) == 1
    assert call("release stops.duckdb --table stops --count --epsilon 0.1")[0] == 0


def test_people_see_a_table(call, visits, toml):
    toml(TOML)
    code, out, _ = call("config visits")
    assert (code, "command line" in out, "chary.toml" in out, "patient_id" in out) == (0, False, True, True)


VALUES = [
    "1",
    "-1",
    "2.5",
    "nan",
    "true",
    "'x'",
    "''",
    "[]",
    "{}",
    "['a', 'b']",
    "[1, {a = 1}]",
    "{a = [1], b = 2026-03-31}",
]
VALUES += ["2026-03-31", "{age = 'BIGINT'}", "{delimiter = ';', header = false}", "'a=b'", "'\\u0000'"]


@pytest.mark.parametrize("name", sorted(RowOptions.model_fields))
def test_any_value_of_any_option_is_taken_or_refused_in_one_line(call, visits, toml, name):
    for value in VALUES:
        toml(f"{name} = {value}")
        for line in ("config", "test --count --above 10 --budget-delta 1e-6"):
            command, *rest = line.split(" ", 1)
            code, _, err = call(f"{command} {visits} {' '.join(rest)}")
            assert code in (0, 2)
            assert (len(err.strip().splitlines()), SECRET in err) == ((0 if code == 0 else 1), False), (value, err)


def test_every_option_that_may_be_kept_is_one_of_a_chary_toml():
    assert KINDS.keys() <= RowOptions.model_fields.keys()


def test_init_asks_for_the_types_of_a_csv(call, visits, tmp_path):
    code, _, err = call("init visits.csv --unit patient_id --budget-epsilon 1")
    assert (code, '--columns age=BIGINT,day=DATE, or --columns "" if all are text' in err) == (2, True)
    assert not (tmp_path / "chary.toml").exists()
    assert call("init visits.csv --unit patient_id --budget-epsilon 1 --columns=")[0] == 0
    assert call("release visits --count --epsilon 0.1")[0] == 0
