"""Tokens: shown once, hashed, expiring, revocable; and the rates of those who come."""

from hashlib import sha256

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from chary.errors import InvalidParameter
from chary.service.auth.tokens import BearerTokens, Role
from chary.service.store import TOKENS, ServiceStore

GIVEN = {"roles": ["analyst"], "datasets": ["visits"], "days": 2}


@pytest.fixture
def store(tmp_path):
    made = ServiceStore(tmp_path / "service.db")
    yield made
    made.close()


def test_a_token_is_recognised_until_it_expires(store):
    clock = [0.0]
    tokens = BearerTokens(store, lambda: clock[0])
    token = tokens.make("alice", **GIVEN)
    who = tokens.recognise(token)
    assert (who.analyst, who.roles, who.datasets) == ("alice", {Role.ANALYST}, {"visits"})
    assert tokens.holder(who.token) == who
    clock[0] = 2 * 86_400 - 1
    assert tokens.recognise(token) == who
    clock[0] += 1
    assert tokens.recognise(token) is None
    assert tokens.holder(who.token) is None


def test_a_revoked_token_is_nobodys_at_once_also_elsewhere(store):
    tokens, elsewhere = BearerTokens(store), BearerTokens(store)
    token = tokens.make("alice", **GIVEN)
    name = tokens.recognise(token).token
    assert elsewhere.recognise(token)
    assert tokens.revoke(name)
    assert not tokens.revoke(name)
    assert tokens.recognise(token) is None
    assert elsewhere.recognise(token) is None


def test_nothing_that_is_kept_is_the_secret(store, tmp_path):
    tokens = BearerTokens(store)
    token = tokens.make("alice", **GIVEN)
    _, name, secret = token.split("_", 2)
    assert tokens.recognise(token)
    store.close()
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert name.encode() in kept
    assert sha256(secret.encode()).hexdigest().encode() in kept
    assert secret.encode() not in kept


def test_a_token_of_an_earlier_version_is_recognised_and_has_a_digest_from_then_on(store):
    tokens = BearerTokens(store)
    token, other = tokens.make("alice", **GIVEN), tokens.make("bob", **GIVEN)
    _, name, secret = token.split("_", 2)
    slow = PasswordHasher(time_cost=1, memory_cost=8_192, parallelism=1).hash(secret)
    store.change(update(TOKENS).where(TOKENS.c.token == name).values(hashed=slow))
    assert tokens.recognise(f"chary_{name}_{other.split('_', 2)[2]}") is None
    assert tokens.recognise(token).analyst == "alice"
    (kept,) = store.rows(select(TOKENS.c.hashed).where(TOKENS.c.token == name))
    assert kept.hashed == f"sha256:{sha256(secret.encode()).hexdigest()}"
    assert tokens.recognise(token).analyst == "alice"
    assert tokens.recognise(f"chary_{name}_{secret}x") is None


def test_the_name_of_a_token_that_was_tried_is_told_where_it_was_made_here(store):
    tokens = BearerTokens(store)
    _, name, _ = tokens.make("alice", **GIVEN).split("_", 2)
    assert tokens.tried(f"chary_{name}_x") == name
    assert [tokens.tried(each) for each in (f"other_{name}_x", "chary_0000000000000000_x", "", "x")] == [None] * 4


def test_forgeries_are_nobodys(store):
    tokens = BearerTokens(store)
    token, other = tokens.make("alice", **GIVEN), tokens.make("bob", **GIVEN)
    _, name, secret = token.split("_", 2)
    _, others, _ = other.split("_", 2)
    assert tokens.recognise(token)
    forged = [f"chary_{others}_{secret}", f"chary_{name}_", f"chary_{name}_{secret[:-1]}", f"other_{name}_{secret}"]
    forged += [
        "",
        "_",
        "__",
        secret,
        f"chary_{name}_{secret} ",
        f"chary_' OR 1=1 --_{secret}",
        "chary_\udc80_x",
        "chary_%_x",
    ]
    assert [tokens.recognise(each) for each in forged] == [None] * len(forged)


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": []},
        {"roles": ["root"]},
        {"roles": "analyst"},
        {"datasets": []},
        {"days": 0},
        {"days": 4000},
        {"days": "9"},
    ],
    ids=str,
)
def test_what_is_no_token_is_not_made(store, wrong):
    tokens = BearerTokens(store)
    with pytest.raises(InvalidParameter):
        tokens.make("alice", **(GIVEN | wrong))
    with pytest.raises(InvalidParameter):
        tokens.make("", **GIVEN)
    assert tokens.all() == []
