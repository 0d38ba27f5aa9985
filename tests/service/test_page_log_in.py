"""Logging in to the page: cookies that end with their tokens, and posts that come from its own forms alone."""

import re

import pytest
from fastapi.routing import APIRoute

from chary.service.app import PAGES
from chary.service.auth.rate_limits import Rates
from chary.service.auth.tokens import ACTIONS, Role
from chary.service.pages import ask, overview
from chary.service.pages.frame import Logged, LogIns, Visiting
from tests.service.kit import bearing, client_of, listening, serve_visits, service_at, token_of
from tests.service.page_kit import Visitor

HISTORY = "/page/datasets/visits/history"


@pytest.fixture
def alice(visit):
    return visit()


def test_whoever_is_not_logged_in_is_asked_to_and_led_back(service, visit):
    visitor = visit(None)
    sent = visitor.get(HISTORY)
    assert (sent.status_code, sent.headers["location"]) == (303, f"/page/log-in?then={HISTORY}")
    led = visitor.log_in(token_of(service), then=HISTORY)
    assert (led.status_code, led.headers["location"]) == (303, HISTORY)
    assert visitor.get(HISTORY).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page"])
def test_the_page_is_found_without_its_last_stroke(visit, path):
    sent = visit(None).get(path)
    assert (sent.status_code, sent.headers["location"]) == (303, "/page/")


@pytest.mark.parametrize("then", ["https://evil.example/", "//evil.example", "/page/\\evil", "/v1/datasets", "page/"])
def test_nobody_is_led_elsewhere(service, visit, then):
    assert visit(None).log_in(token_of(service), then=then).headers["location"] == "/page/"


def test_a_cookie_holds_no_token_and_no_script_or_other_site_sees_it(service, visit):
    token = token_of(service)
    cookie = visit(None).log_in(token).headers["set-cookie"]
    assert token not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_behind_https_the_cookie_is_for_https_alone(service, address):
    host = address.removeprefix("http://")
    with client_of(address) as client:
        sent = client.post("/page/log-in", data={"token": token_of(service)}, headers={"Origin": f"https://{host}"})
    assert sent.headers["set-cookie"].startswith("__Host-chary=")
    assert "Secure" in sent.headers["set-cookie"]


def test_a_cookie_is_no_token_for_programs(address, alice):
    with client_of(address) as client:
        client.cookies = alice.http.cookies
        assert client.get("/v1/datasets").status_code == 401
        assert client.get("/v1/datasets", headers=bearing(alice.http.cookies["chary"])).status_code == 401


def test_a_revoked_token_is_out_at_its_next_request(service, visit):
    token = token_of(service, "bob")
    visitor = visit(token)
    assert visitor.get(HISTORY).status_code == 200
    service.tokens.revoke(token.split("_")[1])
    assert visitor.get(HISTORY).headers["location"].startswith("/page/log-in")


def test_logging_out_ends_the_cookie_itself(visit):
    visitor = visit()
    kept = dict(visitor.http.cookies)
    assert visitor.post("/page/log-out").status_code == 303
    visitor.http.cookies.update(kept)
    assert visitor.get(HISTORY).status_code == 303


def test_wrong_tokens_count_among_those_of_programs(tmp_path):
    service = service_at(tmp_path)
    service.failures = Rates(each_second=0.1, burst=10, clock=lambda: 0.0)
    serve_visits(service)
    with listening(service) as address:
        visitor = Visitor(address)
        statuses = [visitor.log_in(f"chary_{n:016x}_x").status_code for n in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        with client_of(address) as client:
            assert client.get("/v1/datasets", headers=bearing("chary_00000000000000ff_x")).status_code == 429
        # Somebody else behind this address has a right token.
        assert visitor.log_in(token_of(service)).status_code == 303
        visitor.http.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_posts_of_other_sites_are_refused(service, address, alice, headers):
    fields = {"form_token": alice.form_token(), "token": token_of(service)}
    for path in ("/page/log-in", "/page/log-out"):
        assert alice.http.post(path, data=fields, headers=headers).status_code == 403
    assert alice.get(HISTORY).status_code == 200


def test_logging_out_ends_both_cookies(service, visit):
    visitor = visit()
    earlier = visitor.http.cookies["chary"]
    visitor.http.cookies["__Host-chary"] = LogIns(service.store, service.tokens.holder).begin(
        service.tokens.recognise(token_of(service))
    )
    assert visitor.post("/page/log-out").status_code == 303
    visitor.http.cookies.clear()
    assert visitor.http.get(HISTORY, headers={"Cookie": f"chary={earlier}"}).status_code == 303


@pytest.mark.parametrize("token", ["", "0" * 64, "x"])
def test_posts_without_the_token_of_a_form_are_refused(alice, token):
    assert alice.http.post("/page/log-out", data={"form_token": token}).status_code == 403
    assert alice.get(HISTORY).status_code == 200


@pytest.mark.parametrize(
    ("media", "status"), [("application/json", 415), ("text/plain", 415), ("multipart/form-data; boundary=x", 415)]
)
def test_other_bodies_are_no_forms(alice, media, status):
    sent = alice.http.post("/page/log-out", content=b"{}", headers={"Content-Type": media})
    assert sent.status_code == status


BROKEN = [
    b"",
    b"--x--",
    b"--x\r\n\r\nno name\r\n--x--",
    b"--x\r\nContent-Disposition: form-data; " + b"(" * 9_000 + b"\r\n\r\n1\r\n--x--",
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1',
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\0\r\n--x--',
    b"--x" + b'\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x' * 2 + b"--",
]


@pytest.mark.parametrize("raw", BROKEN)
def test_a_form_in_parts_is_read_strictly(service, visit, raw):
    carol = visit(token_of(service, "carol", ["custodian"]))
    media = {"Content-Type": "multipart/form-data; boundary=x"}
    assert carol.http.post("/page/log-out", content=raw, headers=media).status_code == 422


def test_every_answer_of_the_page_has_the_policy(alice):
    for path in (
        "/page/log-in",
        "/page/",
        HISTORY,
        "/page/nothing",
        "/page/static/style.css",
        "/page/datasets/no/report",
    ):
        policy = alice.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), path
        assert "unsafe" not in policy


@pytest.mark.parametrize("role", Role)
def test_the_navigation_has_what_a_role_may(service, visit, role):
    visitor = visit(token_of(service, "some one", [role]))
    led = visitor.get("/page/datasets/visits")
    shown = set(re.findall(r'href="/page/datasets/visits/(\w+)"', visitor.get(led.headers["location"]).text))
    assert {page.place for page in PAGES if role in ACTIONS[page.action]} == shown & {page.place for page in PAGES}


def test_datasets_of_others_are_not_there(service, visit):
    visitor = visit(token_of(service, "alice", ["analyst"], ["votes"]))
    found, missing = (visitor.get(f"/page/datasets/{name}/history") for name in ("visits", "missing"))
    assert (found.status_code, missing.status_code) == (404, 404)
    assert "visits" not in visitor.get("/page/").text


def guards_of(route):
    """What a route asks of whoever comes, by the action."""
    return [each.call.action for each in route.dependant.dependencies if isinstance(each.call, (Logged, Visiting))]


@pytest.mark.parametrize("module", [overview, ask, *PAGES], ids=lambda page: getattr(page, "place", str(page)))
def test_every_route_of_every_page_has_one_guard(module):
    routes = [route for route in module.router.routes if isinstance(route, APIRoute)]
    assert routes
    for route in routes:
        assert len(guards_of(route)) == 1, route.path


def test_what_nobody_foresaw_is_a_page_that_tells_nothing(service, visit, monkeypatch):
    visitor = visit()
    monkeypatch.setattr(service.datasets["visits"].session.spine.ledger, "calls", lambda *_, **__: 1 / 0)
    told = visitor.get(HISTORY)
    assert told.status_code == 500
    assert "division" not in told.text
    assert told.headers["content-security-policy"].startswith("default-src 'none'")


def test_of_strangers_nothing_but_a_token_is_read(service, visit):
    stranger = visit(None)
    assert stranger.http.post("/page/log-in", data={"token": "x" * 5_000}).status_code == 413
    files = {"file": ("rows.csv", b"x" * 5_000_000)}
    assert stranger.http.post("/page/log-in", files=files).status_code == 415
    assert stranger.http.post("/page/datasets/visits/ask", files=files).headers["location"].startswith("/page/log-in")
