"""Tokens of an issuer: what is signed, for this audience, now; everything else is nobody's, and says nothing."""

import base64
import hmac
import json

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import RSAKey

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.service.auth.openid import OpenIdTokens, answered, name_of, public_keys
from chary.service.auth.tokens import Role
from chary.service.config import OpenIdOptions, configured
from chary.service.store import ServiceStore
from tests.service.kit import bearing, client_of, listening, serve_visits, service_at
from tests.service.small_issuer import AUDIENCE, EC, NOW, OTHER, RSA, issuing, options

HARD = RSAKey.generate_key(2048, {"kid": "new"})


@pytest.fixture(scope="module")
def served():
    with issuing() as found:
        yield found


@pytest.fixture
def issuer(served):
    before = dict(vars(served))
    served.asked.clear()
    yield served
    vars(served).update(before)


@pytest.fixture
def clock():
    return [float(NOW)]


@pytest.fixture
def tokens(issuer, tmp_path, clock):
    store = ServiceStore(tmp_path / "service.db")
    yield OpenIdTokens(store, OpenIdOptions.model_validate(options(issuer)), lambda: clock[0])
    store.close()


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256")])
def test_a_token_of_the_issuer_is_somebody_s(tokens, issuer, key, alg):
    token = issuer.token(key, alg)
    who = tokens.recognise(token)
    assert (who.analyst, who.roles, who.datasets) == ("alice", {Role.ANALYST}, {"visits"})
    assert (who.token, who.origin) == (name_of(token), f"token {name_of(token)}")
    assert tokens.holder(who.token) == who
    assert not tokens.keeps(who.token)


def test_another_signature_of_the_same_claims_is_no_other_token(tokens, issuer):
    head, body, signature = issuer.token(EC).split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    other = encoded(raw[:32] + (order - int.from_bytes(raw[32:])).to_bytes(32))
    assert other != signature
    first = tokens.recognise(f"{head}.{body}.{signature}")
    assert tokens.recognise(f"{head}.{body}.{other}") == first


def test_keys_are_read_once_for_many_tokens(tokens, issuer):
    assert all(tokens.recognise(issuer.token(jti=str(number))) for number in range(5))
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def encoded(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_secret(body, secret):
    """A token whose signature anybody can make who knows the public key."""
    head = encoded(b'{"alg":"HS256","kid":"rsa"}')
    said = f"{head}.{body}"
    return f"{said}.{encoded(hmac.digest(secret, said.encode(), 'sha256'))}"


def by_hand(body, head):
    """Rightly signed, whatever its header says."""
    said = f"{encoded(json.dumps(head).encode())}.{body}"
    return f"{said}.{encoded(RSA.private_key.sign(said.encode(), PKCS1v15(), SHA256()))}"


def forged(issuer):
    """Tokens that are nobody's, by what is wrong with them."""
    good = issuer.token()
    head, body, signature = good.split(".")
    none = encoded(b'{"alg":"none","kid":"ec"}')
    deep = encoded(b'{"a":' * 3000 + b"1" + b"}" * 3000)
    elsewhere = {"jku": "http://127.0.0.1:1/keys", "jwk": OTHER.as_dict(private=False)}
    return {
        "another key of that name": issuer.token(OTHER),
        "a key that it brings along": issuer.token(OTHER, header=elsewhere),
        "no algorithm": f"{none}.{body}.",
        "no algorithm, a signature": f"{none}.{body}.{signature}",
        "the public key as a secret": by_secret(body, RSA.as_pem(private=False)),
        "the published key as a secret": by_secret(body, json.dumps(RSA.as_dict(private=False)).encode()),
        "the algorithm of another key": f"{issuer.token(RSA, 'RS256').split('.')[0]}.{body}.{signature}",
        "another body": f"{head}.{issuer.token(sub='carol').split('.')[1]}.{signature}",
        "no signature": f"{head}.{body}.",
        "expired": issuer.token(exp=NOW - 30),
        "never expires": issuer.token(exp=None),
        "expires in words": issuer.token(exp="tomorrow"),
        "not yet": issuer.token(nbf=NOW + 31),
        "from the future": issuer.token(iat=NOW + 31),
        "another audience": issuer.token(aud="elsewhere"),
        "no audience": issuer.token(aud=None),
        "other audiences": issuer.token(aud=["elsewhere", "chary2"]),
        "another issuer": issuer.token(iss="https://login.example.org"),
        "an issuer with a slash": issuer.token(iss=f"{issuer.name}/"),
        "no issuer": issuer.token(iss=None),
        "nobody": issuer.token(sub=None),
        "a name that is a list": issuer.token(sub=["alice"]),
        "a name with a break": issuer.token(sub="al\nice"),
        "no grant": issuer.token(realm={"roles": ["others"]}),
        "a role within a text": issuer.token(realm={"roles": "not statistics"}),
        "roles of another kind": issuer.token(realm=["statistics"]),
        "a token of another kind": issuer.token(header={"typ": "logout+jwt"}),
        "a rule that nobody knows": by_hand(body, {"alg": "RS256", "kid": "rsa", "crit": ["chary"], "chary": 1}),
        "no key named": issuer.token(header={"kid": None}),
        "a path for a key": issuer.token(header={"kid": "../../etc/passwd"}),
        "a query for a key": issuer.token(header={"kid": "ec' OR '1'='1"}),
        "a long key": issuer.token(header={"kid": "e" * 3000}),
        "dots": "..",
        "no text": "a.\udc80.c",
        "half": f"{head}.{body}",
        "deep": f"{deep}.{body}.{signature}",
        "spaces": f" {head}.{body}.{signature}",
    }


def test_what_is_forged_is_nobody_s(tokens, issuer):
    found = {why: tokens.recognise(token) for why, token in forged(issuer).items()}
    assert {why: who for why, who in found.items() if who} == {}
    whole = by_hand(issuer.token().split(".")[1], {"alg": "RS256", "kid": "rsa"})
    assert tokens.recognise(whole).analyst == tokens.recognise(issuer.token()).analyst == "alice"


@pytest.mark.parametrize(
    "claims", [{"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW + 29}, {"aud": ["elsewhere", AUDIENCE]}], ids=str
)
def test_clocks_may_differ_by_a_little(tokens, issuer, claims):
    assert tokens.recognise(issuer.token(**claims)).analyst == "alice"


def test_the_first_grant_that_fits_counts_and_no_other(tokens, issuer):
    both = tokens.recognise(issuer.token(sub="carol"))
    assert (both.roles, both.datasets) == ({Role.ANALYST}, {"visits"})
    alone = tokens.recognise(issuer.token(sub="carol", realm=None))
    assert (alone.roles, alone.datasets) == ({Role.CUSTODIAN}, {"*"})


def test_new_keys_are_found_and_old_ones_forgotten(tokens, issuer, clock):
    assert tokens.recognise(issuer.token())
    issuer.keys = [HARD]
    assert tokens.recognise(issuer.token(HARD, "RS256")) is None  # just looked: whoever sends what, it is left in peace
    clock[0] += 11
    assert tokens.recognise(issuer.token(HARD, "RS256")).analyst == "alice"
    assert tokens.recognise(issuer.token()) is None


def test_unknown_keys_do_not_make_it_ask_again_and_again(tokens, issuer, clock):
    for number in range(50):
        assert tokens.recognise(issuer.token(header={"kid": str(number)})) is None
    assert len(issuer.asked) == 2


def test_an_issuer_that_is_away_lets_nobody_in(tokens, issuer, clock):
    issuer.away = True
    with pytest.raises(Refusal, match="does not answer") as refused:
        tokens.recognise(issuer.token())
    assert refused.value.status == 503
    issuer.away, clock[0] = False, clock[0] + 11
    assert tokens.recognise(issuer.token()).analyst == "alice"
    issuer.away, clock[0] = True, clock[0] + 3000
    assert tokens.recognise(issuer.token(exp=NOW + 9000)).analyst == "alice"  # its keys are known for an hour
    assert tokens.recognise(issuer.token(OTHER, exp=NOW + 9000)) is None
    clock[0] += 700
    with pytest.raises(Refusal, match="does not answer"):
        tokens.recognise(issuer.token(exp=NOW + 9000))
    own = tokens.make("bob", roles=["analyst"], datasets=["visits"], days=1)
    assert tokens.recognise(own).analyst == "bob"


@pytest.mark.parametrize(
    "wrong", [{"issuer": "https://login.example.org"}, {"jwks_uri": "file:///etc/passwd"}], ids=str
)
def test_a_document_of_somebody_else_is_not_taken(tokens, issuer, wrong):
    issuer.document = issuer.document | wrong
    with pytest.raises(Refusal, match="does not answer"):
        tokens.recognise(issuer.token())


def test_keys_that_are_not_public_ones_for_signatures_are_left_out():
    short = RSA.as_dict(private=False) | {"kid": "short", "n": RSA.as_dict(private=False)["n"][:171]}
    published = [
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
        EC.as_dict(private=True),
        RSA.as_dict(private=False) | {"use": "enc", "kid": "enc"},
        RSA.as_dict(private=False) | {"kid": 7},
        short,
        RSA.as_dict(private=False) | {"kid": "long", "n": "A" * 171 + short["n"]},
        RSA.as_dict(private=False) | {"kid": "none", "n": None},
        {"kty": "EC", "kid": "half", "crv": "P-256"},
        "key",
        RSA.as_dict(private=False),
    ]
    assert list(public_keys({"keys": published})) == ["rsa"]
    assert public_keys({"keys": None}) == public_keys({"keys": [{"kid": "1", "kty": ["RSA"]}]}) == {}


class Endless(httpx.SyncByteStream):
    """A body that an issuer never ends; `read` says how much of it was taken."""

    read = 0

    def __iter__(self):
        while True:
            self.read += 100_000
            yield b" " * 100_000


def test_no_more_is_read_of_an_issuer_than_a_document_has():
    body = Endless()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=body))
    with httpx.Client(transport=transport) as client, pytest.raises(ValueError, match="too much"):
        answered(client, "GET", "http://issuer/keys")
    assert body.read < 2_000_000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"issuer": "http://login.example.org"}, "issuer"),
        ({"leeway": 900}, "leeway"),
        ({"grant": []}, "grant"),
        ({"grant": [{"claim": "sub", "value": "a", "roles": ["root"], "datasets": ["visits"]}]}, "roles"),
        ({"audience": ""}, "audience"),
    ],
)
def test_what_a_file_cannot_say_of_an_issuer_is_named(served, tmp_path, wrong, words):
    said = {"folder": tmp_path, "service": {"openid": options(served) | wrong}, "dataset": {}}
    with pytest.raises(InvalidParameter, match=words):
        configured(said, "a test")


def test_over_http_it_is_a_token_like_others(issuer, tmp_path, monkeypatch):
    service = service_at(tmp_path, openid=options(issuer))
    monkeypatch.setattr(service.tokens, "_now", lambda: float(NOW))
    serve_visits(service)
    release = {"kind": "release", "query": {"kind": "count"}, "epsilon": "0.1"}
    stands = {"call": release, "every": "append", "share": "0.5"}
    token = issuer.token(jti="j" * 2000)
    with listening(service) as address, client_of(address, token) as http:
        assert http.post("/v1/datasets/visits/calls", json=release).json()["hit"] is True
        spine = service.datasets["visits"].session.spine
        assert [call.origin for call in spine.ledger.calls(spine.dataset)] == [f"token {name_of(token)}"]
        standing = http.post("/v1/datasets/visits/standing", json=stands)
        assert (standing.status_code, "custodian" in standing.json()["detail"]) == (422, True)
        assert http.get("/v1/tokens").status_code == 403
        refused = http.get("/v1/datasets", headers=bearing(issuer.token(aud="elsewhere")))
        assert (refused.status_code, refused.json()["type"]) == (401, "urn:chary:problem:unauthorized")
        assert "elsewhere" not in refused.text
        issuer.away = True
        service.tokens.issuer._read = service.tokens.issuer._tried = 0.0
        away = http.get("/v1/datasets")
        assert (away.status_code, "retry-after" in away.headers) == (503, True)
        assert issuer.name not in away.text
