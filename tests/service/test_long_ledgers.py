"""What is shown of a ledger grows with what is shown: rows that are read, steps of the engine, entries, renderings."""

from contextlib import contextmanager

import pytest
from sqlalchemy import event

import chary
from chary import Budget, count
from chary.amounts import Amount
from chary.client import connect
from chary.errors import LedgerLocked
from chary.ledger import open_ledger
from chary.report import PublicReport
from chary.service.core import datasets
from chary.service.core.datasets import ChargesSoFar
from tests.ledger.long import lengthened
from tests.service.kit import client_of, listening, serve_dataset, service_at, token_of
from tests.service.page_kit import Visitor
from tests.session.kit import visits

FEW, MANY = 60, 1_200
RUN = '{"above":"1","epsilon":"0.01","hits":1}'


class Read:
    """What a ledger's engine did: calls that were made of rows, and its own steps in hundreds."""

    def __init__(self):
        self.statements, self.calls, self.steps = 0, 0, 0

    def told(self):
        return self.statements, self.calls


@contextmanager
def reading(ledger, monkeypatch):
    """Count what is read of a ledger in a file meanwhile."""
    from chary.ledger.sql import transaction  # noqa: PLC0415

    found, made = Read(), transaction._call_of

    def of_row(row):
        found.calls += 1
        return made(row)

    def stepped():
        found.steps += 1

    def executed(*_):
        found.statements += 1

    with ledger.store.transactions.reading() as connection:
        connection.connection.driver_connection.set_progress_handler(stepped, 100)
        engine = connection.engine
    event.listen(engine, "before_cursor_execute", executed)
    with monkeypatch.context() as patched:
        patched.setattr(transaction, "_call_of", of_row)
        yield found
    event.remove(engine, "before_cursor_execute", executed)
    with ledger.store.transactions.reading() as connection:
        connection.connection.driver_connection.set_progress_handler(None, 0)


def ledger_of(place, calls, runs=3):
    """A ledger of a dataset that alice and bob asked so often; nora asked one question, in the middle."""
    ledger = open_ledger(place)
    ledger.open(chary.ledger.Terms("visits", "ab12", "{}", Amount(10**9)))
    half = calls // 2
    lengthened(ledger, "visits", half, ["alice", "bob"])
    for number in range(runs):
        held = ledger.reserve("visits", "nora", "sparse_vector", RUN, Amount(1), request=f"run {number}")
        ledger.settle(held, Amount(1), 0, 0, "{}")
    ledger.note("visits", "append", "{}")
    lengthened(ledger, "visits", calls - half, ["alice", "bob"])
    return ledger


LOOKS = {
    "nobody's": lambda ledger: list(ledger.calls("visits", analyst="carol")),
    "one's own": lambda ledger: list(ledger.calls("visits", analyst="nora")),
    "the newest": lambda ledger: list(ledger.calls("visits", newest=True, limit=26)),
    "the newest of bob's": lambda ledger: list(ledger.calls("visits", newest=True, limit=6, analyst="bob", before=90)),
    "a page": lambda ledger: list(ledger.calls("visits", after=30, limit=26)),
    "a page of bob's": lambda ledger: list(ledger.calls("visits", after=30, limit=6, analyst="bob")),
    "runs": lambda ledger: list(ledger.calls("visits", kinds=["sparse_vector", "weights"])),
    "the newest runs": lambda ledger: list(ledger.calls("visits", kinds=["sparse_vector"], newest=True, limit=2)),
    "runs of bob's": lambda ledger: list(ledger.calls("visits", kinds=["sparse_vector", "weights"], analyst="bob")),
    "under keys": lambda ledger: list(ledger.calls("visits", analyst="nora", keys="run ")),
    "notes": lambda ledger: ledger.notes("visits"),
    "the last note": lambda ledger: ledger.last_note("visits"),
    "analysts": lambda ledger: ledger.analysts("visits"),
}


@pytest.fixture(scope="module")
def short_and_long(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    made = [ledger_of(folder / f"{calls}.ledger", calls) for calls in (FEW, MANY)]
    yield made
    for ledger in made:
        ledger.close()


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_some_calls_takes_no_longer_in_a_longer_ledger(short_and_long, monkeypatch, look):
    seen = []
    for ledger in short_and_long:
        with reading(ledger, monkeypatch) as found:
            LOOKS[look](ledger)
        seen.append(found)
    assert seen[0].told() == seen[1].told()
    # A walk down an index of a longer table takes a few steps more; 20 times the calls would take 20 times the steps.
    assert seen[1].steps <= 2 * seen[0].steps + 5


def test_an_index_that_an_earlier_version_did_not_make_is_made_at_the_opening(tmp_path):
    place = tmp_path / "early.ledger"
    ledger = ledger_of(place, FEW)
    with ledger.store.transactions.writing() as connection:
        for name in ("calls_of_analyst", "calls_of_kind", "notes"):
            connection.exec_driver_sql(f"DROP INDEX {name}")
    before = list(ledger.calls("visits"))
    ledger.close()
    again = open_ledger(place)
    with again.store.transactions.reading() as connection:
        rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'index'").scalars()
        assert {"calls_of_analyst", "calls_of_kind", "notes"} <= set(rows)
    assert (list(again.calls("visits")), again.verify().ok) == (before, True)
    again.close()


@pytest.fixture
def served(tmp_path):
    """A service on a ledger in a file."""
    service = service_at(tmp_path)
    options = {"privacy_unit": "patient", "budget": Budget(epsilon=50), "dataset": "visits"}
    session = chary.open(visits(), ledger=str(tmp_path / "visits.ledger"), **options)
    for place in range(12):
        session.release(count(f"age >= {place}"), epsilon="0.01")
    serve_dataset(service, "visits", session)
    return service


def longer(service, calls):
    """Add calls of the analyst of the session to its ledger, each like the first."""
    ledger = service.datasets["visits"].session.spine.ledger
    (first,) = ledger.calls("visits", limit=1)
    kept = open_ledger(service.config.folder / "visits.ledger")
    lengthened(kept, "visits", calls, ["alice", "bob"], like=first)
    kept.close()


PLACES = ["/v1/datasets/visits/calls", "/v1/datasets/visits/runs"]
PAGES = ["ask", "budget", "history", "report"]


def test_what_an_analyst_who_never_asked_is_shown_reads_none_of_what_others_asked(served, monkeypatch):
    token = token_of(served, "nora")
    keeper = token_of(served, "carol", ["custodian"])
    seen = []
    with listening(served) as address, client_of(address, token) as http, client_of(address, keeper) as custodian:
        visitor = Visitor(address)
        visitor.log_in(token)
        for calls in (20, 400):
            longer(served, calls)
            assert custodian.post("/v1/datasets/visits/report", json={}).status_code == 201
            for place in PAGES:  # what is kept is made at the first look
                assert visitor.get(f"/page/datasets/visits/{place}").status_code == 200
            read, ledger = {}, opened_in(served)
            with reading(ledger, monkeypatch) as found:
                for place in PLACES:
                    assert http.get(place).json()["items"] == []
                    read[place] = found.told()
                for place in PAGES:
                    assert visitor.get(f"/page/datasets/visits/{place}").status_code == 200
                    read[place] = found.told()
            seen.append(read)
        visitor.http.close()
    assert seen[0] == seen[1]
    assert seen[0]["report"][1] == 0


def opened_in(service):
    """The ledger in the file that the session of a service has opened."""
    return service.datasets["visits"].session.spine.ledger._standing()


def test_a_report_is_rendered_once_for_all_who_look(served, monkeypatch):
    made = []
    for form in ("html", "markdown", "csv"):
        write = getattr(PublicReport, form)
        monkeypatch.setattr(PublicReport, form, lambda self, form=form, write=write: made.append(form) or write(self))
    keeper = token_of(served, "carol", ["custodian"])
    with listening(served) as address, client_of(address, keeper) as http:
        place = "/v1/datasets/visits/report"
        assert http.post(place, json={}).status_code == 201
        texts = [http.get(place, params={"form": form}).text for form in ("html", "csv", "html", "csv")]
        assert (texts[:2], made) == (texts[2:], ["html", "csv"])
        plain = http.get(place, params={"form": "html"}, headers={"Accept-Encoding": "identity"})
        assert (plain.text, "content-encoding" in plain.headers) == (texts[0], False)
        drafts = [http.get(f"{place}/draft", params={"form": "html"}).text for _ in range(2)]
        assert (drafts[0], made) == (drafts[1], ["html", "csv", "html"])
        # The ledger goes on, and so does the draft; what was published stays until another is.
        served.datasets["visits"].session.release(count(), epsilon="0.01")
        assert http.get(f"{place}/draft", params={"form": "html"}).text != drafts[0]
        assert http.get(place, params={"form": "html"}).text == texts[0]
        assert http.post(place, json={}).status_code == 201
        assert http.get(place, params={"form": "html"}).text != texts[0]


def test_the_page_of_the_report_shows_a_part_and_leads_on(served, monkeypatch):
    monkeypatch.setattr(datasets, "EACH", 5)
    keeper = token_of(served, "carol", ["custodian"])
    with listening(served) as address, client_of(address, keeper) as http:
        assert http.post("/v1/datasets/visits/report", json={}).status_code == 201
        visitor = Visitor(address)
        visitor.log_in(keeper)
        shown = [visitor.get(f"/page/datasets/visits/report?page={page}").text for page in (1, 2, 3, 4)]
        visitor.http.close()
    assert [text.count("<strong>Release</strong>") for text in shown] == [5, 5, 2, 0]
    assert ["Later queries" in text for text in shown] == [True, True, False, False]
    assert "Page 1 of 3" in shown[0]


def test_runs_come_in_pages(served):
    session = served.datasets["visits"].session
    token = token_of(served, session.spine.analyst)
    opened = [session.start(chary.calls.SparseVector(above=10**6, hits=1, epsilon="0.01")).call for _ in range(5)]
    with listening(served) as address, client_of(address, token) as http:
        first = http.get("/v1/datasets/visits/runs", params={"limit": 3}).json()
        assert [each["run"] for each in first["items"]] == opened[:3]
        rest = http.get("/v1/datasets/visits/runs", params={"limit": 3, "after": first["next"]}).json()
        assert ([each["run"] for each in rest["items"]], rest["next"]) == (opened[3:], None)
        with connect(address, token, dataset="visits") as far:
            assert [run.call for run in far.runs] == opened


def test_charges_that_are_taken_together_keep_their_sums_and_their_first_time(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "MOST", 10)
    ledger = ledger_of(tmp_path / "sums.ledger", 100)
    held = ledger.reserve("visits", "bob", "test", "{}", Amount(5))
    kept, plain = ChargesSoFar(_most=20), list(ledger.calls("visits"))
    for _ in range(2):
        found = kept.all(ledger, "visits")
        assert len(found) <= 30
        assert sum(charge.calls for charge in found) == len(plain)
        for analyst in ("alice", "bob", "nora"):
            took = sum(call.charged.main for call in plain if call.analyst == analyst)
            assert sum(charge.charged.main for charge in found if charge.analyst == analyst) == took
        assert found[0].time == plain[0].created
        assert [charge.time for charge in found] == sorted(charge.time for charge in found)
    ledger.settle(held, Amount(0), 0, 1, "false")
    lengthened(ledger, "visits", 30, ["alice"])
    plain = list(ledger.calls("visits"))
    found = kept.all(ledger, "visits")
    assert sum(charge.charged.main for charge in found) == ledger.balance("visits").spent.main
    assert (sum(charge.calls for charge in found), sum(charge.tests for charge in found)) == (len(plain), 1)
    ledger.close()


class Cut:
    """A ledger that is busy in the midst of its calls."""

    def __init__(self, ledger):
        self.call, self._ledger = ledger.call, ledger

    def calls(self, *asked, **options):
        yield from list(self._ledger.calls(*asked, **options))[:-1]
        raise LedgerLocked("busy")


def test_a_look_that_fails_counts_nothing_twice_and_forgets_nothing(tmp_path):
    ledger = ledger_of(tmp_path / "cut.ledger", 10)
    held = [ledger.reserve("visits", "bob", "test", "{}", Amount(5)) for _ in range(3)]
    kept = ChargesSoFar()
    kept.all(ledger, "visits")
    ledger.settle(held[0], Amount(2), 0, 1, "false")
    held.append(ledger.reserve("visits", "bob", "test", "{}", Amount(5)))
    lengthened(ledger, "visits", 5, ["alice"])
    with pytest.raises(LedgerLocked):
        kept.all(Cut(ledger), "visits")
    for each in held[1:]:
        ledger.settle(each, Amount(3), 0, 1, "false")
    found = kept.all(ledger, "visits")
    assert sum(charge.calls for charge in found) == len(list(ledger.calls("visits")))
    assert sum(charge.charged.main for charge in found) == ledger.balance("visits").spent.main
    ledger.close()


@pytest.mark.parametrize(
    ("said", "packed"),
    [("gzip", True), ("br, gzip;q=0.1", True), ("gzip;q=0", False), ("gzip; q=0.0", False), ("br", False)],
)
def test_a_report_is_packed_for_whoever_takes_it_so(served, said, packed):
    with listening(served) as address, client_of(address, token_of(served, "carol", ["custodian"])) as http:
        assert http.post("/v1/datasets/visits/report").status_code == 201
        for place in ("report", "report/draft"):
            found = http.get(f"/v1/datasets/visits/{place}", headers={"Accept-Encoding": said})
            assert (found.headers.get("Content-Encoding") == "gzip") == packed
            assert len(found.json()["datasets"]) == 1
