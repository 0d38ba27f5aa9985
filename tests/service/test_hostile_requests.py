"""Requests that mean harm: nothing but a problem comes of them, nothing is charged, nothing is told."""

import http.client
import json
import socket
import time

import pytest
from sqlalchemy import text

from chary.service.auth.rate_limits import Rates
from chary.service.store import ServiceStore
from tests.service.kit import bearing, client_of, listening, serve_visits, service_at, token_of
from tests.session.kit import shows_data

CALLS = "/v1/datasets/visits/calls"
TEST = {"kind": "test", "query": {"kind": "count"}, "above": 500, "epsilon": "0.1"}


@pytest.fixture
def spent(service):
    """Nothing is charged by the end."""
    session = service.datasets["visits"].session
    before = session.spent
    yield
    assert session.spent == before


def is_problem(response, status):
    told = response.json()
    assert response.status_code == told["status"] == status
    assert response.headers["content-type"] == "application/problem+json"
    assert told["type"].startswith("urn:chary:problem:")
    assert not shows_data(response.text)
    return told


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"kind": "test", "kind": "release"}',
        b'{"kind": "test", "above": NaN}',
        b'{"kind": "test", "above": 1e999}',
        b'{"kind": "test", "above": -Infinity}',
        b'{"kind": "test", "query": "\\ud800"}',
        b'{"kind": "te\\u0000st"}',
        b'\xff\xfe{"kind": "test"}',
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"[" * 100_000,
        b'{"above": ' + b"9" * 5_000 + b"}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_plain_json_is_refused(http, spent, body):
    is_problem(http.post(CALLS, content=body, headers={"Content-Type": "application/json"}), 422)


@pytest.mark.parametrize(
    "body", [{}, {"kind": 7}, {"kind": ["test"]}, {"kind": None}, TEST | {"self": 1}, TEST | {"": 1}]
)
def test_a_body_that_is_no_call_is_refused(http, spent, body):
    is_problem(http.post(CALLS, json=body), 422)


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/json; charset=utf-7"],
)
def test_a_post_that_another_site_could_send_is_refused(http, spent, media):
    response = http.post(
        CALLS, content=json.dumps(TEST), headers={"Content-Type": media, "Origin": "https://evil.example"}
    )
    is_problem(response, 415)
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_other_hosts_are_refused(http, spent):
    for host in ("evil.example", "127.0.0.1.evil.example", "", "127.0.0.1:80:80"):
        is_problem(http.get("/v1/datasets", headers={"Host": host}), 421)


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Prefer"])
def test_a_header_that_comes_twice_is_refused(http, spent, name):
    given = {"Authorization": http.headers["Authorization"], "Content-Type": "application/json"}
    given |= {"Idempotency-Key": "a", "Prefer": "wait=1"}
    headers = [*given.items(), (name, given[name])]
    request = http.build_request("POST", CALLS, content=json.dumps(TEST), headers=headers)
    is_problem(http.send(request), 400)


@pytest.mark.parametrize("key", [b"", b'""', b"\xff\xfe", b"x" * 501, b"a\tb"])
def test_a_request_key_that_could_be_two_is_refused(http, spent, key):
    is_problem(http.post(CALLS, json=TEST, headers={"Idempotency-Key": key}), 400)


def test_large_bodies_are_refused_before_they_are_read(http, address, spent):
    is_problem(http.post(CALLS, json={"kind": "x" * 1_000_001}), 413)
    is_problem(http.post(CALLS, content=iter([b" " * 100_000] * 11), headers={"Content-Type": "application/json"}), 413)
    host = address.removeprefix("http://")
    connection = http_client(host)
    connection.putrequest("POST", CALLS)
    for name, value in (
        bearing_of(http) | {"Content-Type": "application/json", "Content-Length": "99999999999"}
    ).items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def http_client(host):
    return http.client.HTTPConnection(host, timeout=30)


def bearing_of(client):
    return {"Authorization": client.headers["Authorization"]}


def test_a_slow_body_is_given_up(tmp_path):
    service = service_at(tmp_path, **{"body-seconds": 0.3})
    serve_visits(service)
    with listening(service) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as line:
            head = f"POST {CALLS} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token_of(service)}\r\n"
            line.sendall((head + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{").encode())
            began = time.monotonic()
            assert b" 408 " in line.recv(4096).split(b"\r\n")[0]
            assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "path",
    [
        "/v1/datasets/..%2F..%2Fetc%2Fpasswd/schema",
        "/v1/datasets/../../etc/passwd",
        "/v1/datasets/visits'%20OR%201=1--/schema",
        "/v1/datasets/visits%00/schema",
        "/v1/datasets/%ff/schema",
        "/v1/datasets/" + "x" * 201 + "/schema",
        "/v1/datasets/visits/",
        "/v1/datasets/visits/calls/0",
        "/v1/datasets/visits/calls/-1",
        "/v1/datasets/visits/calls/99999999999999999999",
        "/v1/datasets/visits/calls/1;DROP TABLE calls",
        "/v1/datasets/visits/calls/9007199254740992",
        "/v1/datasets/visits/runs/9007199254740992",
        "/v1/datasets/visits/calls?after=-1",
        "/v1/datasets/visits/calls?limit=501",
        "/v1/jobs/0000000000000000",
        "/v1/jobs/..",
        "/docs",
        "/redoc",
    ],
)
def test_paths_lead_nowhere_else(http, spent, path):
    response = http.get(path)
    assert response.status_code in (404, 422)
    is_problem(response, response.status_code)


@pytest.mark.parametrize(
    "where",
    [
        "1=1; DROP TABLE visits",
        "age > (SELECT max(age) FROM visits)",
        "note = read_text('/etc/passwd')",
        "clinic = 'x' UNION SELECT note",
        "1/0 > 0",
        "CAST(note AS INTEGER) > 0",
    ],
)
def test_a_condition_is_no_way_into_the_engine(http, spent, where):
    body = {"kind": "release", "query": {"kind": "count", "where": where}, "epsilon": "0.1"}
    told = is_problem(http.post(CALLS, json=body), 422)
    assert told["type"].endswith("invalid-query")


def test_guessing_is_slowed_and_locks_out_no_right_token_behind_the_same_address(tmp_path):
    service = service_at(tmp_path)
    service.failures = Rates(each_second=0.1, burst=10, clock=lambda: 0.0)
    serve_visits(service)
    with listening(service) as address, client_of(address) as client:
        known, fresh = token_of(service), token_of(service, "bob")
        assert client.get("/v1/datasets", headers=bearing(known)).status_code == 200
        statuses = [client.get("/v1/datasets", headers=bearing(f"chary_{n:016x}_x")).status_code for n in range(14)]
        assert statuses == [401] * 10 + [429] * 4
        slowed = client.get("/v1/datasets", headers=bearing("chary_00000000000000ff_x"))
        assert is_problem(slowed, 429)
        assert int(slowed.headers["retry-after"]) >= 1
        assert [client.get("/v1/datasets", headers=bearing(each)).status_code for each in (known, fresh)] == [200] * 2


def test_wrong_secrets_count_by_the_token_whose_name_they_have(tmp_path):
    service = service_at(tmp_path)
    service.failures = Rates(each_second=0.1, burst=10, clock=lambda: 0.0)
    serve_visits(service)
    with listening(service) as address, client_of(address) as client:
        alice, bob = token_of(service), token_of(service, "bob")
        forged = [f"{token}x" for token in (alice, bob)]
        statuses = [client.get("/v1/datasets", headers=bearing(forged[0])).status_code for _ in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        # Others behind this address hear what is wrong with theirs, and whoever has the token still comes in.
        assert client.get("/v1/datasets", headers=bearing(forged[1])).status_code == 401
        assert client.get("/v1/datasets", headers=bearing("chary_0000000000000000_x")).status_code == 401
        assert client.get("/v1/datasets", headers=bearing(alice)).status_code == 200


def test_a_token_that_comes_too_often_waits(tmp_path):
    service = service_at(tmp_path, rate=0.001, burst=3)
    serve_visits(service)
    with listening(service) as address:
        tokens = [token_of(service, name) for name in ("alice", "bob")]
        with client_of(address, tokens[0]) as alice, client_of(address, tokens[1]) as bob:
            assert [alice.get("/v1/datasets").status_code for _ in range(4)] == [200, 200, 200, 429]
            assert bob.get("/v1/datasets").status_code == 200


def test_a_trail_that_was_changed_is_found(tmp_path):
    service = service_at(tmp_path)
    serve_visits(service)
    with listening(service) as address, client_of(address, token_of(service, "al", ["analyst", "custodian"])) as client:
        for above in (1, 2, 3):
            client.post(CALLS, json=TEST | {"above": 10**6 + above}, headers={"Idempotency-Key": f"key {above}"})
        trail = client.get("/v1/trail").json()["items"]
        assert [entry["request"] for entry in trail] == ["key 1", "key 2", "key 3"]
        assert {entry["analyst"] for entry in trail} == {"al"}
        assert client.get("/v1/trail/checked").json() == {"broken": None}
        service.store.change(text("UPDATE chary_trail SET analyst = 'mallory' WHERE number = 2"))
        assert client.get("/v1/trail/checked").json() == {"broken": 2}
        service.store.change(text("UPDATE chary_trail SET analyst = 'al' WHERE number = 2"))
        service.store.change(text("DELETE FROM chary_trail WHERE number = 1"))
        assert client.get("/v1/trail/checked").json() == {"broken": 1}


def test_pages_of_a_dataset_with_a_name_in_any_script_follow_one_another(service, address):
    serve_visits(service, "日本 ü")
    with client_of(address, token_of(service)) as client:
        place = "/v1/datasets/日本 ü/calls"
        asked = [client.post(place, json=TEST).json()["call"] for _ in range(2)]
        first = client.get(place, params={"limit": 1})
        second = client.get(first.links["next"]["url"])
    assert [each.json()["items"][0]["call"] for each in (first, second)] == asked


def test_what_everybody_asked_is_for_the_owner_of_the_service_alone(tmp_path):
    place = tmp_path / "service.db"
    for _ in range(2):
        ServiceStore(place).close()
        assert place.stat().st_mode & 0o777 == 0o600
        place.chmod(0o644)
