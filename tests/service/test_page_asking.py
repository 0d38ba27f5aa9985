"""The page that asks: every kind's form says the very call, refusals stand at their field, one form asks once."""

import asyncio
import html
import re

import pytest

from chary.calls import read
from chary.charts import Chart, Spot
from chary.service.core.requests import readable_kinds
from chary.service.pages.charts import specification
from chary.service.pages.fields import PREFIX
from chary.service.pages.forms import form_of, menu, texts_of
from chary.service.pages.history import replays
from tests.conformance.samples import KINDS
from tests.service.kit import token_of
from tests.service.page_kit import fields_of
from tests.session.kit import shows_data

ASK = "/page/datasets/visits/ask"
TYPES = {"patient": "int64", "clinic": "string", "age": "int64", "cost": "float64", "note": "string"}
# What only algorithms of its author can be asked of, or a condition on an outcome of one.
BY_FORM = sorted(readable_kinds())
MARKUP = "<script>alert(1)</script>"


def prefixed(texts):
    return {PREFIX + name: text for name, text in texts.items()}


@pytest.mark.parametrize("types", [TYPES, {}], ids=["known types", "unknown types"])
@pytest.mark.parametrize("kind", BY_FORM)
def test_the_form_of_every_kind_says_the_very_call(kind, types):
    form, call = form_of(kind), KINDS[kind]()
    assert read(form.body(form.filled(call, types), types)) == call


@pytest.mark.parametrize("kind", BY_FORM)
def test_the_form_as_a_browser_sends_it_back_says_the_very_call(service, visit, kind):
    """Through the template: what is drawn into controls comes out of them again."""
    call = KINDS[kind]()
    visitor = visit()
    fields = {"kind": kind, "form_token": visitor.form_token()} | prefixed(form_of(kind).filled(call, TYPES))
    drawn = visitor.http.post(ASK, data=fields | {"do": "quote"})
    sent = fields_of(drawn.text, ASK)
    assert read(form_of(sent["kind"]).body(texts_of(sent), TYPES)) == call


@pytest.mark.parametrize(
    ("kind", "field", "hint"),
    [
        ("marginal", "columns", "clinic: north, south"),
        ("mwem", "universe", "clinic: north, south"),
        ("mwem", "queries", "age >= 65"),
        ("principal_components", "ranges", "age: 0, 90"),
        ("quantiles", "step", "1"),
        ("release", "epsilon", ""),
    ],
)
def test_an_empty_control_shows_how_it_is_filled_in(visit, kind, field, hint):
    control = re.search(rf'<(?:input|textarea)[^>]*name="ask\.{field}"[^>]*>', visit().get(f"{ASK}?kind={kind}").text)
    placeholder = re.search(r'placeholder="([^"]*)"', control[0])
    assert ("" if placeholder is None else placeholder[1]) == html.escape(hint, quote=False)


def test_the_menu_has_every_kind_once_and_twelve_in_front(visit):
    shown = [name for _, kinds in menu() for name, _ in kinds]
    assert sorted(shown) == sorted(readable_kinds())
    assert next(len(kinds) for _, kinds in menu()) == 12
    page = visit().get(ASK).text
    assert all(f'value="{kind}"' in page for kind in shown)


def test_an_unknown_kind_is_no_page(visit):
    assert visit().get(f"{ASK}?kind=call").status_code == 422


KEYS = {"query.kind": "count", "query.by": "clinic", "query.keys": "north, south", "query.max_groups_per_unit": "1"}


@pytest.mark.parametrize(
    ("kind", "texts", "field"),
    [
        ("release", {"epsilon": "-1"}, "epsilon"),
        ("release", {"epsilon": "a little"}, "epsilon"),
        ("release", {"epsilon": "900"}, "epsilon"),
        ("release", {"epsilon": "0.1", "query.where": "agee > 3"}, "query.where"),
        ("release", {"epsilon": "0.1", "query.where": "age >"}, "query.where"),
        ("release", {"epsilon": "0.1", "query.where": "age > 'old'"}, "query.where"),
        ("release", {"epsilon": "0.1", "query.kind": "json", "query.json": "{"}, "query.json"),
        ("release", {"epsilon": "0.1", "query.kind": "sum", "query.column": "cost"}, "query.column"),
        ("release", KEYS | {"epsilon": "0.1", "query.keys": ""}, "query.keys"),
        ("release", KEYS | {"epsilon": "0.1", "query.keys": "north, north"}, "query.keys"),
        ("histogram", {"column": "age", "bins": "3, 2", "epsilon": "0.1"}, "bins"),
        ("majority", {"condition": "age >> 3", "epsilon": "0.1"}, "condition"),
        ("top", KEYS | {"k": "several"}, "k"),
        ("marginal", {"columns": "clinic north", "epsilon": "0.1"}, "columns"),
    ],
    ids=str,
)
@pytest.mark.parametrize("do", ["ask", "quote"])
def test_a_refusal_stands_at_its_field(service, visit, kind, texts, field, do):
    texts = {"query.kind": "count"} | texts
    texts |= {f"candidates{name[5:]}": text for name, text in texts.items() if name.startswith("query.")}
    before = service.datasets["visits"].session.spent
    told = visit().post(ASK, kind=kind, do=do, **prefixed(texts))
    if do == "quote" and "900" in texts.values():
        assert "The call does not fit" in told.text
        return
    assert told.status_code == (200 if do == "quote" else 409 if "900" in texts.values() else 422)
    control = re.search(r'<(?:input|textarea|select)[^>]*name="ask\.([\w.]+)"[^>]*aria-invalid="true"', told.text)
    assert control[1] == field
    assert 'aria-describedby="quote-problem' in told.text
    assert 'id="quote-problem"' in told.text
    assert not shows_data(told.text)
    assert service.datasets["visits"].session.spent == before


def test_what_does_not_fit_is_told_with_what_would(visit):
    told = visit().post(ASK, kind="release", do="ask", **prefixed({"query.kind": "count", "epsilon": "900"}))
    assert re.search(
        r"<dt>Asked</dt><dd>[\d,.e+]+ %</dd>.*<dt>Left</dt><dd>[\d.]+ %</dd>.*epsilon", told.text, re.DOTALL
    )


def test_the_quote_has_price_margin_and_false_alarms(visit):
    fields = {"query.kind": "count", "query.where": "65 <= age", "above": "500", "hits": "20"}
    told = visit().post(f"{ASK}/quote", kind="test", tests="1000", **prefixed(fields)).text
    for word in (
        "A hit costs",
        "5 %",
        "Number that fits",
        "Margin",
        "False alarms expected",
        "of 1,000 tests",
        "age &gt;= 65",
    ):
        assert word in told, word
    assert "<html" not in told
    assert "<table" not in told
    more = visit().post(f"{ASK}/quote", kind="test", do="compare", **prefixed(fields)).text
    assert "plain composition" in more


def test_what_is_missing_is_said_and_nothing_is_marked(visit):
    told = visit().post(f"{ASK}/quote", kind="release_if", **prefixed({"query.kind": "count"})).text
    assert "Above" in told
    assert 'data-field=""' in told


def test_labels_have_room_for_the_letters_of_another_font():
    """A browser's own font may be wider than that by which the picture was measured."""
    short, long = (Chart("dots", "Groups", (Spot(label, 1.0),)) for label in ("a", "Asian-Pac-Islander"))
    lefts = [specification(chart, dark=False)["padding"]["left"] for chart in (short, long)]
    assert lefts[1] - lefts[0] >= 17


def test_an_answer_is_led_to_and_drawn(service, visit):
    visitor = visit()
    fields = {"query.kind": "count", "query.where": "age >= 44", "epsilon": "0.05"}
    led = visitor.post(ASK, kind="release", do="ask", **prefixed(fields))
    assert led.status_code == 303
    shown = visitor.get(led.headers["location"])
    number = led.headers["location"].rpartition("=")[2]
    served = service.datasets["visits"]
    (call,) = replays(served, [served.session.spine.ledger.call(int(number))])
    assert f">{call.answer.value}<" in shown.text
    assert 'value="age &gt;= 44"' in shown.text
    picture = visitor.get(f"/page/datasets/visits/history/{number}/picture.svg?dark=true")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.text.startswith("<svg")


def test_a_form_that_is_sent_twice_asks_once_and_a_changed_one_anew(service, visit):
    visitor, session = visit(), service.datasets["visits"].session
    form = fields_of(visitor.get(f"{ASK}?kind=release").text, ASK) | {"do": "ask", "ask.epsilon": "0.01"}
    first, again = (visitor.http.post(ASK, data=form).headers["location"] for _ in range(2))
    spent = session.spent
    other = visitor.http.post(ASK, data=form | {"ask.epsilon": "0.02"}).headers["location"]
    assert first == again != other
    assert session.spent.share > spent.share


def test_a_run_is_opened_asked_and_quoted(service, visit):
    visitor = visit()
    led = visitor.post(
        ASK, kind="sparse_vector", do="ask", **prefixed({"above": "-99999", "hits": "3", "epsilon": "0.05"})
    )
    run = led.headers["location"]
    assert run.startswith(f"{ASK}/runs/")
    assert run in visitor.get(ASK).text
    question = prefixed({"query.kind": "count", "query.where": "age >= 20"})
    assert "free" in visitor.post(f"{run}/quote", **question).text
    answered = visitor.post(run, do="ask", **question)
    assert "at or above the threshold" in visitor.get(answered.headers["location"]).text
    wrong = visitor.post(run, do="ask", **(question | {"ask.query.where": "agee > 3"}))
    assert wrong.status_code == 422
    assert re.search(r'name="ask\.query\.where"[^>]*aria-invalid="true"', wrong.text)


def test_the_run_of_another_analyst_is_not_there(service, visit):
    led = visit().post(ASK, kind="sketch", do="ask", **prefixed({"epsilon": "0.01", "registers": "64"}))
    other = visit(token_of(service, "bob"))
    run = led.headers["location"]
    assert other.get(run).status_code == 404
    assert other.post(f"{run}/quote").status_code == 404
    assert run not in other.get(ASK).text


def test_a_call_that_goes_on_with_one_of_another_analyst_is_not_there(service, visit):
    mine = visit()
    fields = prefixed({"query.kind": "count", "above": "99999", "epsilon": "0.01"})
    number = mine.post(ASK, kind="release_if", do="ask", **fields).headers["location"].rpartition("=")[2]
    told = visit(token_of(service, "bob")).post(
        ASK, kind="widen", do="ask", **prefixed({"held": number, "above": "9999"})
    )
    missing = visit(token_of(service, "bob")).post(
        ASK, kind="widen", do="ask", **prefixed({"held": "99999", "above": "9999"})
    )
    assert (told.status_code, missing.status_code) == (404, 404)


def test_what_takes_long_is_waited_for(service, visit, monkeypatch):
    visitor = visit()

    async def never(job, seconds):
        await asyncio.to_thread(service.jobs._keep, job)
        return False

    monkeypatch.setattr(service.jobs, "settled", never)
    led = visitor.post(ASK, kind="release", do="ask", **prefixed({"query.kind": "count", "epsilon": "0.01"}))
    place = led.headers["location"]
    assert place.startswith(f"{ASK}/jobs/")
    for _ in range(200):
        shown = visitor.get(place)
        if shown.status_code == 303:
            break
        assert shown.headers["refresh"] == "2"
    assert shown.headers["location"].startswith(f"{ASK}?answer=")
    assert visit(token_of(service, "bob")).get(place).status_code == 404


@pytest.mark.parametrize("texts", [{"query.where": f"note = '{MARKUP}'"}, {"epsilon": f'"{MARKUP}'}], ids=str)
def test_what_people_write_is_text_and_no_markup(visit, texts):
    fields = {"query.kind": "count", "epsilon": "0.01"} | texts
    visitor = visit()
    shown = visitor.post(ASK, kind="release", do="ask", **prefixed(fields))
    pages = [shown, visitor.post(f"{ASK}/quote", kind="release", **prefixed(fields))]
    if shown.status_code == 303:
        pages += [visitor.get(shown.headers["location"]), visitor.get("/page/datasets/visits/history")]
    for page in pages:
        assert "<script>alert" not in page.text
        assert '"<script' not in page.text
    assert any("&lt;script&gt;" in page.text for page in pages)


@pytest.mark.parametrize("roles", [["reader"], ["custodian"]])
def test_who_may_not_ask_is_told_so(service, visit, roles):
    visitor = visit(token_of(service, "rae", roles))
    assert visitor.get(ASK).status_code == 403
    assert visitor.post(ASK, kind="release", do="ask").status_code == 403
    assert f'href="{ASK}"' not in visitor.get("/page/datasets/visits/history").text
