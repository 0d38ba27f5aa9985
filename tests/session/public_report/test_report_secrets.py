"""Nothing that was not published is in a report: held states, open calls, request keys, rows."""

import gzip
import json
import re
import zlib
from unittest.mock import patch

import pytest

import chary
from chary import count
from chary.ledger import Ledger, open_ledger
from chary.mechanisms import Held
from chary.report import report
from tests.golden.test_kept_ledgers import HERE, VERSIONS, WITH_LEFT
from tests.session.interruption_kit import Interruption, Stop
from tests.session.public_report.pages import FORMS, NEVER, asked, secrets

CASES = [(version, title) for version in VERSIONS for title in WITH_LEFT]
KEY = "a-key-that-nobody-needs"
LOST = 1234567


@pytest.fixture(params=CASES, ids="-".join)
def kept(request, tmp_path):
    """A ledger that an earlier version wrote, without its rows."""
    version, title = request.param
    for file in (HERE / version).glob(f"{title}*.gz"):
        (tmp_path / file.name.removesuffix(".gz")).write_bytes(gzip.decompress(file.read_bytes()))
    return tmp_path / f"{title}.ledger", json.loads((HERE / version / "told.json").read_text())[title]


def test_ledgers_of_all_ages_have_a_report(kept, tmp_path):
    place, told = kept
    found = report(place)
    settled = [call for call in told["calls"] if call[3] == "settled"]
    assert [call.call for call in found.datasets[0].calls] == [call[0] for call in settled]
    assert found.datasets[0].unanswered == sum(call[3] == "reserved" for call in told["calls"])
    for form in FORMS:
        found.save(tmp_path / f"report{form}")
    told = (tmp_path / "report.html").read_text() + found.csv() + found.markdown()
    assert "Traceback" not in told
    assert not re.search(r"\d\d:\d\d:\d\d", told)  # how long calls took


def test_no_secret_is_looked_at(kept):
    place, _ = kept
    with patch.object(Ledger, "secret", side_effect=AssertionError("a secret was asked for")):
        found = report(place)
        found.html(), found.csv(), found.markdown()


def texts(found, folder):
    """All that a report tells, in every form."""
    for form in FORMS:
        found.save(folder / f"report{form}")
    pdf = (folder / "report.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    opened = []
    for stream in streams:
        try:
            opened.append(zlib.decompress(stream).decode("latin-1"))
        except zlib.error:
            continue
    told = [found.html(), found.markdown(), found.csv(), json.dumps(found.to_dict()), found._repr_html_(), repr(found)]
    return "\n".join([*told, *opened])


def test_nothing_unpublished_is_in_any_form(tmp_path):
    stop = Interruption("evaluated", armed=False)
    ledger = open_ledger(":memory:")
    with asked(ledger, on_step=stop) as session:
        session.release(count(), epsilon="0.01", request=KEY)
        costs = chary.sum("cost", bounds=(0, 10**9), grid=1, max_rows_per_unit=2)
        held = session.release_if(costs, above=10**15, epsilon="0.02")
        state = Held.load(ledger.secret(held.call))
        stop.armed = True
        with pytest.raises(Stop):
            session.test(count(f"age > {LOST}"), above=NEVER, epsilon="0.02")
        found = report(session)
        said = texts(found, tmp_path)
    assert held.value is None
    for secret in [*secrets(), KEY, str(LOST)]:
        assert secret not in said
    assert found.datasets[0].unanswered == 1
    assert found.datasets[0].spent.share > sum(call.share for call in found.datasets[0].calls)
    # Of nine digits and more, so that it is nowhere by chance.
    assert str(abs(state.value)) not in said.replace(",", "")


def test_a_report_needs_no_rows_and_charges_nothing(tmp_path):
    place = tmp_path / "visits.ledger"
    with asked(place) as session:
        spent = session.spent
    before = place.read_bytes()
    assert report(place).datasets[0].spent.share == spent.share
    assert place.read_bytes() == before


def test_a_report_of_the_same_ledger_is_the_same(tmp_path):
    place = tmp_path / "visits.ledger"
    asked(place).close()
    one, two = report(place), report(place)
    assert one.datasets == two.datasets
    assert one.csv() == two.csv()
