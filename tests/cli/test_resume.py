"""`chary resume`: questions to what an earlier call left open."""

import io
import json

import pytest

ROWS = "--row-level --neighbors replace --infer-types"
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6"
CELLS = "--bins age=0,50,100 --values clinic=a,b,c --alpha 0.2"


@pytest.fixture
def started(call, visits):
    """Open what stays open and return its number."""

    def start(options, budget=BUDGET):
        code, out, err = call(f"ask {visits} {options} {ROWS} {budget} --json")
        assert (code, err) == (0, "")
        return json.loads(out)["run"]

    return start


@pytest.fixture
def asked(call, visits):
    def ask(run, options, rows=ROWS):
        code, out, err = call(f"resume {visits} {run} {rows} {options} --json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return ask


def test_a_sparse_vector_goes_on_until_its_hits_are_used(call, visits, started, asked):
    run = started(
        "sparse-vector --above 1000 --hits 2 --epsilon 1.5 --values", "--budget-epsilon 3 --budget-delta 1e-6"
    )
    one = asked(run, "--count --where age>=50")
    assert (one["above"], one["hits_left"]) == (True, 1)
    assert abs(one["value"] - 3000) < 200
    keyed = asked(run, "--count --by clinic --keys zz,a,b")
    assert [row["key"] for row in keyed["above"]] == [["a"]]
    assert (keyed["untested"], keyed["hits_left"], keyed["spent"]) == (1, 0, one["spent"])
    assert call(f"resume {visits} {run} {ROWS} --count")[0] == 3


@pytest.mark.parametrize(
    ("opening", "question", "name"),
    [
        ("prepaid-tests --tests 100 --hits 5", "--count --above 10", "above"),
        ("prepaid-tests --tests 100 --hits 5", "--count --by clinic --keys zz,a,b --above 10", "tests_left"),
        ("gaussian-above-threshold --threshold 100 --threshold-noise 500 --low 0 --high 6000", "--count", "above"),
        ("continual-count --steps 3 --epsilon 0.1", "", "value"),
        (f"pmw {CELLS} --epsilon 0.02", "--count --where clinic='a'", "share"),
        (f"pmw --prepaid {CELLS} --epsilon 0.02", "--count --where clinic='a'", "share"),
        ("growing-tests --above 0.5 --epsilon 0.1", "", "number"),
    ],
)
def test_each_is_asked_in_the_same_words(call, visits, opening, question, name):
    code, out, err = call(f"ask {visits} {opening} {ROWS} {BUDGET} --json")
    assert (code, err) == (0, "")
    run = json.loads(out)["run"]
    code, out, err = call(f"resume {visits} {run} {ROWS} {question} --request one --json")
    assert (code, err, name in json.loads(out)) == (0, "", True)
    assert call(f"resume {visits} {run} {ROWS} {question} --request one --json")[1] == out


def test_a_bar_of_its_own(call, visits):
    rows = "--unit patient_id --infer-types"
    line = f"ask {visits} individual-tests {rows} {BUDGET} --hits 2 --epsilon 0.02 --json"
    run = json.loads(call(line)[1])["run"]
    assert "such as --above 500" in call(f"resume {visits} {run} {rows} --count")[2]
    code, out, _ = call(f"resume {visits} {run} {rows} --count --above 10 --json")
    assert code == 0
    assert abs(json.loads(out)["value"] - 6000) < 2000


@pytest.mark.parametrize(
    ("opening", "question", "told"),
    [
        ("sparse-vector --above 1000 --hits 2 --epsilon 0.5", "", "say what to ask"),
        ("continual-count --steps 3 --epsilon 0.1", "--count", "has a fixed query"),
        (
            "gaussian-above-threshold --threshold 100 --threshold-noise 50 --low 0 --high 6000",
            "--count --above 3",
            "leave --above out",
        ),
    ],
)
def test_other_words_are_refused_in_one_line(call, visits, started, opening, question, told):
    run = started(opening)
    code, out, err = call(f"resume {visits} {run} {ROWS} {question}")
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_a_number_that_opened_nothing(call, visits, started):
    started("sparse-vector --above 1000 --hits 2 --epsilon 0.5")
    assert call(f"resume {visits} 99 {ROWS} --count")[0] == 2
    assert call(f"resume {visits} one {ROWS} --count")[0] == 2


QUESTIONS = ["--count --where age>=50", "", '--count --by clinic --keys "zz,a"']


@pytest.mark.parametrize("place", ["-", "questions.txt"])
def test_many_questions_are_lines(call, visits, started, monkeypatch, tmp_path, place):
    """Each is answered by a line, and under one key the whole conversation can be repeated."""
    run = started("sparse-vector --above 1000 --hits 9 --epsilon 0.5")
    text = "\n".join(QUESTIONS)
    (tmp_path / "questions.txt").write_text(text)
    line = f"resume {visits} {run} {ROWS} --questions {place} --request one --json --output"
    found = []
    for name in ("first.csv", "second.csv"):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        code, out, err = call(f"{line} {name}")
        assert (code, err) == (0, "")
        found.append([json.loads(answer) for answer in out.splitlines()])
        assert len((tmp_path / name).read_text().splitlines()) == 3
    assert found[0] == found[1]
    assert [found[0][0]["above"], [row["key"] for row in found[0][1]["above"]]] == [True, [["a"]]]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--count --nothing 1", "--nothing"),
        ("--count --where 'age", "question 2 has a quote that does not end"),
        ("--sum cost", "--bounds"),
        ("", "say what to ask"),
    ],
)
def test_a_line_that_is_no_question_ends_it_after_the_answers_before(call, visits, started, tmp_path, line, told):
    run = started("sparse-vector --above 1000 --hits 9 --epsilon 0.5")
    (tmp_path / "questions.txt").write_text(f"--count\n{line or '--where age>3'}\n--count")
    code, out, err = call(f"resume {visits} {run} {ROWS} --questions questions.txt --json")
    assert (code, len(out.splitlines()), told in err) == (2, 1, True), err
    assert call(f"resume {visits} {run} {ROWS} --questions questions.txt --count")[0] == 2


# Public histograms that are taught.


@pytest.mark.parametrize("prepaid", ["", "--prepaid"])
def test_a_histogram_is_taught_for_free_and_knows_it_later(visits, started, asked, prepaid):
    run = started(f"pmw {prepaid} {CELLS} --epsilon 0.02")
    line = "--count --where clinic='a' --learn 0.45,0.5 --request lesson"
    told = asked(run, line)
    assert (told["share"], told["verified"], told["charged"]) == (pytest.approx(0.45, rel=1e-6), False, 0)
    assert asked(run, line) == told
    assert asked(run, "--count --where clinic='a' --learn 0,1")["share"] == told["share"]


def test_a_histogram_is_taught_what_was_published(call, visits, started, asked):
    run = started(f"pmw {CELLS} --epsilon 0.02")
    line = f"release {visits} --count --where age>=50 --epsilon 0.1 {ROWS} {BUDGET} --json"
    released = json.loads(call(line)[1])
    told = asked(run, "--learn published")
    assert (told["lessons"], told["charged"], told["spent"]) == (1, 0, released["spent"])
    share = asked(run, "--count --where age>=50 --learn 0,1")["share"]
    assert released["low"] <= share * 6000 * (1 + 1e-5)
    assert share * 6000 <= released["high"] * (1 + 1e-5)


def test_lines_teach_and_ask(visits, started, asked, call, tmp_path):
    run = started(f"pmw {CELLS} --epsilon 0.02")
    lines = ["--count --where clinic=\\'a\\' --learn 0.45,0.5", "--count --where clinic=\\'b\\'"]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    code, out, err = call(f"resume {visits} {run} {ROWS} --questions lines.txt --json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["verified"] for line in out.splitlines()] == [False, True]


@pytest.mark.parametrize(
    ("opening", "line", "told"),
    [
        (f"pmw {CELLS} --epsilon 0.02", "--count --where clinic='a' --learn 0.5", "--learn 0.2,0.3"),
        (f"pmw {CELLS} --epsilon 0.02", "--count --where clinic='a' --learn published", "published alone"),
        (f"pmw {CELLS} --epsilon 0.02", "--count --where clinic='a' --learn 0.5,0.2", "the lower one first"),
        (f"pmw {CELLS} --epsilon 0.02", "--count --where clinic='a' --learn a,b", "an end"),
        (f"pmw {CELLS} --epsilon 0.02", "--learn 0.2,0.3", "say what to ask"),
        (f"pmw {CELLS} --epsilon 0.02", "--learn published --above 3", "--learn 0.2,0.3"),
        ("sparse-vector --above 1000 --hits 2 --epsilon 0.5", "--learn published", "leave --learn out"),
        ("sparse-vector --above 1000 --hits 2 --epsilon 0.5", "--count --learn 0.2,0.3", "leave --learn out"),
    ],
)
def test_lessons_that_say_nothing_are_refused_in_one_line(call, visits, started, opening, line, told):
    run = started(opening)
    code, out, err = call(f"resume {visits} {run} {ROWS} {line}")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert told in err or "say what to ask" in err
