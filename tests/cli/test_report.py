"""`chary report`, and `--plot` where people would rather look."""

import json

import pytest

OPEN = "--unit patient_id --budget-epsilon 1 --budget-delta 1e-6 --columns age=BIGINT,cost=BIGINT"
WATCH = f"release-if visits.csv {OPEN} --count --by clinic --keys a,b,c --above 1500 --epsilon 0.05"


@pytest.fixture
def ledger(call, visits):
    assert call(WATCH)[0] == 0
    return visits.with_name("visits.csv.ledger") if visits.with_name("visits.csv.ledger").exists() else None


def test_a_report_is_written_beside_the_ledger_from_the_ledger_alone(call, visits, ledger):
    visits.unlink()
    code, out, err = call(f"report {ledger.name}")
    assert (code, err) == (0, "")
    page = ledger.with_name(f"{ledger.name}.html")
    assert str(page.name) in out
    assert "All queries and their answers" in page.read_text()


def test_every_form_is_written_at_once(call, ledger):
    code, _, _ = call(f"report {ledger.name} --html --pdf --md --csv")
    assert code == 0
    assert all(ledger.with_name(f"{ledger.name}.{form}").exists() for form in ("html", "pdf", "md", "csv"))


def test_json_writes_nothing_unless_it_is_asked_to(call, ledger):
    before = set(ledger.parent.iterdir())
    code, out, _ = call(f"report {ledger.name} --json --confidence 0.99")
    assert code == 0
    found = json.loads(out)
    assert (found["confidence"], found["files"]) == (0.99, [])
    assert found["datasets"][0]["calls"][0]["kind"] == "watch"
    assert set(ledger.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("--html --pdf --output report.html", "--output names one file"),
        ("--html --output report.pdf", "--output ends in"),
        ("--output report.doc", "--output ends in"),
        ("--confidence 1", "confidence"),
        ("--dataset others", "others"),
        ("--output nowhere/report.html", "existing folder"),
    ],
)
def test_what_cannot_be_right_is_refused(call, ledger, more, told):
    code, _, err = call(f"report {ledger.name} {more}")
    assert code == 2
    assert told in err


def test_no_file_is_overwritten_unless_that_is_said(call, ledger):
    assert call(f"report {ledger.name} --output report.html")[0] == 0
    code, _, err = call(f"report {ledger.name} --output report.html")
    assert code == 2
    assert "--force" in err
    assert call(f"report {ledger.name} --output report.html --force")[0] == 0
    assert call("report visits.csv --output report.html")[0] == 2
    assert call("report missing.ledger")[0] == 2


def test_a_watch_and_a_release_are_drawn(call, visits, tmp_path):
    assert call(f"{WATCH} --plot watch.svg")[0] == 0
    assert "threshold" in (tmp_path / "watch.svg").read_text()
    line = f"release visits.csv {OPEN} --count --by clinic --keys a,b,c --epsilon 0.05 --plot release.png"
    assert call(line)[0] == 0
    assert (tmp_path / "release.png").exists()


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_charged(call, visits):
    code, _, err = call(f"{WATCH} --plot watch.doc")
    assert code == 2
    assert "a picture goes to a file" in err
    assert not visits.with_name("visits.csv.ledger").exists()


@pytest.mark.parametrize(
    "line",
    [
        "release {} --count --epsilon 0.05",
        "test {} --count --above 5 --epsilon 0.05",
        "choose {} --count --by clinic --keys a,b --epsilon 0.05",
        "ask sparse-vector {} --above 51 --hits 2 --epsilon 0.05",
    ],
)
def test_what_has_no_picture_is_refused_before_anything_is_charged(call, visits, line):
    code, _, err = call(f"{line.format(f'visits.csv {OPEN}')} --plot number.png")
    assert code == 2
    assert "only answers with several values have a picture" in err or "No such option: --plot" in err
    _, out, _ = call(f"release visits.csv {OPEN} --count --epsilon 0.05 --json")
    assert json.loads(out)["spent"]["share"] == json.loads(out)["charged"]


def test_a_watch_without_hits_says_that_there_is_nothing_to_be_seen(call, visits):
    code, _, err = call(
        f"release-if visits.csv {OPEN} --count --by clinic --keys a,b --above 10000000 --hits 10 --plot none.png"
    )
    assert code == 0
    assert "no value was published" in err
