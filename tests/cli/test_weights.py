"""`chary ask` as a user types it."""

import json

import pytest

SECRET = "987654321"


@pytest.fixture
def visits(tmp_path):
    """20,000 rows, 70 % of them of women; one has a value that must not be seen."""
    rows = [f"{i * 37 % 100},{'f' if i % 10 < 7 else 'm'},{i % 7}" for i in range(20_000)] + [f"{SECRET},f,x"]
    path = tmp_path / "visits.csv"
    path.write_text("age,sex,note\n" + "\n".join(rows) + "\n")
    return path


ROWS = "--each-row --relation replace --epsilon 1 --delta 1e-6 --epsilon-per-call 0.02"
CELLS = "--alpha 0.1 --bins age=0,20,40,60,80,100 --values sex=f,m"
WOMEN = ("--where", "sex = 'f'")


def test_ask(call, visits):
    code, out, err = call(f"ask {visits} {ROWS} {CELLS} --json", *WOMEN, "--where", "age >= 40")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    women, old = figures["answers"]
    assert (women["hard"], women["verified"]) == (True, True)
    assert abs(women["share"] - 0.7) < 0.05
    assert abs(old["share"] - 0.6) < 0.15
    spent = figures["spent"]["share"]
    code, out, _ = call(f"ask {visits} {ROWS} {CELLS} --json", *WOMEN)
    again = json.loads(out)
    assert (code, again["answers"][0]["hard"], again["spent"]["share"]) == (0, False, spent)
    assert abs(again["answers"][0]["share"] - women["share"]) < 0.03


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
    code, out, err = call(f"ask {visits} {ROWS} {cells}", *WOMEN)
    assert (code, out) == (2, "")
    assert told in err


def test_a_condition_that_is_refused_is_so_before_the_others_are_paid(call, visits):
    code, out, err = call(f"ask {visits} {ROWS} {CELLS}", *WOMEN, "--where", "age < 30")
    assert (code, out) == (2, "")
    assert "'age < 30' cuts through a bin" in err
    assert (
        json.loads(call(f"ask {visits} {ROWS} {CELLS} --json", "--where", "age < 20 AND sex = 'm'")[1])["spent"][
            "share"
        ]
        == 0
    )


def test_a_secret_size_is_refused(call, visits):
    code, _, err = call(f"ask {visits} {ROWS.replace('replace', 'add/remove')} {CELLS}", *WOMEN)
    assert code == 2
    assert "the number of rows is secret" in err
