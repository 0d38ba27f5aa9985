"""What custodians are told: rows that do not stay, keys that came before, what ends, and who else has a token."""

import json
import logging

import duckdb
import pyarrow as pa
import pytest

import chary
from chary import Budget, count
from chary.calls import ThresholdTest
from chary.client import connect, connect_json
from chary.errors import InvalidParameter, LedgerError, OwnerWarning
from chary.service.config import configured
from chary.service.core.datasets import lost_appends, opened_as
from chary.service.core.problems import problem
from tests.service.kit import client_of, serve_dataset, serve_visits, token_of
from tests.session.kit import PUBLIC, USUAL

ROW = pa.table({"patient": [1], "age": [44]})
APPENDS = "/v1/datasets/{}/appends"


@pytest.fixture(scope="module")
def kept(service, tmp_path_factory):
    """The dataset of a DuckDB file, which keeps what is appended."""
    file = tmp_path_factory.mktemp("kept") / "kept.duckdb"
    with duckdb.connect(str(file)) as made:
        made.execute("CREATE TABLE kept (patient BIGINT, age BIGINT)")
    opened = chary.open(str(file), table="kept", privacy_unit="patient", budget=USUAL, ledger=":memory:")
    serve_dataset(service, "kept", opened)
    serve_dataset(service, "frame", chary.open(ROW, **PUBLIC, budget=USUAL, ledger=":memory:", dataset="frame"))
    return opened


@pytest.mark.parametrize(("name", "stays"), [("kept", {}), ("frame", {"kept": False})])
def test_an_append_says_whether_it_is_new_and_stays(kept, keeper, name, stays):
    body, key = {"rows": ROW.to_pylist()}, {"Idempotency-Key": "monday"}
    first, again = (keeper.post(APPENDS.format(name), json=body, headers=key).json() for _ in range(2))
    assert first.pop("version") == again.pop("version")
    assert (first, again) == (stays, {"new": False} | stays)
    assert "new" not in keeper.post(APPENDS.format(name), json=body).json()


@pytest.mark.parametrize("name", ["kept", "frame"])
def test_a_client_warns_of_what_was_not_added_and_of_what_goes(service, kept, address, recwarn, name):
    token = token_of(service, "carol", ["custodian"])
    with connect(address, token, dataset=name) as remote, connect_json(address, token, dataset=name) as plain:
        version = remote.append(ROW, request="client")
        first = [str(each.message) for each in recwarn]
        recwarn.clear()
        assert remote.append(ROW, request="client") == version
        assert plain.append(b"patient,age\n1,44\n", request="client") == version
    again = [str(each.message) for each in recwarn if each.category is OwnerWarning]
    goes = f"version {version} is gone when the service stops, since its appended rows live in memory: append it again "
    there = f"version {version} was there before under this key: nothing was added now"
    lost = [] if name == "kept" else [f"{goes}then"]
    assert (first, again) == (lost, 2 * [there, *lost])


def test_the_start_tells_what_is_charged_and_what_will_not_stay(service, kept):
    served = {name: service.datasets[name] for name in ("kept", "frame")}
    told = opened_as(served)
    assert told == {"frame": "0 % charged", "kept": "0 % charged"}
    one, two = (configured({"folder": ".", "service": {"workers": many}, "dataset": {}}, "a test") for many in (1, 2))
    [line] = lost_appends(one, served)
    assert line.startswith("dataset frame: appended rows live in this process and are gone at its end")
    assert lost_appends(two, served) == []  # which takes none


@pytest.mark.parametrize("token", ["", " ", "\t"])
def test_an_empty_token_is_refused_before_anything_is_sent(token):
    for connecting in (connect, connect_json):
        with pytest.raises(InvalidParameter, match="a token is the text that chary token new has shown, and not empty"):
            connecting("http://127.0.0.1:1", token, patience=60)


def test_the_end_of_free_misses_is_logged_with_who_ended_them(service, address, caplog):
    budget = Budget(epsilon=1, delta=1e-6)
    serve_dataset(service, "ending", chary.open(ROW, **PUBLIC, budget=budget, ledger=":memory:", dataset="ending"))
    reader = client_of(address, token_of(service, "pro", ["reader"]))
    with connect(address, token_of(service, "bob"), dataset="ending") as bob:
        bob.release(count(), epsilon="0.1")

        def ended():
            return [json.loads(line) for each in caplog.records if "free misses" in (line := each.getMessage())]

        assert ended() == []
        assert 'chary_free_misses_ended{dataset="ending"} 0.0' in reader.get("/metrics").text
        for epsilon in ("0.7", "0.01"):
            bob.release(count(), epsilon=epsilon)
        assert bob.free_misses_ended
    [line] = ended()
    assert (line["event"], line["dataset"], line["analyst"]) == ("free misses ended", "ending", "bob")
    assert 'chary_free_misses_ended{dataset="ending"} 1.0' in reader.get("/metrics").text
    reader.close()


def test_who_revokes_a_token_is_told_what_ends_with_it(service, address, keeper):
    tokens = {name: token_of(service, name) for name in ("ann", "ben")}
    with connect(address, tokens["ann"], dataset="visits") as ann:
        for above in (10**6, 2 * 10**6):
            ann.stand(ThresholdTest(count(), above=above, epsilon="0.01"), every="append", share="0.2")
        ann.end(ann.standing[0]["standing"])
    told = [keeper.delete(f"/v1/tokens/{each.split('_')[1]}").json() for each in tokens.values()]
    assert told == [{"revoked": True, "ends": 1}, {"revoked": True}]


def test_a_custodian_sees_who_else_reads_the_dataset_and_ends_none_of_them(service, address, arriving):
    serve_visits(service, "hidden")
    of = {
        "max": ["*"],
        "zoe": ["visits", "hidden"],
        "far": ["hidden"],
    }
    tokens = {name: token_of(service, name, datasets=datasets) for name, datasets in of.items()}
    with client_of(address, token_of(service, "cleo", ["custodian"], ["visits"])) as carol:
        listed = carol.get("/v1/tokens")
        assert "hidden" not in listed.text
        told = {each["analyst"]: each for each in listed.json()["items"]}
        assert "revocable" not in told["cleo"]
        for name, datasets in (("max", ["*"]), ("zoe", ["visits"])):
            assert (told[name]["datasets"], told[name]["revocable"]) == (datasets, False)
            assert carol.delete(f"/v1/tokens/{told[name]['token']}").status_code == 404
        assert "far" not in told
    page = arriving("carol", ["custodian"], ["visits"]).get("/page/datasets/visits/custodian").text
    for name, shown in (("max", True), ("zoe", True), ("far", False)):
        named = tokens[name].split("_")[1]
        assert (named in page) is shown
        assert f"{named}/revoke" not in page
    assert "hidden" not in page.replace('class="hidden"', "").replace('type="hidden"', "")


def test_a_refused_request_is_logged_with_its_token(service, address, caplog):
    token = token_of(service, "rita", ["reader"])
    with caplog.at_level(logging.INFO, "chary.service"), client_of(address, token) as rita:
        assert rita.post("/v1/datasets/visits/calls", json={}).status_code == 403
    [line] = [line for each in caplog.records if (line := json.loads(each.getMessage())).get("status") == 403]
    assert line["token"] == token.split("_")[1]


def test_a_ledger_that_was_replaced_is_opened_again_by_a_restart():
    told = problem(LedgerError("the ledger's file was replaced while it was open: open the ledger again"))
    assert told["detail"] == "the ledger's file was replaced while it was open: restart the service"
    assert "python" not in told
