"""Ledgers that earlier versions wrote open, verify, replay every kind of call and go on."""

import gzip
import json
from pathlib import Path

import pytest

from chary.amounts import Amount
from chary.ledger import open_ledger
from chary.noise import Seeded
from tests.conformance.samples import FIRST
from tests.golden.make import told
from tests.golden.sources import LEDGERS, LEFT, of_table

HERE = Path(__file__).parent
VERSIONS = sorted(folder.name for folder in HERE.iterdir() if (folder / "told.json").exists())
WITH_LEFT = LEDGERS | {"left": (of_table, {name: FIRST[name] for name in LEFT})}
CASES = [(version, title) for version in VERSIONS for title in WITH_LEFT]


@pytest.fixture(params=CASES, ids="-".join)
def kept(request, tmp_path):
    """The unpacked ledger, how it is opened, its kinds of call, and what was told of it."""
    version, title = request.param
    for file in (HERE / version).glob("*.gz"):
        if file.name.startswith((title, "visits")):
            (tmp_path / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
    expected = json.loads((HERE / version / "told.json").read_text())[title]
    return tmp_path / f"{title}.ledger", *WITH_LEFT[title], expected


def test_it_opens_with_every_charge_and_every_answer(kept):
    place, opened, _, expected = kept
    with opened(place) as session:
        assert told(session) == expected


def test_it_verifies_and_every_settled_call_is_within_its_reservation(kept):
    place, _opened, _kinds, expected = kept
    ledger = open_ledger(place)
    found = ledger.verify()
    assert (found.ok, found.entries) == (True, expected["entries"])
    for dataset in ledger.datasets():
        assert all(call.price is None or call.price.fits_into(call.worst) for call in ledger.calls(dataset.name))
    ledger.close()


def test_each_kind_is_answered_again_for_free(kept):
    place, opened, kinds, expected = kept
    with opened(place) as session:
        for title, kind in kinds.items():
            kind(session, title)(f"monday, {title}")
        assert told(session) == expected


def test_each_kind_goes_on(kept):
    place, opened, kinds, expected = kept
    with opened(place, unsafe_noise=Seeded(7)) as session:
        for title, kind in kinds.items():
            kind(session, f"{title}, again")(f"tuesday, {title}")
        assert len(session.history) >= len(expected["calls"]) + len(kinds)
        assert session.spine.ledger.verify().ok


def test_what_a_crash_left_open_stays_charged(kept):
    place, opened, _, expected = kept
    with opened(place) as session:
        left = session.spine.ledger.balance(session.spine.dataset).open
        lost = [session.spine.ledger.call(call[0]) for call in expected["calls"] if call[3] == "reserved"]
        assert left == sum((call.worst for call in lost), Amount(0))
