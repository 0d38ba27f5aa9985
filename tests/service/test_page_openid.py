"""The page's log-in at an issuer, as a browser goes through it."""

import re
import time

import pytest

from chary.service.auth.rate_limits import Rates
from tests.service.kit import bearing, client_of, listening, serve_visits, service_at, token_of
from tests.service.small_issuer import CLIENT, REDIRECT, SECRET, issuing, options


@pytest.fixture(scope="module")
def issuer():
    with issuing() as found:
        now = int(time.time())
        found.id_token = {"iat": now, "exp": now + 300}
        yield found


@pytest.fixture(scope="module")
def address(issuer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openid")
    (folder / "page.secret").write_text(SECRET)
    said = {"client-id": CLIENT, "redirect": REDIRECT, "client-secret-file": "page.secret"}
    service = service_at(folder, openid=options(issuer) | said)
    serve_visits(service)
    with listening(service) as found:
        yield found


def test_somebody_logs_in_and_is_in(address, issuer):
    with client_of(address) as browser:
        assert "/page/openid" in browser.get("/page/log-in").text
        sent = browser.get("/page/openid")
        kept = sent.headers["set-cookie"]
        assert {"HttpOnly", "Path=/page/openid", "SameSite=lax"} <= set(kept.split("; "))
        back = issuer.log_in(sent.headers["location"])
        led = browser.get("/page/openid/back", params=back)
        assert led.status_code == 200
        assert re.search(r'http-equiv="refresh" content="0; url=/page/"', led.text)
        assert "SameSite=strict" in led.headers["set-cookie"]
        assert browser.get("/page/datasets/visits/history").status_code == 200
        again = browser.get("/page/openid/back", params=back)
        assert (again.status_code, "begin again" in again.text) == (403, True)


def test_what_was_not_begun_in_a_browser_counts_for_nobody(address, issuer):
    with client_of(address) as browser:
        foreign = [browser.get("/page/openid/back", params={"state": "x", "code": "y"}).status_code for _ in range(15)]
        sent = browser.get("/page/openid")
        foreign += [browser.get("/page/openid/back", params={"state": "x", "code": "y"}).status_code for _ in range(15)]
        assert set(foreign) == {403}
        assert browser.get("/page/openid/back", params=issuer.log_in(sent.headers["location"])).status_code == 200


def test_who_comes_back_with_wrong_codes_too_often_waits(issuer, tmp_path):
    (tmp_path / "page.secret").write_text(SECRET)
    said = {"client-id": CLIENT, "redirect": REDIRECT, "client-secret-file": "page.secret"}
    service = service_at(tmp_path, openid=options(issuer) | said)
    service.failures = Rates(each_second=0.1, burst=10, clock=lambda: 0.0)
    serve_visits(service)
    with listening(service) as address, client_of(address) as browser:
        back = issuer.log_in(browser.get("/page/openid").headers["location"])
        wrong = back | {"code": "y"}
        found = [browser.get("/page/openid/back", params=wrong).status_code for _ in range(12)]
        assert found == [403] * 10 + [429] * 2
        # Tokens count apart, so that a right one is a way in, and a wrong one is told to be wrong.
        assert browser.get("/v1/datasets", headers=bearing("chary_0000000000000000_x")).status_code == 401
        assert browser.get("/v1/datasets", headers=bearing(token_of(service))).status_code == 200


def test_without_an_issuer_there_is_no_such_door(tmp_path):
    service = service_at(tmp_path)
    with listening(service) as address, client_of(address) as browser:
        assert "/page/openid" not in browser.get("/page/log-in").text
        assert browser.get("/page/openid").status_code == browser.get("/page/openid/back").status_code == 404
