"""A dataset in blocks that is served: asked of some of them over HTTP, by the client and by the page."""

from datetime import date, datetime

import pyarrow as pa
import pytest

import chary
from chary import Blocks, Budget, count
from chary.calls import Alert, Release, SparseVector
from chary.client import connect, connect_json
from chary.data import blocks as periods
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery
from chary.report import report
from chary.service.config import configured
from chary.service.core.datasets import opened_datasets
from chary.service.core.requests import Wish
from chary.service.pages.fields import PREFIX
from tests.service.kit import serve_dataset, serve_visits, token_of
from tests.service.page_kit import fields_of

ROWS = pa.table({"home": list(range(300)), "day": [date(2024, 1 + home % 3, 5) for home in range(300)]})
HALF = Release(count(), epsilon="0.5")
COUNTED = {"kind": "release", "query": {"kind": "count"}, "epsilon": "0.25"}


@pytest.fixture
def today(monkeypatch):
    """Sets what day it is."""

    def at(day):
        monkeypatch.setattr(periods, "now", lambda: datetime.fromisoformat(day))

    at("2024-03-15")
    return at


@pytest.fixture
def loads(service, today):
    rule = {"budget": Budget(epsilon=1), "blocks": Blocks("day", every="month", since="2024-01")}
    session = chary.open(ROWS, privacy_unit="home", ledger=":memory:", dataset="loads", **rule)
    serve_dataset(service, "loads", session, shared=True)
    return session


@pytest.fixture
def asking(service, address, loads):
    remotes = []

    def make(name="alice", connected=connect, dataset="loads"):
        remotes.append(connected(address, token_of(service, name, ["analyst"]), dataset=dataset, patience=5))
        return remotes[-1]

    yield make
    for remote in remotes:
        remote.close()


def test_a_client_asks_some_blocks_and_they_alone_are_charged(loads, asking):
    remote = asking()
    january = remote.blocks(until="2024-01")
    answer = january.ask(HALF)
    assert (abs(answer.value - 100) < 60, answer.charged.share, answer.left.share) == (True, 0.5, 0.5)
    assert remote.spent_by_block == loads.spent_by_block == {"2024-01": 0.5, "2024-02": 0.0, "2024-03": 0.0}
    assert (january.remaining.share, remote.blocks(date(2024, 2, 1)).remaining.share) == (0.5, 1.0)
    assert remote.quote(HALF).block == "2024-01"
    assert january.quote(HALF).left == 0.5
    january.ask(Release(count(), epsilon="0.4"))
    with pytest.raises(BudgetExceeded):
        remote.ask(HALF)
    run = remote.blocks("2024-02").start(SparseVector(above=500, hits=1, epsilon="0.25"))
    assert not run.ask(count()).hit
    assert remote.spent_by_block == {"2024-01": 0.9, "2024-02": 0.25, "2024-03": 0.25}
    with pytest.raises(InvalidParameter, match="what stands reads all blocks"):
        january.stand(HALF, every="append", share="0.1")


def test_the_same_over_http_in_json(loads, asking):
    remote = asking(connected=connect_json)
    blocks = {"since": "2024-02", "until": "2024-03"}
    assert remote.quote(COUNTED, blocks=blocks)["block"] == "2024-02"
    told = remote.ask(COUNTED | {"blocks": blocks})
    assert abs(told["value"] - 200) < 90
    assert remote.read("budget")["blocks"] == {"2024-01": 0.0, "2024-02": 0.25, "2024-03": 0.25}
    assert remote.read("budget", until="2024-01")["left"] == 1
    assert remote.read()["blocks"] == {"column": "day", "every": "month", "since": "2024-01"}
    run = remote.start({"kind": "sparse_vector", "above": "500", "hits": 1, "epsilon": "0.25", "blocks": blocks})
    assert remote.question(run["run"], {"query": {"kind": "count"}})["above"] is False
    assert loads.spent_by_block == {"2024-01": 0.0, "2024-02": 0.5, "2024-03": 0.5}


@pytest.mark.parametrize(
    ("blocks", "kind", "said"),
    [
        ({"since": "2024-04"}, InvalidQuery, 'blocks: {"since": "2024-01", "until": "2024-03"}'),
        ({"since": "2023-12"}, InvalidQuery, "before the first one"),
        ({"since": "spring"}, InvalidParameter, "since is a month or a day"),
        ({"since": 5}, InvalidParameter, "blocks are said by the first and the last one"),
        ({"from": "2024-01"}, InvalidParameter, "blocks are said by the first and the last one"),
        ([], InvalidParameter, "blocks are said by the first and the last one"),
        ("2024-01", InvalidParameter, "blocks are said by the first and the last one"),
    ],
)
def test_what_names_no_blocks_is_refused_by_its_field_and_free(loads, asking, blocks, kind, said):
    remote = asking(connected=connect_json)
    for asked in (lambda: remote.ask(COUNTED | {"blocks": blocks}), lambda: remote.quote(COUNTED, blocks=blocks)):
        with pytest.raises(kind) as refused:
            asked()
        assert said in str(refused.value)
        assert refused.value.field == "blocks"
    assert loads.spent.share == 0


def test_rows_in_no_blocks_are_asked_without_any(service, asking):
    serve_visits(service)
    remote = asking(connected=connect_json, dataset="visits")
    with pytest.raises(InvalidParameter, match="does not renew"):
        remote.ask(COUNTED | {"blocks": {"since": "2024-01"}})
    assert "blocks" not in remote.read("budget")
    assert "blocks" not in remote.read()


def test_what_was_asked_is_told_again_next_month_under_its_key_and_asked_anew_without(loads, asking, today):
    remote, other = asking(), asking("bob")
    first = remote.ask(HALF, request="one")
    assert other.ask(HALF).call == first.call
    assert loads.spent_by_block == {"2024-01": 0.5, "2024-02": 0.5, "2024-03": 0.5}
    today("2024-04-02")
    assert remote.ask(HALF, request="one") == first
    # Of other blocks it is another question.
    assert other.blocks("2024-04").ask(HALF).call != first.call
    assert loads.spent_by_block == {"2024-01": 0.5, "2024-02": 0.5, "2024-03": 0.5, "2024-04": 0.5}


def test_an_alert_moves_on_through_the_blocks(loads, asking, today):
    remote = asking()
    run = remote.start(Alert(count(), above=1000, window="1 month", epsilon="0.25", below_margin=True))
    assert not run.ask().changed
    before = loads.spent_by_block
    assert before["2024-01"] == 0 < before["2024-02"] == before["2024-03"]
    today("2024-06-10")
    assert not run.ask().changed
    assert loads.spent_by_block == before | {"2024-04": 0.0, "2024-05": before["2024-03"], "2024-06": before["2024-03"]}


def test_a_wish_that_is_kept_names_blocks_where_they_are_said():
    said = COUNTED | {"blocks": {"until": "2024-01"}}
    wish = Wish.of_body("ask", said)
    assert Wish.of_written(str(wish.written()).replace("'", '"').replace("None", "null")) == wish
    assert (wish.body, wish.blocks) == (COUNTED, {"until": "2024-01"})
    assert set(Wish.of_body("ask", COUNTED).written()) == {"action", "body", "run"}


def test_a_chary_toml_says_blocks(tmp_path, today):
    (tmp_path / "loads.csv").write_text("home,day\n1,2024-01-05\n2,2024-02-05\n")
    rule = {"column": "day", "every": "month", "since": "2024-01", "kept": 2}
    said = {"file": "loads.csv", "unit": "home", "columns": {"day": "DATE"}, "budget-epsilon": 1, "blocks": rule}
    datasets = opened_datasets(configured({"folder": tmp_path, "service": {}, "dataset": {"loads": said}}, "a test"))
    assert datasets["loads"].session.spine.blocks == Blocks("day", every="month", since="2024-01", kept=2)
    datasets.close()


def test_a_report_has_a_bar_for_each_block(loads, asking, tmp_path):
    asking().blocks("2024-02").ask(HALF)
    made = report(loads)
    assert made.to_dict()["datasets"][0]["blocks"] == {"2024-01": 0.0, "2024-02": 0.5, "2024-03": 0.5}
    assert "The budget of each block" in made.html()
    assert "| 2024-01 | nothing |" in made.markdown()
    made.save(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").stat().st_size > 5000


def test_the_page_shows_a_bar_a_block_and_asks_some(loads, visit):
    visitor, place = visit(), "/page/datasets/loads/ask"
    assert 'aria-label="Left of 2024-03"' in visitor.get("/page/").text
    said = fields_of(visitor.get(f"{place}?kind=release").text, place)
    said |= {f"{PREFIX}query.kind": "count", f"{PREFIX}epsilon": "0.5", "since": "2024-02", "until": "2024-02"}
    assert "50 % of the budget" in visitor.post(place, **said | {"do": "quote"}).text
    assert visitor.post(place, **said | {"do": "ask"}).status_code == 303
    assert loads.spent_by_block == {"2024-01": 0.0, "2024-02": 0.5, "2024-03": 0.0}
    refused = visitor.post(place, **said | {"do": "ask", "until": "2024-09"}).text
    assert "of the future" in refused
    assert 'value="2024-09"' in refused
    budget = visitor.get("/page/datasets/loads/budget").text
    assert "Each month has a budget of its own" in budget
    assert "50 % charged" in budget


def test_a_published_report_shows_the_bars_too(loads, service, address, visit, asking):
    asking().blocks("2024-02").ask(HALF)
    with connect(address, token_of(service, "carol", ["custodian"]), dataset="loads") as keeper:
        keeper._transport.once("POST", keeper._at("report"), {})
        assert keeper.report().datasets[0].blocks == {"2024-01": 0.0, "2024-02": 0.5, "2024-03": 0.5}
        assert keeper.report(draft=True).to_dict()["datasets"] == report(loads).to_dict()["datasets"]
    page = visit().get("/page/datasets/loads/report")
    assert page.status_code == 200
    assert "2024-02" in page.text
