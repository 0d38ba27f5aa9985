"""`chary ask FILE KIND` and `chary quote FILE KIND`: one command for each kind of call, made from the calls."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest
import typer

import chary
from chary import Budget, count
from chary.calls import (
    MWEM,
    PMW,
    Choose,
    Classify,
    ContinualCount,
    DistinctSketch,
    GaussianAboveThreshold,
    Greedy,
    GrowingTests,
    Histogram,
    IndividualTests,
    LinearRegression,
    Majority,
    Marginal,
    MostCommon,
    OnChange,
    PrepaidTests,
    PrincipalComponents,
    Proportion,
    Quantile,
    RandomizedValues,
    Release,
    ReleaseIf,
    Select,
    SelfReporting,
    SmallDatabase,
    SparseVector,
    ThresholdTest,
    TopK,
    Widen,
    kinds,
)
from chary.cli.answers import figures
from chary.cli.app import app
from chary.cli.forms import forms
from chary.cli.output import is_table
from tests.calls.samples import BROUGHT
from tests.cli.conftest import SECRET
from tests.session.kit import WORDS_OF_ACCOUNTING

CLINICS = ["a", "b", "c"]
KEYED = "--count --by clinic --keys a,b,c"
KEYS = count().by("clinic", CLINICS)
SEEN = {"age": chary.Bins([0, 50, 100]), "clinic": CLINICS}
CELLS = "--bins age=0,50,100 --values clinic=a,b,c"
EACH = {"assumed_groups_per_unit": 1}
SMALL = "--epsilon 0.01"
SIZE = {"epsilon": "0.01"}
PUBLIC = "--each-row --neighbors replace --infer-types"
UNITS = "--unit patient_id --infer-types"
# For each kind which rows are asked, the options of its command, and the call that a program would make.
CALLS = {
    "above_threshold": (
        PUBLIC,
        "--threshold 50 --threshold-noise 500 --low 0 --high 9000",
        GaussianAboveThreshold(threshold=50, threshold_noise=500, low=0, high=9000),
    ),
    "agreed_tests": (
        UNITS,
        "--tests 500 --hits 20 --part 0.5 --value-share 0.2",
        PrepaidTests(tests=500, hits=20, part="0.5", value="0.2"),
    ),
    "choose": (PUBLIC, f"{KEYED} {SMALL} --mechanism laplace", Choose(KEYS, mechanism="laplace", **SIZE)),
    "classify": (PUBLIC, f"{KEYED} {SMALL}", Classify(KEYS, **SIZE)),
    "continual_count": (
        PUBLIC,
        f"--count --where age>=65 --steps 9 {SMALL}",
        ContinualCount("age>=65", steps=9, **SIZE),
    ),
    "greedy": (PUBLIC, f"{KEYED} --above 1000 {SMALL}", Greedy(KEYS, above=1000, **SIZE)),
    "fraction": (PUBLIC, f"--where age>=65 {SMALL}", Proportion("age>=65", **SIZE)),
    "growing_sparse_vector": (PUBLIC, f"--above 0.5 {SMALL}", GrowingTests(above="0.5", **SIZE)),
    "histogram": (UNITS, f"--column age --bins 0,18,65 {SMALL}", Histogram("age", bins=[0, 18, 65], **SIZE)),
    "individual_stream": (UNITS, f"--hits 2 {SMALL}", IndividualTests(hits=2, **SIZE)),
    "linear_regression": (
        PUBLIC,
        "--response age --range age=0,100 --range cost=0,20 --rho 0.0001",
        LinearRegression("age", {"age": (0, 100), "cost": (0, 20)}, rho="0.0001"),
    ),
    "majority": (
        UNITS,
        f"--condition age>=65 {SMALL} --mechanism inverse",
        Majority("age>=65", mechanism="inverse", **SIZE),
    ),
    "marginal": (
        UNITS,
        f"--values clinic=a,b --values age=1..3 {SMALL} --assumed-groups-per-unit 1",
        Marginal({"clinic": ["a", "b"], "age": [1, 2, 3]}, **SIZE, **EACH),
    ),
    "most_common": (PUBLIC, f"--column clinic --among a,b,c {SMALL}", MostCommon("clinic", among=CLINICS, **SIZE)),
    "multiplicative_weights": (
        PUBLIC,
        f"{CELLS} --alpha 0.2 {SMALL} --no-missing",
        PMW(universe=chary.Universe(SEEN, missing=False), alpha="0.2", **SIZE),
    ),
    "mwem": (
        PUBLIC,
        f"{CELLS} --queries clinic='a' --queries age<50 --rounds 2 {SMALL}",
        MWEM(universe=SEEN, queries=["clinic='a'", "age<50"], rounds=2, **SIZE),
    ),
    "principal_components": (
        PUBLIC,
        "--range age=0,100 --rho 0.0001",
        PrincipalComponents({"age": (0, 100)}, rho="0.0001"),
    ),
    "quantiles": (
        PUBLIC,
        f"--column age --low 0 --high 100 {SMALL}",
        Quantile("age", ["0.25", "0.5", "0.75"], bounds=(0, 100), **SIZE),
    ),
    "randomized_values": (
        PUBLIC,
        f"--column clinic --among a,b,c {SMALL}",
        RandomizedValues("clinic", among=CLINICS, **SIZE),
    ),
    "release": (PUBLIC, "--count --rho 0.0001", Release(count(), rho="0.0001")),
    "release_if": (UNITS, f"{KEYED} --above 1000 {SMALL}", ReleaseIf(KEYS, above=1000, **SIZE)),
    "sketch": (UNITS, f"--where age>=65 --registers 64 {SMALL}", DistinctSketch("age>=65", registers=64, **SIZE)),
    "select": (UNITS, f"{KEYED} --above 1000 {SMALL}", Select(KEYS, above=1000, **SIZE)),
    "self_reporting": (
        PUBLIC,
        f"--threshold 50 --threshold-noise 500 --low 0 --high 9000 --query-sensitivity 1 {SMALL}",
        SelfReporting(threshold=50, threshold_noise=500, low=0, high=9000, sensitivity=1, **SIZE),
    ),
    "small_database": (
        PUBLIC,
        f"{CELLS} --queries clinic='a' --rows 4 {SMALL}",
        SmallDatabase(universe=SEEN, queries=["clinic='a'"], rows=4, **SIZE),
    ),
    "sparse_vector": (
        PUBLIC,
        f"--above 51 --hits 2 {SMALL} --values",
        SparseVector(above=51, hits=2, values=True, **SIZE),
    ),
    "test": (UNITS, f"--count --above 10 {SMALL}", ThresholdTest(count(), above=10, **SIZE)),
    "top": (UNITS, f"{KEYED} --k 2 {SMALL}", TopK(KEYS, k=2, **SIZE)),
    "track": (UNITS, f"--count --step 1000 {SMALL}", OnChange(count(), step=1000, **SIZE)),
}
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6"


def opened(visits, rows, grain=None):
    unit = "patient_id" if rows == UNITS else None
    neighbors = "add_remove" if rows == UNITS else "replace"
    return chary.open(
        str(visits),
        privacy_unit=unit,
        neighbors=neighbors,
        infer_types=True,
        budget=Budget(1, "1e-6"),
        grain=grain,
        ledger=f"{visits}.ledger",
    )


def typed(kind):
    """How a kind is typed."""
    return kinds()[kind].name.replace("_", "-")


def test_every_kind_that_a_command_line_can_state_is_here():
    typed = {name for name, kind in kinds().items() if kind.typed}
    assert {form.kind.kind for form in forms()} == {*CALLS, "widen"} == typed - BROUGHT


@pytest.mark.parametrize("kind", CALLS)
def test_the_command_has_the_answer_of_the_library(call, visits, kind):
    rows, options, same = CALLS[kind]
    code, out, err = call(f"ask {visits} {typed(kind)} {rows} {options} {BUDGET} --request one --json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    with opened(visits, rows) as session:
        calls = len(session.history)
        answer = session.ask(same, request="one")
        assert len(session.history) == calls
        assert found["spent"] == json.loads(json.dumps(session.spent.as_dict()))
    expected = json.loads(json.dumps(figures(answer, kind), default=str))
    assert {name: found[name] for name in expected} == expected
    assert set(found) - set(expected) <= {"spent", "epsilon", "shortfall", "charged", "remaining"}
    assert found["charged"] == pytest.approx(found["spent"]["share"])
    assert found["remaining"] == pytest.approx(1 - found["spent"]["share"])
    assert SECRET not in out
    if not found.get("interval_says", "no interval").startswith("no interval"):
        rows = [row for rows in found.values() if is_table(rows) for row in rows]
        assert any({"low", "high"} <= set(row) for row in (found, *rows))


@pytest.mark.parametrize("kind", CALLS)
def test_any_kind_is_quoted_and_nothing_is_kept(call, visits, kind):
    rows, options, same = CALLS[kind]
    code, out, err = call(f"quote {visits} {typed(kind)} {rows} {options} {BUDGET} --json")
    assert (code, err) == (0, "")
    assert not visits.with_name("visits.csv.ledger").exists()
    with opened(visits, rows, "0.01" if kinds()[kind].by_hits else None) as session:
        assert json.loads(out) == json.loads(json.dumps(session.quote(same).as_dict()))


@pytest.mark.parametrize("kind", [*CALLS, "widen"])
def test_a_kind_tells_what_its_docstring_says_and_what_each_option_means(call, kind):
    code, out, _ = call(f"ask {typed(kind)} --help")
    shown = " ".join(out.replace("│", " ").split())
    (first, *_) = inspect.cleandoc(kinds()[kind].__doc__).splitlines()
    assert code == 0
    assert first in shown
    command = typer.main.get_command(app).commands["ask"].commands[typed(kind)]
    assert all(option.help for option in command.params if option.name != "help")
    assert call(f"ask visits.csv {typed(kind)} -h")[1] == out


@pytest.mark.parametrize("kind", CALLS)
def test_bad_input_leaves_with_2_in_one_line(call, visits, kind):
    rows, options, _ = CALLS[kind]
    wrong = [f"{options} --nothing 1", f"{options} --neighbors sideways"]
    wrong += [options.replace("--epsilon 0.01", "--epsilon nan")] if SMALL in options else []
    wrong += [options.split(" --", 1)[1]] if kind not in ("release", "individual_stream") else []
    for line in wrong:
        code, out, err = call(f"ask {visits} {typed(kind)} {rows} {BUDGET} {line}")
        assert (code, out) == (2, ""), line
        assert err.startswith("chary: ")
        assert len(err.strip().splitlines()) == 1
        assert SECRET not in err
    assert not visits.with_name("visits.csv.ledger").exists()


@pytest.mark.parametrize("kind", ["release", "histogram", "track", "top", "release_if", "quantiles"])
def test_a_budget_that_is_too_small_leaves_with_3(call, visits, kind):
    rows, options, _ = CALLS[kind]
    large = options.replace("--epsilon 0.01", "--epsilon 90").replace("--rho 0.0001", "--epsilon 90")
    code, out, err = call(f"ask {visits} {typed(kind)} {rows} {large} {BUDGET}")
    assert (code, out, "would fit" in err) == (3, "", True)


@pytest.mark.parametrize("kind", ["top", "classify", "choose", "release", "quantiles", "histogram", "track"])
def test_a_short_form_is_the_same_command(call, visits, kind):
    rows, options, _ = CALLS[kind]
    line = f"{visits} {{}} {rows} {options} {BUDGET} --request one --json"
    long = call("ask " + line.format(typed(kind)))
    assert call(f"{typed(kind)} {line.format('')}") == long
    assert long[0] == 0


def test_a_withheld_outcome_is_widened_by_its_number(call, visits):
    code, out, _ = call(f"ask {visits} release-if {UNITS} {BUDGET} --count --above 100000 {SMALL} --json")
    held = json.loads(out)
    assert (code, held["published"], held["value"]) == (0, False, None)
    line = f"ask {visits} widen {UNITS} --held {held['held']} --above 10 --request one --json"
    code, out, _ = call(line)
    revised = json.loads(out)
    assert (code, revised["published"]) == (0, True)
    with opened(visits, UNITS) as session:
        assert figures(session.ask(Widen(held["held"], above=10), request="one"), "widen").items() <= revised.items()
    assert call(line.replace("--above 10", "--above 200000"))[0] == 2


# What follows shows calls to write, with their epsilon.
CALLS_TO_WRITE = "error of all together at the same price"


@pytest.mark.parametrize("kind", CALLS)
def test_people_are_told_prices_and_the_accounting_only_if_they_ask(call, visits, kind):
    rows, options, _ = CALLS[kind]
    line = f"ask {visits} {typed(kind)} {rows} {options} {BUDGET} --request one"
    code, out, err = call(line)
    assert (code, err) == (0, "")
    assert re.search(r"^(charged \S+ %|free), \S+ % left$", out, re.MULTILINE)
    assert not WORDS_OF_ACCOUNTING.search(out)
    for verbose in (f"{line} --verbose", f"--verbose {line}"):
        assert WORDS_OF_ACCOUNTING.search(call(verbose)[1])
    assert call(line)[1] == out
    quoted = call(f"quote {visits} {typed(kind)} {rows} {options} {BUDGET}")[1]
    assert not WORDS_OF_ACCOUNTING.search(quoted.partition(CALLS_TO_WRITE)[0])
    assert "%" in quoted or "free" in quoted


def test_rows_are_written_as_csv(call, visits, tmp_path):
    line = f"release {visits} {UNITS} {KEYED} --max-groups-per-unit 1 {SMALL} {BUDGET} --csv-out"
    code, _, err = call(f"{line} answer.csv")
    assert (code, err) == (0, "")
    lines = (tmp_path / "answer.csv").read_text().splitlines()
    assert lines[0] == "key,value,low,high"
    assert [row.split(",")[0] for row in lines[1:]] == CLINICS
    before = visits.read_text()
    for place in (visits, "nowhere/answer.csv"):
        assert call(f"{line} {place}")[0] == 2
    assert visits.read_text() == before
    assert call(f"test {visits} {UNITS} --count --above 1 --hits 10 --csv-out one.csv")[0] == 0
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
        assert (code, f"{kind} has no usual cost: give --epsilon 0.02, as in: chary ask" in err) == (2, True)


def test_hits_pay_for_sharp_tests_as_in_a_program(call, visits):
    budget = "--budget-epsilon 1 --budget-delta 1e-6"
    asked = f"quote {visits} release-if --unit patient_id --count --by clinic --keys a,b,c --above 1900"
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
    common = f"--unit patient_id --count --above 1900 {BUDGET} --hits 20 --ledger {visits}.{kind}"
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
    common = f"quote {visits} {kind} --unit patient_id --count {asked} --budget-epsilon 1 --budget-delta 1e-6 --json"
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
    asked = f"quote {visits} release-if --unit patient_id --count --by clinic --keys a,b,c --above 1900 {BUDGET}"
    code, _, told = call(f"{asked} --epsilon 0.1 --tests 100")
    assert (code, "belongs to a sharp test" in told) == (2, True)
