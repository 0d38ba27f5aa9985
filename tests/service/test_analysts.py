"""Analysts apart: whose answers are shown to whom, caps, shared answers that are free, reports for readers."""

import gzip
import hashlib
import json
import re
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from sqlalchemy import insert

import chary
from chary import BudgetExceeded, NotWithheld, count
from chary.calls import Release, ReleaseIf, SparseVector, ThresholdTest, Widen
from chary.client import connect
from chary.client.files import RowFile
from chary.client.problems import Refusal
from chary.errors import CharyError, InvalidParameter, InvalidQuery, OwnerWarning, RequestConflict
from chary.ledger import open_ledger
from chary.report import report
from chary.service.store import REQUESTS
from tests.service.kit import serve_dataset, serve_visits, token_of
from tests.session.kit import PUBLIC, USUAL, visits

QUESTION = Release(count("age >= 44"), epsilon="0.01")


@pytest.fixture
def asking(service, address):
    """Clients by name, all of the same dataset."""
    opened = []

    def make(name, dataset="visits", roles=("analyst",)):
        opened.append(connect(address, token_of(service, name, roles), dataset=dataset, patience=5))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_nobody_sees_what_others_asked(asking):
    alice, bob = asking("alice"), asking("bob")
    answer, run = alice.ask(QUESTION), alice.start(SparseVector(above=10, hits=2, epsilon="0.01"))
    assert {answer.call, run.call} <= {entry.call for entry in alice.history}
    assert not {answer.call, run.call} & {entry.call for entry in bob.history}
    assert run.call not in {each.call for each in bob.runs}
    for attempt in (lambda: bob.resume(run.call), lambda: bob.question(run.call, {"query": {"kind": "count"}}, None)):
        with pytest.raises(NotWithheld, match="opened no run of this dataset"):
            attempt()
    assert bob.spent == alice.spent
    custodian = asking("carol", roles=["custodian"])
    assert {answer.call, run.call} <= {entry.call for entry in custodian.history}


def test_a_question_that_was_answered_is_free_where_answers_are_shared(service, asking):
    serve_visits(service, "shared", shared=True, **PUBLIC)
    alice, bob, carol = (asking(name, "shared") for name in ("alice", "bob", "carol"))
    answer = alice.ask(QUESTION)
    before = alice.spent
    assert bob.ask(QUESTION) == answer
    assert alice.spent == before
    assert answer.call in {entry.call for entry in bob.history}
    keeper = asking("dora", "shared", ["custodian"])
    keeper.append(pa.table(service.datasets["shared"].session.spine.rows.schema and rows_like(service)))
    after = carol.ask(QUESTION)
    assert after.call != answer.call
    assert carol.spent.share > before.share


def test_a_request_key_has_one_answer_where_answers_are_shared_too(service, asking):
    serve_visits(service, "keyed", shared=True, **PUBLIC)
    alice, bob, keeper = asking("alice", "keyed"), asking("bob", "keyed"), asking("dora", "keyed", ["custodian"])
    own = bob.ask(QUESTION, request="own")
    told = alice.ask(QUESTION, request="told")
    assert told == own
    keeper.append(pa.table(rows_like(service)))
    newer = alice.ask(QUESTION, request="newer")
    spent = alice.spent
    assert newer.call != own.call
    assert (bob.ask(QUESTION, request="own"), alice.ask(QUESTION, request="told")) == (own, own)
    assert alice.spent == spent
    other = Release(count("age >= 45"), epsilon="0.01")
    alice.ask(other)
    for key, asker in (("own", bob), ("told", alice)):
        with pytest.raises(RequestConflict):
            asker.ask(other, request=key)


def test_a_key_that_was_kept_before_the_ledger_was_restored_tells_nothing_of_another_dataset(service, asking):
    ledger = open_ledger(":memory:")
    for name in ("first", "second"):
        serve_dataset(
            service, name, chary.open(visits(), **PUBLIC, ledger=ledger, budget=USUAL, dataset=name), shared=True
        )
    service.datasets["second"].session.set_quota("carol", "0.5")  # now it is in the ledger
    answer = service.datasets["first"].session.ask(QUESTION)
    kept = {"dataset": "second", "analyst": "bob", "request": "old", "call": answer.call}
    service.store.change(insert(REQUESTS).values(**kept))
    with pytest.raises(RequestConflict):
        asking("bob", "second").ask(QUESTION, request="old")


def test_what_an_analyst_held_back_is_taken_by_nobody_else(asking):
    alice, bob = asking("alice"), asking("bob")
    held = alice.ask(ReleaseIf(count(), above=10**6, epsilon="0.01"))
    for attempt in (bob.ask, bob.quote):
        said = []
        for number in (held.call, 10**6):
            with pytest.raises(NotWithheld) as refused:
                attempt(Widen(number, above=0))
            said.append(str(refused.value))
        assert said[0] == said[1]
    with pytest.raises(NotWithheld):
        bob.stand(Widen(held.call, above=0), every="append", share="0.5")
    assert alice.ask(Widen(held.call, above=-(10**6))).hit


def test_a_run_of_somebody_else_is_told_of_like_one_that_is_not_there(asking):
    alice, bob = asking("alice"), asking("bob")
    run, said = alice.start(SparseVector(above=10, hits=2, epsilon="0.01")), []
    for number in (run.call, 10**6):
        with pytest.raises(NotWithheld) as refused:
            bob.resume(number)
        said.append(str(refused.value).replace(str(number), "N"))
    assert said[0] == said[1]


def rows_like(service):
    """One more row of the visits."""
    schema = service.datasets["shared"].session.schema
    return {name: ["north" if kind == "string" else 1.0 if kind == "float64" else 44] for name, kind in schema.items()}


def test_answers_that_are_not_shared_are_paid_by_each(asking):
    alice, bob = asking("alice"), asking("bob")
    before = alice.spent
    assert alice.ask(QUESTION).call != bob.ask(QUESTION).call
    assert alice.spent.share > before.share


def test_a_cap_holds_for_one_analyst(asking):
    custodian, erin, bob = asking("carol", roles=["custodian"]), asking("erin"), asking("bob")
    custodian.set_quota("erin", "0.001")
    with pytest.raises(BudgetExceeded, match="would fit") as refused:
        erin.ask(Release(count(), epsilon="0.1"))
    assert refused.value.figures["left"] == pytest.approx(0.001)
    assert 0 < refused.value.figures["epsilon"] < 0.1 < refused.value.figures["asked"] * 100
    assert bob.ask(Release(count(), epsilon="0.1")).charged.share > 0
    assert erin.history == []


def test_a_request_key_is_one_question(asking):
    alice = asking("alice")
    key = 'zoë "1" \\'
    first = alice.ask(QUESTION, request=key)
    assert alice.ask(QUESTION, request=key) == first
    with pytest.raises(RequestConflict):
        alice.ask(ThresholdTest(count(), above=1, epsilon="0.01"), request=key)
    assert asking("bob").ask(QUESTION, request=key) != first


def test_what_opens_a_run_is_started_and_what_does_not_is_asked(http):
    run, call = {"kind": "sparse_vector", "above": 1, "hits": 1, "epsilon": "0.01"}, QUESTION.body()
    assert http.post("/v1/datasets/visits/calls", json=run).json()["detail"] == "this opens a run: start it"
    assert http.post("/v1/datasets/visits/runs", json=call).json()["detail"] == "this opens no run: ask it"


def test_a_report_is_read_once_it_was_published(service, asking):
    reader, custodian = asking("rae", roles=["reader"]), asking("carol", roles=["custodian"])
    asking("alice").ask(QUESTION)
    with pytest.raises(Refusal, match="no report of this dataset was published"):
        reader.report()
    with pytest.raises(Refusal, match="custodian"):
        reader.report(draft=True)
    draft = custodian.report(draft=True)
    assert draft.csv() == report(service.datasets["visits"].session).csv()
    assert custodian._transport.once("POST", custodian._at("report"), {})["head"] == draft.head
    assert reader.report().csv() == draft.csv()
    with pytest.raises(CharyError, match="analyst"):
        reader.ask(QUESTION)
    page = reader._transport._client.get("/v1/datasets/visits/report", params={"form": "html"})
    assert page.text == reader.report().html()
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_rows_arrive_whole_and_once(service, asking):
    serve_visits(service, "growing", **PUBLIC)
    keeper = asking("carol", "growing", ["custodian"])
    rows = [{"patient": 1, "clinic": "north", "age": 44, "cost": 1.5, "note": "none"}] * 3
    version = keeper.append(pa.Table.from_pylist(rows), request="monday")
    assert keeper.append(pa.Table.from_pylist(rows), request="monday") == version
    assert keeper.size == 123
    told = keeper._transport._client.post("/v1/datasets/growing/appends", json={"rows": rows})
    assert told.json() == {"version": version + 1, "kept": False}
    assert [each.number for each in keeper.versions] == list(range(1, version + 2))
    for wrong in (
        {"rows": [{"patient": 1}]},
        {"rows": []},
        {"rows": [rows[0] | {"age": "x"}]},
        {"rows": rows, "more": 1},
    ):
        assert keeper._transport._client.post("/v1/datasets/growing/appends", json=wrong).status_code == 422
    torn = keeper._transport._client.post(
        "/v1/datasets/growing/appends",
        content=b"x" * 99,
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )
    assert torn.json()["detail"] == "the body is no Arrow stream of one table"
    assert keeper.size == 126
    with pytest.raises(InvalidQuery, match="secret"):
        asking("alice").size  # noqa: B018


def test_a_csv_is_read_as_the_dataset_was_opened(service, asking, tmp_path):
    (tmp_path / "visits.csv").write_text("patient,clinic,age\n1,north,44\n")
    declared = {"columns": {"patient": "BIGINT", "age": "BIGINT"}}
    session = chary.open(str(tmp_path / "visits.csv"), **PUBLIC, **declared, budget=USUAL, ledger=":memory:")
    serve_dataset(service, "csv", session)
    keeper = asking("carol", "csv", ["custodian"])
    send = partial(keeper._transport._client.post, "/v1/datasets/csv/appends", headers={"Content-Type": "text/csv"})
    assert send(content="age,clinic,patient\n50,south,2\n,east,3\n").json() == {"version": 2, "kept": False}
    assert keeper.size == 3
    assert session.spine.rows.schema == {"patient": "int64", "clinic": "string", "age": "int64"}
    keyed = {"Content-Type": "text/csv", "Idempotency-Key": "b3"}
    with pytest.warns(OwnerWarning, match="csv, version 3, column age: 2 of 2 cells are not BIGINT, and are NULL"):
        told = send(content="age,clinic,patient\nold,south,4\n5x,east,5\n,east,6\n", headers=keyed)
    assert told.json() == {"version": 3, "kept": False, "unparsed": {"age": 2}}
    again = send(content="age,clinic,patient\n1,south,7\n", headers=keyed)
    assert again.json() == {"version": 3, "new": False, "kept": False}
    for wrong in ("patient,clinic\n1,SECRETNAME\n", "", "\0", "1,SECRETNAME,44\n"):
        told = send(content=wrong)
        assert (told.status_code, keeper.size) == (422, 6)
        assert not {"SECRETNAME", "chary-rows"} & set(re.split(r"[^\w-]", told.json()["detail"]))
    (tmp_path / "late.csv").write_text("patient,clinic,age\n9,north,old\n")
    with pytest.warns(OwnerWarning, match="column age: 1 cells are not of its type, and are NULL. This is not private"):
        keeper.append(tmp_path / "late.csv", request="late")


@pytest.mark.parametrize(
    "name", ["b.csv", "b.tsv", "b.csv.gz", "b.csv.zst", "b.parquet", "b.arrow", "b.feather", "both"]
)
def test_a_client_appends_files_as_a_session_does(service, asking, tmp_path, name):
    (tmp_path / "visits.csv").write_text("patient,clinic,age\n1,north,44\n")
    declared = {"columns": {"patient": "BIGINT", "age": "BIGINT"}}
    session = chary.open(str(tmp_path / "visits.csv"), **PUBLIC, **declared, budget=USUAL, ledger=":memory:")
    serve_dataset(service, "files", session)
    keeper = asking("carol", "files", ["custodian"])
    text = "age,clinic,patient\n50,south,2\n,east,3\n"
    (tmp_path / "b.csv").write_text(text)
    (tmp_path / "b.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "day=1").mkdir()
    place = tmp_path / "day=1" / "b.parquet"
    table = pa.table({"age": [50, None], "clinic": ["south", "east"], "patient": [2, 3]})
    pq.write_table(table, place)
    for ending in ("arrow", "feather"):
        feather.write_feather(table, tmp_path / f"b.{ending}", compression="uncompressed")
    with pa.output_stream(tmp_path / "b.csv.zst", compression="zstd") as packed:
        packed.write(text.encode())
    rows = {"b.parquet": place, "both": [place, str(place)]}.get(name, tmp_path / name)
    assert keeper.append(rows, request="monday") == 2
    assert keeper.append(rows, request="monday") == 2
    assert keeper.size == (5 if name == "both" else 3)
    found = session.spine.rows.snapshot().run().to_pylist()
    assert {"patient": 2, "clinic": "south", "age": 50} in found
    assert {"patient": 3, "clinic": "east", "age": None} in found


def test_a_file_without_a_key_is_added_once_and_its_key_tells_nothing(service, asking, tmp_path):
    serve_visits(service, "growing", **PUBLIC)
    keeper, other = (asking(name, "growing", ["custodian"]) for name in ("carol", "dave"))
    header = "patient,clinic,age,cost,note\n"
    (tmp_path / "monday").mkdir()
    week, moved = tmp_path / "week.csv", tmp_path / "monday" / "week.csv"
    for place in (week, moved, tmp_path / "copy.csv"):
        place.write_text(f"{header}1,north,44,1.5,none\n")
    assert [keeper.append(place) for place in (week, str(week), moved)] == [2, 2, 2]
    # Batches with names of their own are several, so that nobody learns that they are alike; and so they are of others.
    assert [keeper.append(tmp_path / "copy.csv"), keeper.append(week, request="again"), other.append(week)] == [3, 4, 5]
    week.write_text(f"{header}2,north,44,1.5,none\n")
    assert [keeper.append(week), keeper.size] == [6, 125]
    shown = json.dumps(list(service.datasets["growing"].session.spine.ledger.export("growing")))
    contents = moved.read_bytes()
    assert hashlib.sha256(contents).hexdigest() not in shown
    assert RowFile.of(moved).key(b"another secret") not in shown
    assert shown.count('"file ') == 4


def test_a_file_is_sent_in_parts_and_from_its_begin_each_time(tmp_path):
    place = tmp_path / "b.csv"
    place.write_bytes(b"x" * 2_500_000)
    file = RowFile.of(place)
    assert [[len(part) for part in file] for _ in range(2)] == [[1 << 20, 1 << 20, 2_500_000 - (2 << 20)]] * 2


def test_a_client_refuses_files_that_it_cannot_send(asking, tmp_path):
    keeper = asking("carol", "visits", ["custodian"])
    (tmp_path / "b.csv").write_text("a\n1\n")
    (tmp_path / "b.parquet.gz").write_bytes(b"")
    wrongs = ("missing.csv", "b.txt", "b", "b.gz", "b.parquet.gz", "b*.csv")
    for wrong in (*(tmp_path / name for name in wrongs), [tmp_path / "b.csv"] * 2, 5):
        with pytest.raises(InvalidParameter):
            keeper.append(wrong)


UNKNOWN = [
    ("POST", "/v1/datasets/visits/quotes", {"call": {"kind": "test"}}),
    ("PUT", "/v1/datasets/visits/shares/bob", {"share": "0.5"}),
    ("POST", "/v1/datasets/visits/standing", {"call": {"kind": "test"}, "every": "append", "share": "0.1"}),
    ("PUT", "/v1/datasets/visits/standing/0123456789abcdef", {"state": "paused"}),
    ("POST", "/v1/datasets/visits/appends", {"rows": []}),
    ("POST", "/v1/tokens", {"analyst": "fay", "roles": ["analyst"], "datasets": ["visits"], "days": 1}),
]


@pytest.mark.parametrize(("method", "place", "body"), UNKNOWN)
def test_a_field_that_is_not_known_is_named(asking, method, place, body):
    keeper = asking("carol", roles=["custodian", "analyst"])
    keyed = {"Idempotency-Key": '"a field"'}
    told = keeper._transport._client.request(method, place, json=body | {"unheard": 1}, headers=keyed)
    assert told.status_code == 422
    assert told.json()["detail"].startswith("there is no field 'unheard' here: ")
    assert told.json()["field"] == "unheard"


@pytest.mark.parametrize("where", ["query", "by", "call"])
def test_a_field_of_a_call_that_is_not_known_is_named(asking, where):
    by = {"columns": ["clinic"], "keys": [["north"]], "types": [""], "max_groups_per_unit": 1}
    call = {"kind": "release", "query": {"kind": "count", "by": by}, "epsilon": "0.01"}
    {"query": call["query"], "by": by, "call": call}[where]["unheard"] = 1
    told = asking("alice")._transport._client.post("/v1/datasets/visits/calls", json=call)
    assert told.status_code == 422
    assert "unheard" in told.json()["detail"]


def test_no_analyst_is_told_what_is_not_read(service, asking, tmp_path):
    (tmp_path / "visits.csv").write_text("patient,clinic,age\n1,north,44\n2,south,old\n")
    declared = {"columns": {"patient": "BIGINT", "age": "BIGINT"}}
    with pytest.warns(OwnerWarning, match="column age: 1 of 2 cells are not BIGINT"):
        session = chary.open(str(tmp_path / "visits.csv"), **PUBLIC, **declared, budget=USUAL, ledger=":memory:")
    serve_dataset(service, "broken", session)
    client = asking("alice", "broken")._transport._client
    asked = {"kind": "release", "query": {"kind": "count", "where": "age > 1"}, "epsilon": "0.01"}
    answers = [client.post("/v1/datasets/broken/calls", json=asked, headers={"Idempotency-Key": '"a"'})]
    answers += [
        client.get(f"/v1/datasets/broken{part}") for part in ("", "/statement", "/versions", "/calls", "/budget")
    ]
    for answer in answers:
        assert answer.is_success
        assert not {"unparsed", "cells"} & set(re.split(r"[^a-z]", answer.text.lower()))


def test_a_token_is_made_by_a_custodian_for_less_than_its_own(service, address, http):
    keeper = connect(address, token_of(service, "carol", ["custodian"], ["visits"]))
    client = keeper._transport._client
    said = {"analyst": "fay", "roles": ["analyst"], "datasets": ["visits"], "days": 1}
    token = client.post("/v1/tokens", json=said).json()["token"]
    with connect(address, token, patience=1) as fay:
        assert fay.dataset == "visits"
        name = token.split("_")[1]
        assert name in {each["token"] for each in client.get("/v1/tokens").json()["items"]}
        assert client.delete(f"/v1/tokens/{name}").json() == {"revoked": True}
        with pytest.raises(Refusal, match="revoked"):
            fay.schema  # noqa: B018
    assert client.post("/v1/tokens", json=said | {"datasets": ["*"]}).status_code == 403
    assert client.post("/v1/tokens", json=said | {"datasets": ["growing"]}).status_code == 403
    assert client.post("/v1/tokens", json=said | {"roles": ["root"]}).status_code == 422
    everywhere = service.tokens.recognise(token_of(service, "gil")).token
    assert client.delete(f"/v1/tokens/{everywhere}").status_code == 404
    keeper.close()
