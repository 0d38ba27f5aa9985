"""Logging in with a browser at an issuer: only the browser that began, once, and what the issuer says is checked."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.service.auth.openid import OpenIdLogIn, OpenIdTokens, log_in_of
from chary.service.auth.tokens import Role
from chary.service.config import OpenIdOptions, configured
from chary.service.store import ServiceStore
from tests.service.small_issuer import CLIENT, NOW, OTHER, REDIRECT, SECRET, issuing, options


@pytest.fixture
def issuer():
    with issuing() as found:
        yield found


@pytest.fixture
def clock():
    return [float(NOW)]


@pytest.fixture
def door(issuer, tmp_path, clock):
    store = ServiceStore(tmp_path / "service.db")
    said = OpenIdOptions.model_validate(options(issuer) | {"client-id": CLIENT, "redirect": REDIRECT})
    yield OpenIdLogIn(said, OpenIdTokens(store, said, lambda: clock[0]), SECRET, lambda: clock[0])
    store.close()


def test_somebody_goes_to_the_issuer_and_comes_back(door, issuer):
    begun = door.begin()
    asked = dict(parse_qsl(urlsplit(begun.address).query))
    assert (asked["response_type"], asked["code_challenge_method"], asked["scope"]) == ("code", "S256", "openid")
    assert not any(begun.kept.split(".")[2] in value for value in asked.values())
    who = door.finish(begun.kept, issuer.log_in(begun.address))
    assert (who.analyst, who.roles, who.datasets) == ("alice", {Role.ANALYST}, {"visits"})
    assert door._tokens.holder(who.token) == who
    assert door._tokens.revoke(who.token)
    assert door._tokens.holder(who.token) is None


def test_a_code_is_taken_once_and_only_where_it_was_begun(door, issuer, clock):
    mine, other = door.begin(), door.begin()
    back = issuer.log_in(mine.address)
    for kept, said in (
        (other.kept, back),  # another browser, or somebody else's code
        ("", back),
        ("...", back),
        (mine.kept, back | {"state": ""}),
        (mine.kept, back | {"iss": "https://login.example.org"}),
        (mine.kept, back | {"error": "access_denied"}),
        (mine.kept, {"state": back["state"]}),
    ):
        with pytest.raises(Refusal, match="begin again") as refused:
            door.finish(kept, said)
        assert refused.value.status == 403
    late = door.begin()
    assert door.finish(mine.kept, back).analyst == "alice"
    with pytest.raises(Refusal, match="did not take"):
        door.finish(mine.kept, back)
    clock[0] += 601
    with pytest.raises(Refusal, match="too long ago"):
        door.finish(late.kept, issuer.log_in(late.address))


def test_the_code_of_another_log_in_is_not_taken_for_this_one(door, issuer):
    """Somebody else's code, put into a browser whose own log-in was begun: the verifier is not that of the code."""
    mine, theirs = door.begin(), door.begin()
    injected = issuer.log_in(mine.address) | {"code": issuer.log_in(theirs.address)["code"]}
    with pytest.raises(Refusal, match="did not take"):
        door.finish(mine.kept, injected)


@pytest.mark.parametrize(
    "wrong",
    [{"nonce": "x"}, {"nonce": None}, {"aud": "chary"}, {"azp": "other"}, {"key": OTHER}, {"exp": NOW - 31}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_the_issuer_says_is_checked(door, issuer, wrong):
    issuer.id_token = wrong
    begun = door.begin()
    with pytest.raises(Refusal, match="not valid"):
        door.finish(begun.kept, issuer.log_in(begun.address))
    assert door._tokens.all() == []


def test_whoever_has_no_grant_is_not_let_in(door, issuer):
    issuer.id_token = {"realm": None}
    begun = door.begin()
    with pytest.raises(Refusal, match="no role here"):
        door.finish(begun.kept, issuer.log_in(begun.address))


def test_an_issuer_that_is_away_or_names_no_place_is_said(door, issuer):
    issuer.away = True
    with pytest.raises(Refusal) as refused:
        door.begin()
    assert refused.value.status == 503
    issuer.away = False
    del issuer.document["authorization_endpoint"]
    door._tokens.issuer._tried = 0.0
    with pytest.raises(Refusal, match="names no authorization_endpoint"):
        door.begin()


def test_a_chary_toml_names_it_with_its_secret(door, issuer, tmp_path):
    said = options(issuer) | {"client-id": CLIENT, "redirect": REDIRECT, "client-secret-file": "page.secret"}
    config = configured({"folder": tmp_path, "service": {"openid": said}, "dataset": {}}, "a test")
    with pytest.raises(InvalidParameter, match="client-secret-file"):
        log_in_of(config, door._tokens)
    (tmp_path / "page.secret").write_text(f"{SECRET}\n")
    assert log_in_of(config, door._tokens)._secret == SECRET
    plain = configured({"folder": tmp_path, "service": {"openid": options(issuer)}, "dataset": {}}, "a test")
    assert log_in_of(plain, door._tokens) is None


def test_without_a_client_there_is_no_log_in(door, issuer):
    with pytest.raises(InvalidParameter, match="client-id"):
        OpenIdLogIn(OpenIdOptions.model_validate(options(issuer)), door._tokens)
