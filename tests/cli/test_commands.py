"""Every command as a user types it: figures, exit codes, messages without data."""

import csv
import gzip
import json
import math
import re
import sqlite3
from dataclasses import asdict
from datetime import date, timedelta

import pytest

from chary.accounting import exact_total
from chary.accounting.sharp_widths import laplace_width, sharp_menu
from chary.numbers import percent
from tests.cli.kit import SECRET


def test_charging_keys(call):
    code, out, _ = call("account charging --epsilon 0.1 --hits 5 --budget-delta 1e-6 --json")
    figures = json.loads(out)
    assert code == 0
    assert list(figures) == ["exact", "exact_tail", "published"]
    assert figures["exact"] == exact_total(epsilon_per_call=0.1, hits=5, delta=1e-6)
    _, out, _ = call("account charging --epsilon 0.1 --hits 5 --budget-delta 1e-6 --q 0.3 --json")
    assert json.loads(out)["exact"] > figures["exact"]


def test_price_is_null_where_none_exists(call):
    assert json.loads(call("account price --order 10 --epsilon 0.05 --json")[1]) == {
        "price": pytest.approx(0.459936399286, rel=1e-9)
    }
    assert json.loads(call("account price --order 4 --epsilon 0.2 --q 0.28 --json")[1]) == {"price": None}


def test_compose_keys(call):
    figures = json.loads(call("account compose --epsilon 0.1 --times 100 --budget-delta 1e-6 --json")[1])
    assert list(figures) == ["basic", "advanced", "zcdp", "renyi", "optimal"]
    assert figures["zcdp"] == pytest.approx(0.5 + 0.1 * math.sqrt(200 * math.log(1e6)))


def test_plan(call):
    found = json.loads(call("plan --budget-epsilon 1 --budget-delta 1e-6 --hits 50 --json")[1])["epsilon_per_call"]
    assert exact_total(epsilon_per_call=found, hits=50, delta=1e-6) <= 1
    assert len(json.loads(call("plan --budget-epsilon 1 --budget-delta 1e-6 --json")[1])) == 9
    assert "largest epsilon of a test" in call("plan --budget-epsilon 1 --budget-delta 1e-6")[1]


def test_a_plan_for_tests_is_a_menu(call):
    told = json.loads(call("plan --budget-epsilon 1 --budget-delta 1e-6 --tests 100 --value 0.1 --json")[1])
    assert [plan["hits"] for plan in told] == [1, 2, 5, 10, 20, 50, 100]
    plain = json.loads(call("plan --budget-epsilon 1 --budget-delta 1e-6 --json")[1])
    choices = sharp_menu(epsilon=1, delta="1e-6", tests=100, value="0.1")
    for plan, usual, choice in zip(told, plain, choices, strict=False):
        assert plan["laplace"] == laplace_width(usual["epsilon_per_call"], tests=100)
        assert {name: plan[name] for name in usual} == usual
        assert {name: plan[name] for name in asdict(choice)} == asdict(choice)
    told = call("plan --budget-epsilon 1 --budget-delta 1e-6 --tests 100")[1]
    assert "error" in told  # the heads of columns break where a terminal is narrow
    assert "values" in told


def test_watch_charges_its_ledger(call, visits):
    asked = (
        f"release-if {visits} --unit patient_id --columns= --count --by clinic --keys a,b,c,d --max-groups-per-unit 1 "
        "--above 1000"
    )
    code, out, err = call(f"{asked} --budget-epsilon 1 --budget-delta 1e-6 --hits 5 --json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert {hit["key"][0] for hit in figures["above"]} == {"a", "b", "c"}
    assert (figures["tested"], figures["hits"], figures["untested"]) == (4, 3, 0)
    spent = figures["spent"]["share"]
    assert 0.1 < spent <= 0.2
    code, out, _ = call(f"ledger show {visits}.ledger --json")
    assert json.loads(out)[0]["spent"]["share"] == spent
    assert call(f"ledger verify {visits}.ledger --json")[0] == 0
    lines = call(f"ledger export {visits}.ledger")[1].splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["open", "reserve", "settle"]
    told = call(f"ledger show {visits}.ledger")[1]
    assert f"{visits}.ledger" not in told
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told)
    assert percent(spent) in told


def test_test_release_and_quote_share_one_budget(call, visits):
    common = (
        f"{visits} --unit patient_id --columns age=BIGINT,cost=DOUBLE --budget-epsilon 2 --budget-delta 1e-6 --json"
    )
    code, out, _ = call(f"test {common} --count --above 100 --hits 10", "--where", "age >= 65")
    assert (code, json.loads(out)["above"]) == (0, True)
    code, out, _ = call(f"test {common} --count --above 100 --value --hits 10", "--where", "age >= 65")
    assert abs(json.loads(out)["value"] - 2100) < 1000
    code, out, _ = call(f"release {common} --mean cost --bounds 0,50 --max-rows-per-unit 1 --epsilon 0.2")
    assert 15 < json.loads(out)["value"] < 35
    code, out, _ = call(f"quote {common} --count --above 100 --hits 10")
    quoted = json.loads(out)
    assert (code, quoted["price_if_miss"], quoted["fits"]) == (0, 0, True)
    assert len(json.loads(call(f"ledger show {visits}.ledger --json")[1])[0]["calls"]) == 3


def test_a_repeated_request_is_free_and_identical(call, visits):
    budget = "--budget-epsilon 1 --budget-delta 1e-6"
    asked = f"release {visits} --row-level --count --epsilon 0.1 {budget} --request first --json"
    assert call(asked)[1] == call(asked)[1]


def test_an_exhausted_budget_leaves_with_3(call, visits):
    asked = f"release {visits} --columns= --row-level --count --budget-epsilon 1 --budget-delta 1e-6"
    code, out, err = call(f"{asked} --epsilon 5")
    assert (code, out) == (3, "")
    assert "would fit" in err
    assert not visits.with_name(f"{visits.name}.ledger").exists()


def test_groups_by_a_derived_column(call, visits):
    rows = f"{visits} --unit patient_id --columns age=BIGINT --budget-epsilon 200"
    asked = f"release {rows} --count --keys 0..2 --max-groups-per-unit 1 --epsilon 50"
    code, out, err = call(f"{asked} --json --by", "age % 3")
    assert (code, err) == (0, "")
    assert [each["value"] for each in json.loads(out)["values"]] == [2040, 1980, 1980]
    code, out, err = call(f"{asked} --keys b,a --by", "age % 3,CASE WHEN clinic = 'a' THEN clinic ELSE 'b' END")
    assert (code, err) == (0, "")
    code, _, err = call(f"{asked} --by", "Age%3")
    assert (code, SECRET in err) == (2, False)
    code, _, err = call(f"{asked} --by", "age%3")
    assert code == 2
    assert "a derived column is written 'age % 3'" in err


@pytest.mark.parametrize(
    "line",
    [
        "release-if {} --unit patient_id --count --by clinic --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "release-if {} --unit patient_id --count --by nowhere --keys a --above 3 --budget-epsilon 1",
        "release-if {} --unit patient_id --count --by age --keys a --columns age=BIGINT --above 3 --budget-epsilon 1",
        "test {} --count --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "test {} --unit patient_id --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "test {} --unit patient_id --count --above nan --budget-epsilon 1 --budget-delta 1e-6",
        "test {} --unit patient_id --count --above 3 --budget-epsilon 0 --budget-delta 1e-6",
        "test {} --unit patient_id --count --above 3 --budget-epsilon 1 --budget-delta 2",
        "test {} --unit patient_id --count --above 3",
        "test {} --unit patient_id --sum cost --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "test {} --unit patient_id --sum cost --bounds 0,50 --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "test {} --unit patient_id --count --where cost>(select+1) --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "test {}x --unit patient_id --count --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "release {} --unit patient_id --count --budget-epsilon 1 --budget-delta 1e-6",
        "release-if {} --series cost --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "release-if {} --series clinic --sensitivity 1 --above 3 --budget-epsilon 1 --budget-delta 1e-6",
        "ledger show nothing.ledger",
        "ledger show {}",
        "plan --budget-epsilon nan --budget-delta 1e-6 --hits 3",
        "plan --budget-epsilon 1 --budget-delta 1e-6 --tests 0",
        "plan --budget-epsilon 1 --budget-delta 1e-6 --tests 9 --value 1",
        "plan --budget-epsilon 1 --budget-delta 1e-6 --hits 3 --tests 9",
        "account price --order 1 --epsilon 0.1",
        "account nothing",
        "nothing",
    ],
)
def test_bad_input_leaves_with_2_and_no_data(call, visits, line):
    code, out, err = call(line.format(visits))
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")
    assert SECRET not in err
    assert len(err.strip().splitlines()) == 1
    assert not visits.with_name(f"{visits.name}.ledger").exists()


def test_a_file_that_is_no_ledger_is_told_broken_and_nothing_of_it_is_shown(call, visits):
    code, out, err = call(f"ledger verify {visits}")
    assert (code, err, "nothing could be verified" in out) == (2, "", True)
    assert SECRET not in out


def test_a_quote_fixes_no_budget(call, visits):
    asked = f"quote {visits} --columns= --row-level --count --above 10 --hits 10 --budget-delta 1e-6 --budget-epsilon"
    assert (call(f"{asked} 1")[0], call(f"{asked} 2")[0]) == (0, 0)
    assert not visits.with_name(f"{visits.name}.ledger").exists()


def test_a_stream_is_not_opened_for_a_question_that_cannot_be_asked(call, visits):
    budget = "--budget-epsilon 1 --budget-delta 1e-6"
    asked = f"release-if {visits} --columns= --unit patient_id --above 3 {budget} --individual 2 --epsilon 0.01"
    code, _, err = call(f"{asked} --count --where nobody=1 --by clinic --keys a,b")
    assert (code, "nobody" in err) == (2, True)
    assert not visits.with_name(f"{visits.name}.ledger").exists()


def test_another_budget_than_the_ledger_holds(call, visits):
    asked = f"test {visits} --columns= --row-level --count --above 10 --hits 10 --budget-delta 1e-6"
    assert call(f"{asked} --budget-epsilon 1")[0] == 0
    code, _, err = call(f"{asked} --budget-epsilon 2")
    assert code == 2
    assert "holds this dataset under epsilon 1" in err
    assert call(f"test {visits} --columns= --row-level --count --above 10 --hits 10")[0] == 0


def test_a_tampered_ledger_is_reported(call, visits):
    call(f"test {visits} --columns= --row-level --count --above 10 --budget-epsilon 1 --budget-delta 1e-6 --hits 3")
    with sqlite3.connect(f"{visits}.ledger") as connection:
        (trigger,) = connection.execute(
            "select name from sqlite_master where sql like '%entries are final%'"
        ).fetchone()
        connection.execute(f"drop trigger {trigger}")
        connection.execute("update entries set tests = tests + 7 where kind = 'settle'")
    code, out, err = call(f"ledger verify {visits}.ledger --json")
    assert code == 2
    assert not out or not json.loads(out)["ok"] or "chary:" in err


def write_series(path, label, labels, counts):
    rows = "".join(f"{name},{number}\n" for name, number in zip(labels, counts, strict=True))
    path.write_text(f"{label},registered\n{rows}")
    return path


def test_bike_series(call, tmp_path):
    days = [date(2011, 1, 1) + timedelta(day) for day in range(731)]
    counts = [7000 if day % 73 == 5 else 2000 + day * 37 % 4000 for day in range(731)]
    path = write_series(tmp_path / "days.csv", "dteday", days, counts)
    asked = f"release-if {path} --series registered --sensitivity 1 --labels dteday --above 6900"
    asked += f" --ledger {tmp_path}/b.ledger"
    code, out, _ = call(f"{asked} --budget-epsilon 1 --budget-delta 1e-6 --hits 40 --json")
    figures = json.loads(out)
    assert (code, figures["tested"], figures["untested"]) == (0, 731, 0)
    assert all(hit["label"].startswith("201") for hit in figures["above"])
    code, out, _ = call(f"{asked.replace('6900', '10')} --hits 40 --allow-false-alarms --json")
    figures = json.loads(out)
    assert figures["untested"] == 731 - figures["tested"] > 0
    assert figures["hits"] == figures["tested"] > 0


def test_every_hour_of_the_bikes(call, tmp_path):
    path = write_series(tmp_path / "hours.csv", "hour", range(17379), [hour * 37 % 200 for hour in range(17379)])
    asked = f"release-if {path} --series registered --sensitivity 1 --above 900 --ledger {tmp_path}/h.ledger"
    code, out, _ = call(f"{asked} --budget-epsilon 1 --budget-delta 1e-6 --hits 60 --json")
    assert (code, json.loads(out)["tested"]) == (0, 17379)


def test_households_turned_long(call, tmp_path):
    path = tmp_path / "wide.csv.gz"
    days = [f"2013-01-{day:02}" for day in range(1, 32)]
    cold = {"2013-01-18", "2013-01-19", "2013-01-20"}
    homes = [
        [f"home{home}", *("" if home % 50 == int(day[-2:]) else 40.5 if day in cold else home % 36 for day in days)]
        for home in range(600)
    ]
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([["LCLid", *days], *homes])
    rows = "--unit LCLid --unpivot day,kwh --columns kwh=DOUBLE"
    line = f"release-if {path} {rows} --count --by day --keys 2013-01-01..2013-01-31 --above 350"
    budget = f"--budget-epsilon 20 --budget-delta 1e-6 --hits 20 --ledger {tmp_path}/l.ledger --json"
    code, out, _ = call(f"{line} {budget}", "--where", "kwh > 30")
    figures = json.loads(out)
    assert (code, figures["tested"] + figures["untested"]) == (0, 31)
    assert figures["spent"]["share"] == pytest.approx(figures["hits"] / 20, rel=0.01)
    found = {hit["key"][0] for hit in figures["above"]}
    assert found == cold


def test_several_targets_multiply_delta(call):
    line = "account charging --epsilon 0.1 --hits 5 --budget-delta {} --json"
    assert json.loads(call(line.format("3e-6") + " --targets 3")[1]) == json.loads(call(line.format("1e-6"))[1])
    assert call(line.format("3e-6") + " --targets 0")[0] == 2


def test_targets_of_the_toolkit(call):
    q = json.loads(call("account between --epsilon 0.1 --width 100 --json")[1])["q"]
    assert q == pytest.approx((1 - math.exp(-10)) / (math.exp(0.1) + 1), rel=1e-12)
    figures = json.loads(call("account boundary --epsilon 0.02 --order 15 --json")[1])
    assert list(figures) == ["epsilon", "q", "price"]
    assert 0.02 < figures["epsilon"] < 0.02 * 4 / 3
    assert json.loads(call("account boundary --epsilon 0.5 --outcomes 2 --order 15 --json")[1])["price"] is None


BIG = "--unit patient_id --columns patient_id=BIGINT --count --budget-epsilon 1 --budget-delta 1e-6 --json"


def test_clear_answers_are_free(call, visits):
    asked = {
        f"classify {visits} {BIG} --low 100000 --high 200000": ("low",),
        f"classify {visits} {BIG} --above 10": (True,),
        f"classify {visits} {BIG} --where patient_id>10 --by clinic --keys a,b,z": ("boundary", "a", "b"),
    }
    for number, (line, expected) in enumerate(asked.items()):
        code, out, err = call(f"{line} --hits 10 --ledger {visits}.{number}")
        figures = json.loads(out)
        assert (code, err) == (0, "")
        assert figures["class"] in expected
        assert (figures["spent"]["share"] == 0) == (figures["class"] != "boundary")


@pytest.mark.parametrize(
    "line",
    [
        "classify {} --unit patient_id --count --budget-epsilon 1 --budget-delta 1e-6 --low 5 --high 5",
        "classify {} --unit patient_id --count --by clinic --keys a,b --budget-epsilon 1 --budget-delta 1e-6 --above 5",
        "classify {} --unit patient_id --count --budget-epsilon 1 --budget-delta 1e-6",
        "classify {} --unit patient_id --mean cost --bounds 0,50 --max-rows-per-unit 1 --budget-epsilon 1",
    ],
)
def test_questions_without_a_clear_answer(call, visits, line):
    code, out, err = call(line.format(visits))
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")
