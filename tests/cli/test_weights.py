"""`chary pmw` as a user types it."""

import json

import pytest

from chary.mechanisms.weights import Transcript
from tests.cli.kit import SECRET


@pytest.fixture
def visits(tmp_path):
    """20,000 rows, 70 % of them of women; one has a value that must not be seen."""
    rows = [f"{i * 37 % 100},{'f' if i % 10 < 7 else 'm'},{i % 7}" for i in range(20_000)] + [f"{SECRET},f,x"]
    path = tmp_path / "visits.csv"
    path.write_text("age,sex,note\n" + "\n".join(rows) + "\n")
    return path


ROWS = "--row-level --neighbors replace --infer-types --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.02"
CELLS = "--alpha 0.1 --bins age=0,20,40,60,80,100 --values sex=f,m"
WOMEN = ("--where", "sex = 'f'")


def test_ask(call, visits):
    code, out, err = call(f"pmw {visits} {ROWS} {CELLS} --json", *WOMEN, "--where", "age >= 40")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    women, old = figures["answers"]
    assert (women["hard"], women["verified"]) == (True, True)
    assert abs(women["share"] - 0.7) < 0.05
    assert abs(old["share"] - 0.6) < 0.15
    spent = figures["spent"]["share"]
    code, out, _ = call(f"pmw {visits} {ROWS} {CELLS} --json", *WOMEN)
    again = json.loads(out)
    assert (code, again["answers"][0]["hard"], again["spent"]["share"]) == (0, False, spent)
    assert abs(again["answers"][0]["share"] - women["share"]) < 0.03


SIZED = ROWS.replace("--epsilon 0.02", "--hits 3")


@pytest.mark.parametrize(
    ("rows", "other"),
    [
        (ROWS, ("0.1 ", "0.10 ", "0.02", "2e-2")),
        (SIZED, ("0.1 ", "1/10 ", "1e-6", "0.000001")),
        (SIZED.replace("3", "10"), ("0.1 ", "0.100 ", "1e-6", "1e-06")),
    ],
)
def test_the_same_options_go_on_with_the_same_histogram(call, visits, rows, other):
    """However its numbers are written, and whatever is left by now; what it learned is not paid again."""
    line = f"pmw {visits} {rows} {CELLS} --json"
    first = json.loads(call(line, *WOMEN)[1])
    assert first["answers"][0]["hard"]
    old, new, size, written = other
    again = json.loads(call(line.replace(old, new).replace(size, written), *WOMEN)[1])
    assert (again["call"], again["epsilon"]) == (first["call"], first["epsilon"])
    assert (again["answers"][0]["hard"], again["spent"]) == (False, first["spent"])


@pytest.mark.parametrize("other", ["--alpha 0.11", "--hits 4", "--epsilon 0.02", "--no-missing", "--mixing 0.2"])
def test_other_options_open_another_histogram(call, visits, other):
    line = f"pmw {visits} {SIZED} {CELLS} --json"
    if "--epsilon" in other:
        line = line.replace("--hits 3", "")
    first = json.loads(call(f"pmw {visits} {SIZED} {CELLS} --json", *WOMEN)[1])
    assert json.loads(call(f"{line} {other}", *WOMEN)[1])["call"] != first["call"]


@pytest.mark.parametrize(
    "how", ["--price 0.05", "--hits 20 --value-share 0.3", "--tests 10 --hits 20 --confidence 0.9"]
)
def test_sharp_tests_tell_hard_from_easy(call, visits, how):
    def line(how):
        return f"pmw {visits} {ROWS.replace('--epsilon 0.02', how)} {CELLS} --json"

    first = json.loads(call(line(how), *WOMEN)[1])
    again = json.loads(call(line(how.replace("0.05", "0.050").replace("0.3", "3/10")), *WOMEN)[1])
    assert (again["call"], again["epsilon"], again["spent"]) == (first["call"], None, first["spent"])
    assert (first["answers"][0]["hard"], again["answers"][0]["hard"]) == (True, False)
    assert first["spent"]["share"] == pytest.approx(0.05)
    other = json.loads(call(line(how.replace("0.05", "0.06").replace("20", "21")), *WOMEN)[1])
    assert other["call"] != first["call"]


def test_sharp_tests_and_a_size_by_laplace_noise_do_not_go_together(call, visits):
    code, _, told = call(f"pmw {visits} {ROWS} {CELLS} --tests 5", *WOMEN)
    assert (code, "belongs to an optimal test" in told) == (2, True)


def test_an_analyst_has_histograms_of_their_own(call, visits):
    line = f"pmw {visits} {SIZED} {CELLS} --json"
    calls = [json.loads(call(f"{line} --analyst {name}", *WOMEN)[1])["call"] for name in ("eve", "bob")]
    assert calls[0] < calls[1]


def test_an_opening_that_was_interrupted_is_done_again(call, visits, monkeypatch):
    """With the epsilon that it was reserved with, though by now another would be derived."""
    line = f"pmw {visits} {SIZED} {CELLS} --json"
    with monkeypatch.context() as patched:
        patched.setattr(Transcript, "dump", lambda transcript: (_ for _ in ()).throw(KeyboardInterrupt))
        call(line, *WOMEN)
    assert json.loads(call(f"ledger show {visits}.ledger --json")[1])[0]["calls"][0]["state"] == "reserved"
    assert call(f"release {visits} {ROWS.replace('0.02', '0.1')} --count")[0] == 0
    code, out, err = call(line, *WOMEN)
    assert (code, json.loads(out)["answers"][0]["verified"]) == (0, True), err


def test_an_answer_that_is_not_verified_says_so_or_is_refused(call, visits):
    """When no hit fits any more, the histogram goes on answering alone."""
    line = f"pmw {visits} {SIZED.replace('--hits 3', '--hits 1')} {CELLS}"
    code, out, _ = call(line, *WOMEN)
    assert (code, "unverified" in out) == (0, False)
    code, out, _ = call(line, *WOMEN)
    assert (code, "unverified: no hit fits into what is left" in out) == (0, True)
    assert "call" in out
    code, out, err = call(f"{line} --must-verify", *WOMEN)
    assert (code, out, "is left" in err) == (3, "", True)


def test_answers_before_one_that_is_refused_are_shown(call, visits):
    """They are paid."""
    line = f"pmw {visits} {SIZED.replace('--hits 3', '--hits 1')} {CELLS} --must-verify --json"
    code, out, err = call(line, *WOMEN, "--where", "age >= 40")
    assert (code, "is left" in err) == (3, True)
    assert [answer["where"] for answer in json.loads(out)["answers"]] == ["sex = 'f'"]


def test_the_call_that_is_told_can_be_exported(call, visits):
    rows = "--row-level --neighbors replace --infer-types"
    told = json.loads(call(f"pmw {visits} {ROWS} {CELLS} --json", *WOMEN)[1])["call"]
    assert call(f"export synthetic {visits} made.csv {rows} --call {told}")[0] == 0


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ("--alpha 0.1 --bins age", "write --bins age=0,18,65,120"),
        ("--alpha 0.1", "--bins age=0,18,65,120 or by --values sex=f,m"),
        ("--alpha 0.1 --values sex=f,m --values sex=f", "every column once"),
        ("--alpha 0.1 --bins age=0,50 --values age=1,2", "every column once"),
        ("--alpha 2 --values sex=f,m", "alpha must be"),
        ("--alpha 0.1 --values height=1", "unknown column"),
    ],
)
def test_bad_cells_are_refused(call, visits, cells, told):
    code, out, err = call(f"pmw {visits} {ROWS} {cells}", *WOMEN)
    assert (code, out) == (2, "")
    assert told in err


def test_a_condition_that_is_refused_is_so_before_the_others_are_paid(call, visits):
    code, out, err = call(f"pmw {visits} {ROWS} {CELLS}", *WOMEN, "--where", "age < 30")
    assert (code, out) == (2, "")
    assert "'age < 30' cuts through a bin" in err
    assert (
        json.loads(call(f"pmw {visits} {ROWS} {CELLS} --json", "--where", "age < 20 AND sex = 'm'")[1])["spent"][
            "share"
        ]
        == 0
    )


def test_a_secret_size_is_refused(call, visits):
    """Before a ledger is made that would keep the wrong neighbours."""
    for wrong in (ROWS.replace("replace", "add_remove"), ROWS.replace("--row-level", "--unit age")):
        code, _, err = call(f"pmw {visits} {wrong} {CELLS}", *WOMEN)
        assert code == 2
        assert "the number of rows is secret" in err
        assert "give --row-level --neighbors replace" in err
    assert not visits.with_name("visits.csv.ledger").exists()


def test_a_ledger_without_a_budget_says_which_options(call, visits):
    code, _, err = call(f"pmw {visits} --row-level --neighbors replace {CELLS} --hits 3", *WOMEN)
    assert (code, "--budget-epsilon 1 --budget-delta 1e-6" in err) == (2, True)
