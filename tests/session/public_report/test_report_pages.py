"""What a report tells, in every form, and that hostile texts stay texts."""

import csv
import io
import json
import re
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from chary import Budget, InvalidParameter, LedgerError, count
from chary.client.wire import in_typed, of_typed
from chary.errors import LedgerCorrupted
from chary.ledger import open_ledger
from chary.report import report
from tests.session.public_report.pages import FORMS, HOSTILE, Page, asked


@pytest.fixture
def ledger(tmp_path):
    place = tmp_path / "visits.ledger"
    asked(place).close()
    return place


def test_every_question_is_told_with_its_answer_when_by_whom_and_its_price(ledger):
    found = report(ledger).datasets[0]
    assert [call.kind for call in found.calls] == [
        *("release", "test", "test", "release_if", "watch", "release", "track", "track")
    ]
    assert found.calls[0].question == "count where age >= 44, epsilon 0.2"
    assert [call.outcome for call in found.calls[1:4]] == [
        *("below the threshold", "at or above the threshold", "not published")
    ]
    assert {call.analyst for call in found.calls} == {"analyst"}
    assert found.calls[1].share == 0 < found.calls[2].share
    assert sum(call.share for call in found.calls) == pytest.approx(found.spent.share)
    assert sorted(call.time for call in found.calls) == [call.time for call in found.calls]


def test_intervals_are_those_of_the_answers(tmp_path):
    with asked(tmp_path / "visits.ledger") as session:
        watched = session.release_if(count().by("clinic", ["north"]), above=-100, epsilon="0.05")
        released = session.release(count(), epsilon="0.1")
        calls = {call.call: call for call in report(session).datasets[0].calls}
    row, [value] = watched["north"], calls[watched.call].values
    assert (value.value, value.low, value.high) == (row["value"], row["low"], row["high"])
    [value] = calls[released.call].values
    assert (value.low, value.high) == released.interval


def test_intervals_follow_the_confidence(ledger):
    narrow, wide = (report(ledger, confidence=level).datasets[0].calls[0].values[0] for level in ("0.5", "0.999"))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, "nan", "much"])
def test_a_confidence_that_is_none_is_refused(ledger, confidence):
    with pytest.raises(InvalidParameter):
        report(ledger, confidence=confidence)


def test_all_forms_are_written_and_tell_the_same(ledger, tmp_path):
    found = report(ledger)
    for form in FORMS:
        found.save(tmp_path / f"report{form}")
        assert (tmp_path / f"report{form}").stat().st_size > 500
    value = found.datasets[0].calls[0].values[0].value
    page = Page(found.html())
    assert f"{value:,}" in page.text
    assert f"{value:,}" in found.markdown().replace("\\", "")
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert rows[0]["value"] == str(value)
    assert json.loads(json.dumps(found.to_dict()))["datasets"][0]["calls"][0]["values"][0]["value"] == value
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_the_statement_stands_on_the_page(ledger):
    with closing(open_ledger(ledger)) as opened:
        told = report(opened).datasets[0].statement
    assert "one patient added or removed" in told
    assert told in Page(report(ledger).html()).text


def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing(ledger):
    page = Page(report(ledger).html())
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#")
    assert "@import" not in report(ledger).html()
    assert not re.search(r"url\((?!#)", report(ledger).html())


def test_a_page_can_be_read_aloud(ledger):
    page = Page(report(ledger).html())
    assert page.images
    assert all(image["role"] == "img" and image["aria-label"] for image in page.images)
    assert page.tags.count("table") == page.tags.count("caption")
    assert {value for name, value in page.attributes if name == "scope"} == {"col", "row"}
    assert ("lang", "en") in page.attributes
    assert len(page.ids) == len(set(page.ids))
    assert ("name", "viewport") in page.attributes


def test_hostile_texts_are_texts(tmp_path):
    place = tmp_path / "hostile.ledger"
    with asked(place, dataset=HOSTILE, analyst=HOSTILE) as session:
        keys = [HOSTILE, "=HYPERLINK(1)", "line\nbreak", "$x$", "日本"]
        session.release_if(count().by("clinic", keys), above=-(10**6), epsilon="0.01")
        session.release(count(f"note = '{HOSTILE}'"), epsilon="0.01")
    found = report(place)
    for page in (found.html(), found._repr_html_()):
        assert "script" not in Page(page).tags
        assert HOSTILE not in page
    assert HOSTILE in Page(found.html()).text
    assert "<script" not in found.markdown()
    assert "\n=" not in found.csv()
    assert "'=HYPERLINK(1)" in found.csv()
    for form in FORMS:
        found.save(tmp_path / f"hostile{form}")


def test_markdown_has_one_line_for_each_row(ledger):
    lines = report(ledger).markdown().splitlines()
    [start] = [place for place, line in enumerate(lines) if line.startswith("| number | query")]
    rows = lines[start + 2 : start + 2 + 8]
    assert all(row.startswith("| ") and len(re.findall(r"(?<!\\)\|", row)) == 8 for row in rows)


def test_small_numbers_are_never_nothing(tmp_path):
    with asked(tmp_path / "small.ledger", budget=Budget(epsilon=1000, delta="1e-30"), filter="pure") as session:
        session.release(count(), epsilon="1e-6")
        said = Page(report(session).html()).text
    assert "1e-30" in said
    assert "0.000 %" not in said
    assert " 0 %" not in said.replace("0 % confidence", "")


def test_what_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "text.ledger").write_text("a text, and no ledger")
    with pytest.raises(LedgerError):
        report(tmp_path / "text.ledger")
    assert (tmp_path / "text.ledger").read_text() == "a text, and no ledger"
    with pytest.raises(InvalidParameter, match="there is no ledger"):
        report(tmp_path / "missing.ledger")
    assert not (tmp_path / "missing.ledger").exists()


def test_a_broken_ledger_is_not_published(ledger):
    engine = create_engine(f"sqlite:///{ledger}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE answers SET answer = replace(answer, 'true', 'false')"))
    engine.dispose()
    with pytest.raises(LedgerCorrupted):
        report(ledger)


def test_an_empty_ledger_and_an_unknown_dataset_are_refused(ledger, tmp_path):
    with pytest.raises(InvalidParameter, match="visits"):
        report(ledger, dataset="others")
    open_ledger(tmp_path / "empty.ledger").close()
    with pytest.raises(InvalidParameter, match="no dataset"):
        report(tmp_path / "empty.ledger")


def test_another_ending_and_a_missing_folder_are_refused(ledger, tmp_path):
    found = report(ledger)
    for place in ("report.doc", "nowhere/report.html"):
        with pytest.raises(InvalidParameter, match="a report goes to a file"):
            found.save(tmp_path / place)


def test_progress_is_told_to_the_end(ledger):
    told = {}
    report(ledger, tell=lambda doing, done, total: told.update({doing: (done, total)}))
    assert {"checking entries", "reading answers", "comparing hits"} <= told.keys()
    assert all(done == total for done, total in told.values())


def test_a_title_and_an_introduction_of_ones_own_stand_in_every_form_as_they_are(ledger, tmp_path):
    own = {"title": HOSTILE, "introduction": f"First.\r\n\r\n{HOSTILE}"}
    made = report(ledger, **own)
    page = Page(made.html())
    assert page.text.count(HOSTILE) == 3
    assert "script" not in page.tags
    assert "<script>" not in made.markdown()
    assert made.to_dict()["introduction"] == f"First.\n\n{HOSTILE}"
    assert of_typed(in_typed(made)).title == HOSTILE
    made.save(tmp_path / "own.pdf")
    plain = report(ledger)
    assert not {"title", "introduction"} & (plain.to_dict().keys() | in_typed(plain)["fields"].keys())


@pytest.mark.parametrize(
    "own", [{"title": "x" * 201}, {"title": "two\nlines"}, {"introduction": "x" * 4_001}, {"introduction": "\x00"}]
)
def test_a_title_that_is_none_is_refused(ledger, own):
    with pytest.raises(InvalidParameter, match="printable"):
        report(ledger, **own)
