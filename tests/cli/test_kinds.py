"""`chary ask FILE KIND` and `chary quote FILE KIND`, each as some kinds are asked; all of them are in conformance."""

import json
import os
import subprocess
import sys

import pytest

import chary
from chary import Budget
from chary.calls import Widen
from chary.cli.answers import figures
from tests.cli.kit import BUDGET, KEYED, PUBLIC, SMALL, UNITS


def test_a_withheld_outcome_is_widened_by_its_number(call, visits):
    code, out, _ = call(f"ask {visits} release-if {UNITS} {BUDGET} --count --above 100000 {SMALL} --json")
    held = json.loads(out)
    assert (code, held["published"], held["value"]) == (0, False, None)
    line = f"ask {visits} widen {UNITS} --held {held['held']} --above 10 --request one --json"
    code, out, _ = call(line)
    revised = json.loads(out)
    assert (code, revised["published"]) == (0, True)
    given = {"privacy_unit": "patient_id", "infer_types": True, "budget": Budget(1, "1e-6")}
    with chary.open(str(visits), **given, ledger=f"{visits}.ledger") as session:
        assert figures(session.ask(Widen(held["held"], above=10), request="one"), "widen").items() <= revised.items()
    assert call(line.replace("--above 10", "--above 200000"))[0] == 2


def test_rows_are_written_as_csv(call, visits, tmp_path):
    line = f"release {visits} {UNITS} {KEYED} --max-groups-per-unit 1 {SMALL} {BUDGET} --output"
    code, _, err = call(f"{line} answer.csv")
    assert (code, err) == (0, "")
    lines = (tmp_path / "answer.csv").read_text().splitlines()
    assert lines[0] == "key,value,low,high"
    assert [row.split(",")[0] for row in lines[1:]] == ["a", "b", "c"]
    before = visits.read_text()
    for place in (visits, "nowhere/answer.csv"):
        assert call(f"{line} {place}")[0] == 2
    assert visits.read_text() == before
    assert call(f"test {visits} {UNITS} --count --above 1 --hits 10 --output one.csv")[0] == 0
    assert (tmp_path / "one.csv").read_text().splitlines()[0].split(",")[0] == "above"


def test_keys_are_read_from_a_file(call, visits, tmp_path):
    (tmp_path / "clinics.txt").write_text('a\nb, and more\n"c"\n\n')
    line = f"release {visits} {UNITS} --count --by clinic --keys @clinics.txt --max-groups-per-unit 1"
    line += f" {SMALL} {BUDGET} --json"
    code, out, err = call(line)
    assert (code, err) == (0, "")
    assert [row["key"] for row in json.loads(out)["values"]] == [["a"], ["b, and more"], ["c"]]
    assert call(line.replace("@clinics", "@nothing"))[0] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ask visits.csv", "a kind comes after the file"),
        ("ask visits.csv --count", "a kind comes after the file"),
        ("ask visits.csv schedule", "there is no kind of call named 'schedule'"),
        ("ask visits.csv nothing", "chary ask --help lists all"),
        ("ask visits.csv label", "ask it in Python"),
        ("ask visits.csv rerun", "chary rerun --help"),
        ("ask visits.csv relase", "no kind of call named 'relase'; did you mean release?"),
        ("quote visits.csv relase --count", "no kind of call named 'relase'; did you mean release?"),
        ("quote relase visits.csv --count", "no kind of call named 'relase'; did you mean release?"),
        ("quote visits nothing --count", "no kind of call named 'nothing'; chary ask --help lists all"),
    ],
)
def test_a_kind_is_named(call, line, told):
    code, out, err = call(line)
    assert (code, out, told in err) == (2, "", True)


@pytest.mark.parametrize(
    ("typed", "found"),
    [("chary qu", "quote"), ("chary ask visits.csv prepaid", "prepaid-tests"), ("chary ask f.csv top-k --ga", "--gap")],
)
def test_the_shell_completes(typed, found):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_CHARY_COMPLETE": "complete_bash"}
    line = [sys.executable, "-c", "import sys; sys.argv[0] = 'chary'; from chary.cli import main; main()"]
    done = subprocess.run(line, env=os.environ | words, capture_output=True, text=True, check=True)
    assert found in done.stdout.split()


def test_a_size_that_is_missing_is_told_by_its_option(call, visits):
    for kind, more in (("sparse-vector", "--above 3 --hits 2"), ("majority", "--condition age>3")):
        code, _, err = call(f"ask {visits} {kind} {PUBLIC} {more} {BUDGET}")
        assert (code, f"{kind} has no default cost: give --epsilon 0.02, as in: chary ask" in err) == (2, True)


def test_hits_pay_for_sharp_tests_as_in_a_program(call, visits):
    budget = "--budget-epsilon 1 --budget-delta 1e-6"
    asked = f"quote {visits} release-if --unit patient_id --columns= --count --by clinic --keys a,b,c --above 1900"
    ways = ("--hits 20", "--hits 20 --tests 100", "--hits 20 --value-share 0.4", "--hits 10", "--epsilon 0.02")
    sharp, together, fresh, fewer, laplace = (json.loads(call(f"{asked} {budget} {way} --json")[1]) for way in ways)
    assert {found["epsilon"] for found in (sharp, together, fresh, fewer)} == {None}
    prices = [found["price_if_hit"] for found in (sharp, together, fewer)]
    assert prices == pytest.approx([1 / 20, 1 / 20, 1 / 10], rel=1e-6)
    assert fresh["error_bar"] < together["error_bar"] == sharp["error_bar"]
    assert laplace["epsilon"] == 0.02
    exact = json.loads(call(f"{asked} {budget} --filter exact --hits 20 --json")[1])
    assert exact["epsilon"] > 0
    assert call(f"{asked} {budget} --filter exact --hits 20 --tests 100")[0] != 0


@pytest.mark.parametrize("kind", ["test", "release-if"])
def test_a_question_a_quote_and_a_program_mean_the_same_by_hits(call, visits, kind):
    common = f"--unit patient_id --columns= --count --above 1900 {BUDGET} --hits 20 --ledger {visits}.{kind}"
    quoted = json.loads(call(f"quote {visits} {kind} {common} --json")[1])
    question = json.loads(call(f"quote {visits} {common} --json")[1])
    assert quoted["price_if_hit"] == pytest.approx(question["price_if_hit"]) == pytest.approx(1 / 20, rel=1e-6)
    assert (quoted["epsilon"], question["epsilon"]) == (None, None)
    answered = json.loads(call(f"ask {visits} {kind} {common.replace('1900', '0')} --json")[1])
    assert answered["spent"]["share"] == pytest.approx(1 / 20, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("on-change", "--step 50"),
        ("classify", "--low 10 --high 3000"),
        ("classify", "--above 1900"),
        ("classify", "--by clinic --keys a,b,c"),
        ("greedy", "--by clinic --keys a,b,c --above 1900"),
        ("select", "--by clinic --keys a,b,c --above 1900"),
    ],
)
def test_all_commands_that_test_say_how_sharply_in_the_same_words(call, visits, kind, asked):
    common = f"quote {visits} {kind} --unit patient_id --columns= --count {asked} {BUDGET} --json"
    ways = ("--hits 20", "--price 1/25", "--hits 10", "--within 700 --tests 50", "--epsilon 0.02")
    hits, price, fewer, within, laplace = (json.loads(call(f"{common} {way}")[1]) for way in ways)
    far_behind = kind == "classify" and "--by" in asked  # might be named by a sharp choice
    by_hits = [] if far_behind else [hits, fewer]
    sharp = [found["epsilon"] for found in (*by_hits, price, within)]
    assert sharp == [None] * (len(by_hits) + 2) or kind == "on-change"
    value = 1 / 4 if kind == "on-change" else 1
    prices = [found["price_if_hit"] for found in (*by_hits, price)]
    assert prices == pytest.approx([value / 20, value / 10, value / 25][-len(prices) :], rel=1e-6)
    assert 0 < within["price_if_hit"] < 1 / 10
    assert laplace["epsilon"] >= 0.02
    pure = json.loads(call(f"{common} --filter pure --hits 20")[1])
    assert pure["epsilon"] > 0


def test_a_size_of_its_own_is_laplace_noise(call, visits):
    asked = (
        f"quote {visits} release-if --unit patient_id --columns= --count --by clinic --keys a,b,c --above 1900 {BUDGET}"
    )
    code, _, told = call(f"{asked} --epsilon 0.1 --tests 100")
    assert (code, "belongs to an optimal test" in told) == (2, True)
