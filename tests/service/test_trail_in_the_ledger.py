"""Every entry that came through the service names the token in the ledger's chain, and never its secret."""

import pandas as pd
import pytest

import chary
from chary import count
from chary.calls import ThresholdTest
from chary.client import connect
from chary.ledger import open_ledger
from tests.ledger.kit import raw
from tests.service.kit import client_of, listening, serve_visits, service_at, token_of, wait_for
from tests.session.kit import PUBLIC, visits

ALWAYS = ThresholdTest(count(), above=10, epsilon="0.05")


@pytest.fixture
def asked(tmp_path):
    """The place of a ledger after a cap, a call, an append and a standing question, each by a token."""
    place = tmp_path / "visits.ledger"
    service = service_at(tmp_path)
    serve_visits(service, ledger=place, **PUBLIC)
    tokens = {"alice": token_of(service), "carol": token_of(service, "carol", ["custodian"])}
    with listening(service) as address, client_of(address, tokens["carol"]) as carol:
        assert carol.put("/v1/datasets/visits/shares/alice", json={"share": "0.9"}).is_success
        with connect(address, tokens["alice"]) as alice, connect(address, tokens["carol"]) as keeper:
            alice.release(count(), epsilon="0.1", request="monday")
            alice.stand(ALWAYS, every="append", share="0.5")
            keeper.append(pd.DataFrame(visits().head(1)))
            wait_for(lambda: len(alice.history) == 2)
            assert alice.release(count(), epsilon="0.1", request="monday").call == alice.history[0].call
            wait_for(lambda: alice.standing[0]["runs"] == 1)
    service.datasets.close()
    service.store.close()
    return place, tokens


def test_calls_caps_and_appends_name_the_token(asked):
    place, tokens = asked
    named = {who: f"token {token.split('_')[1]}" for who, token in tokens.items()}
    ledger = open_ledger(place)
    lines = list(ledger.export(ledger.datasets()[0].name))
    assert ledger.verify().ok
    ledger.close()
    origins = [
        (line["kind"], line["label"], line["origin"]) for line in lines if line["kind"] not in ("open", "settle")
    ]
    assert origins == [
        ("note", "found", ""),  # what was there at the opening
        ("share", "", named["carol"]),
        ("reserve", "release", named["alice"]),
        ("note", "append", named["carol"]),
        ("reserve", "test", named["alice"]),
    ]
    secrets = [token.split("_", 2)[2].encode() for token in tokens.values()]
    assert not any(secret in file.read_bytes() for file in place.parent.iterdir() for secret in secrets)


def test_who_rewrites_the_trail_is_found_by_a_verification(asked):
    place, _ = asked
    raw(place, "UPDATE entries SET origin = 'token 0000000000000000' WHERE kind = 'reserve' AND label = 'release'")
    with pytest.raises(chary.errors.LedgerCorrupted):
        open_ledger(place)
