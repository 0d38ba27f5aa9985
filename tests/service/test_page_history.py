"""What the page tells of earlier calls: one's own, each again as it was answered; the chain; the report."""

import re
from xml.etree.ElementTree import fromstring

import pytest

from chary import count
from chary.charts import Chart, Spot
from chary.service.pages.charts import drawable, drawn, specification
from chary.service.pages.history import newest
from tests.service.kit import serve_visits, token_of
from tests.session.kit import visits

HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def asked(service, tmp_path_factory):
    """Calls of two analysts about a dataset whose ledger is a file."""
    ledger = str(tmp_path_factory.mktemp("ledger") / "asked.ledger")
    serve_visits(service, "asked", ledger=ledger)
    served = service.datasets["asked"]
    for analyst, where in [("alice", "age >= 44"), ("bob", f"note = '{HOSTILE}'")] * 20:
        served.asked_by(analyst).release(count(where), epsilon="0.001")
    return served


HISTORY = "/page/datasets/asked/history"


def numbers(text):
    return [int(number) for number in re.findall(rf'href="{HISTORY}/(\d+)"', text)]


def test_the_newest_come_first_in_pages_and_none_is_lost(asked, service, visit):
    visitor, found, place = visit(token_of(service, "carol", ["custodian"])), [], HISTORY
    while place:
        text = visitor.get(place).text
        found += numbers(text)
        older = re.search(r'href="([^"]*)" rel="next"', text)
        place = older and older[1]
    assert found == [entry.call for entry in reversed(asked.session.history)]
    assert len(found) == 40


def test_an_analyst_is_shown_own_calls_alone(asked, visit):
    visitor = visit()
    own = [entry.call for entry in asked.session.history if entry.analyst == "alice"]
    others = [entry.call for entry in asked.session.history if entry.analyst == "bob"]
    text = visitor.get(HISTORY).text
    assert numbers(text) == own[::-1]
    assert "bob" not in text
    for path in (
        f"{HISTORY}/{others[0]}",
        f"{HISTORY}/{others[0]}/picture.svg",
        f"/page/datasets/asked/ask?answer={others[0]}",
    ):
        assert visitor.get(path).status_code == visitor.get(f"{HISTORY}/99999").status_code == 404
    assert visitor.get(f"{HISTORY}/{own[0]}").status_code == 200


def test_shared_answers_are_shown_to_all(service, visit):
    serve_visits(service, "shared", shared=True)
    service.datasets["shared"].asked_by("bob").release(count(), epsilon="0.1")
    text = visit().get("/page/datasets/shared/history").text
    assert "bob" in text


def test_what_was_asked_is_text_and_no_markup(asked, service, visit):
    visitor = visit(token_of(service, "bob"))
    call = numbers(visitor.get(HISTORY).text)[0]
    for path in (HISTORY, f"{HISTORY}/{call}", f"/page/datasets/asked/ask?answer={call}"):
        text = visitor.get(path).text
        assert HOSTILE not in text
        assert "<img src=x" not in text
        assert "onerror" in text
    assert "<img" not in visitor.get(f"{HISTORY}/{call}/picture.svg").text


def test_an_answer_is_told_again_as_it_was(asked, visit):
    entry, spent = asked.session.history[0], asked.session.spent
    text = visit().get(f"{HISTORY}/{entry.call}").text
    answer = asked.session.spine.ledger.call(entry.call)
    assert answer.answer is not None
    assert re.search(r'<strong class="big">-?[\d,]+</strong>\s*<span class="soft">[\d,]+ to [\d,]+', text)
    assert asked.session.spent == spent


def test_the_chain_is_checked_when_asked(asked, visit):
    visitor = visit()
    head = asked.session.spine.ledger.head()
    assert str(head) in visitor.get(HISTORY).text
    assert "The chain holds" not in visitor.get(HISTORY).text
    assert f"All {head.entries} entries" in visitor.get(f"{HISTORY}?check=true").text


def test_an_empty_history_says_what_to_do_first(service, visit):
    serve_visits(service, "untouched")
    for roles, words in ((["analyst"], "Ask a query"), (["reader"], "No queries yet")):
        text = visit(token_of(service, "rae", roles)).get("/page/datasets/untouched/history").text
        assert words in text


@pytest.mark.parametrize("before", ["0", "-1", "x", "99999999999999999999"])
def test_a_place_that_is_none_is_refused(asked, visit, before):
    assert visit().get(f"{HISTORY}?before={before}").status_code == 422


def test_the_calls_before_a_number_are_found_however_far_apart(asked):
    class Nobody:
        custodian, analyst = False, "nobody"

    assert newest(asked, Nobody, None, 5) == []
    last = asked.session.history[-1].call
    Nobody.analyst = "alice"
    assert [record.analyst for record in newest(asked, Nobody, last, 3)] == ["alice"] * 3


REPORT = "/page/datasets/asked/report"


def test_the_report_is_published_by_custodians_and_read_by_all(asked, service, visit):
    reader, custodian = visit(token_of(service, "rae", ["reader"])), visit(token_of(service, "carol", ["custodian"]))
    assert "No report was published yet" in reader.get(REPORT).text
    assert reader.get(f"{REPORT}/published").status_code == 404
    assert reader.post(REPORT).status_code == 403
    refused = custodian.post(REPORT, title="x" * 201, introduction="Kept.")
    assert (refused.status_code, "Kept." in refused.text) == (422, True)
    assert custodian.post(REPORT, title="Our <visits>", introduction="One.\r\n\r\nTwo.").status_code == 303
    text = reader.get(REPORT).text
    assert "<h1>Our &lt;visits&gt;</h1>" in text
    assert "<p>One.</p>\n<p>Two.</p>" in text
    assert text.count("<strong>Release</strong>") == 40
    assert HOSTILE not in text
    assert "differentially private" in text


def test_the_report_by_itself_has_a_policy_of_its_own(asked, service, visit):
    visit(token_of(service, "carol", ["custodian"])).post(REPORT)
    reader = visit(token_of(service, "rae", ["reader"]))
    page = reader.get(f"{REPORT}/published")
    assert "sandbox" in page.headers["content-security-policy"]
    assert "script-src" not in page.headers["content-security-policy"]
    assert HOSTILE not in page.text
    assert reader.get(f"{REPORT}/published?form=csv").headers["content-type"].startswith("text/csv")


def test_nothing_of_the_rows_is_on_any_page(service, visit):
    visitor = visit(token_of(service, "alice", ["analyst", "custodian"]))
    secret = visits().iloc[-1]
    for path in (
        "/page/",
        "/page/datasets/visits/ask",
        "/page/datasets/visits/history",
        "/page/datasets/visits/report",
    ):
        text = visitor.get(path).text
        assert str(secret["patient"]) not in text
        assert secret["note"] not in text


def test_a_picture_of_any_key_is_drawn():
    """The library ends the process at a sign that XML has no place for."""
    sign = "\0\x01\x1b\ufffe\uffff]]><script>"
    assert drawable({"label": sign}) == {"label": "\ufffd" * 5 + "]]><script>"}
    chart = Chart("dots", "keys", (Spot(f"north {sign}", 5.0, 4.0, 6.0, may_be_false=False),), None)
    drawing = drawn(specification(chart, dark=False), dark=False)
    assert fromstring(bytes(drawing.body)).tag.endswith("svg")
