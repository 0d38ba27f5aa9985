"""Jobs after a restore: a ledger older than the service's own database, and the reverse; looking asks nothing."""

import shutil

import pytest
from sqlalchemy import update

from chary import Budget, count
from chary.calls import Alert
from chary.client import connect
from chary.service.store import JOBS
from tests.service.kit import client_of, listening, serve_visits, service_at, token_of, wait_for
from tests.service.page_kit import Visitor
from tests.session.kit import visits

PLACE = "/v1/datasets/visits"
ASYNC = {"Prefer": "respond-async"}
COUNT = {"kind": "release", "query": {"kind": "count"}, "epsilon": "0.1"}
SPARSE = {"kind": "sparse_vector", "above": 1, "hits": 3, "epsilon": "1"}


class Restored:
    """A service in a folder that stops, and starts again on older copies of its files."""

    def __init__(self, folder, shared):
        self.folder, self.shared = folder, shared

    def serving(self):
        service = service_at(self.folder)
        serve_visits(service, ledger=str(self.folder / "visits.ledger"), budget=Budget(epsilon=9), shared=self.shared)
        return service

    def keep(self, name):
        # A ledger is a file from its first charge on.
        if (self.folder / name).exists():
            shutil.copy(self.folder / name, self.folder / f"{name}.old")

    def restore(self, name):
        for newer in (self.folder / name, *self.folder.glob(f"{name}-*")):
            newer.unlink()
        if (old := self.folder / f"{name}.old").exists():
            shutil.copy(old, self.folder / name)


@pytest.fixture(params=[False, True], ids=["each", "shared"])
def restored(request, tmp_path):
    return Restored(tmp_path, request.param)


def spent_and_asked(service):
    """What a look must not change."""
    session = service.datasets["visits"].session
    return session.spent, len(session.history), len(service.trail.entries())


def done(http, place):
    wait_for(lambda: http.get(place).json()["state"] == "done")
    return http.get(place).json()


ASKED = {
    "a call": lambda http: http.post(f"{PLACE}/calls", json=COUNT, headers=ASYNC),
    "a run": lambda http: http.post(f"{PLACE}/runs", json=SPARSE, headers=ASYNC),
    "a question": lambda http: question(http),
}


def question(http):
    run = http.post(f"{PLACE}/runs", json=SPARSE).json()["run"]
    return http.post(f"{PLACE}/runs/{run}/questions", json={"query": {"kind": "count"}}, headers=ASYNC)


@pytest.mark.parametrize("asked", ASKED)
def test_a_job_whose_answer_a_restored_ledger_lacks_is_interrupted_and_asks_nothing(restored, asked):
    first = restored.serving()
    restored.keep("visits.ledger")
    token = token_of(first)
    with listening(first) as address, client_of(address, token) as http:
        place = ASKED[asked](http).headers["location"]
        assert "result" in done(http, place)
    restored.restore("visits.ledger")
    second = restored.serving()
    with listening(second) as address, client_of(address, token) as http:
        before = spent_and_asked(second)
        found = http.get(place).json()
        assert (found["state"], "result" in found) == ("interrupted", False)
        with http.stream("GET", f"{place}/events") as stream:
            assert next(stream.iter_lines()) == "event: interrupted"
        visitor = Visitor(address)
        visitor.log_in(token)
        page = visitor.get(f"/page/datasets/visits/ask/jobs/{place.rpartition('/')[2]}")
        assert (page.status_code, "<h1>Interrupted</h1>" in page.text) == (200, True)
        visitor.http.close()
        assert spent_and_asked(second) == before
        assert before[1] == 0


def test_another_call_under_the_number_of_a_job_is_not_its_answer(restored):
    first = restored.serving()
    restored.keep("visits.ledger")
    token = token_of(first)
    with listening(first) as address, client_of(address, token) as http:
        asked = http.post(f"{PLACE}/calls", json=COUNT, headers=ASYNC)
        place, key = asked.headers["location"], asked.headers["idempotency-key"]
        done(http, place)
    restored.restore("visits.ledger")
    second = restored.serving()
    with listening(second) as address, client_of(address, token) as http:
        other = COUNT | {"epsilon": "0.2"}
        assert http.post(f"{PLACE}/calls", json=other, headers={"Idempotency-Key": key}).status_code in (200, 409)
        before = spent_and_asked(second)
        assert http.get(place).json()["state"] == "interrupted"
        assert spent_and_asked(second) == before


@pytest.mark.parametrize("asked", ASKED)
def test_a_job_of_a_restored_database_has_the_answer_that_the_ledger_has(restored, asked):
    first = restored.serving()
    token = token_of(first)
    with listening(first) as address, client_of(address, token) as http:
        place = ASKED[asked](http).headers["location"]
        answered = done(http, place)
    # As it was kept while the call ran, and no process is at work on it any more.
    first = service_at(restored.folder)
    first.store.change(update(JOBS).values(state="running", step="reserved", touched=0.0))
    first.store.close()
    second = restored.serving()
    with listening(second) as address, client_of(address, token) as http:
        before = spent_and_asked(second)
        found = http.get(place).json()
        assert (found["state"], found["result"]) == ("done", answered["result"])
        assert spent_and_asked(second) == before


def test_a_job_that_an_older_database_does_not_know_is_not_there(restored):
    first = restored.serving()
    token = token_of(first)
    first.store.close()
    restored.keep("service.db")
    first = restored.serving()
    with listening(first) as address, client_of(address, token) as http:
        place = ASKED["a call"](http).headers["location"]
        done(http, place)
    restored.restore("service.db")
    second = restored.serving()
    with listening(second) as address, client_of(address, token) as http:
        before = spent_and_asked(second)
        assert http.get(place).status_code == 404
        assert spent_and_asked(second) == before


def test_an_alert_whose_run_a_restored_ledger_lacks_ends_and_asks_no_other_run(tmp_path):
    """The number of its run comes again, for another alert: what that one says would be told of this one."""
    restored = Restored(tmp_path, shared=False)
    names = []
    for batches, above in ((1, 1), (2, 10**6)):
        service = restored.serving()
        restored.keep("visits.ledger")
        token = token_of(service, roles=("analyst", "custodian"))
        with listening(service) as address, connect(address, token) as session:
            alert = Alert(count(), above=above, epsilon="0.1", below_margin=True)
            names.append(session.stand(alert, every="append", share="1/2", request=f"above {above}")["standing"])
            runs = [each["asked"]["run"] for each in session.standing]
            for _ in range(batches):
                version = session.append(visits().head(1))
                wait_for(
                    lambda now=version: all(now == at["version"] or at["state"] == "ended" for at in session.standing)
                )
            told = {each["standing"]: each["state"] for each in session.standing}
            news = [(each["kind"], each["standing"]) for each in session.news]
        restored.restore("visits.ledger")
    assert len(set(runs)) == 1
    assert [told[name] for name in names] == ["ended", "active"]
    assert sorted(news) == sorted([("fired", names[0]), ("ended", names[0])])


def test_a_question_to_a_run_of_ones_own_stays_whatever_its_key(tmp_path):
    """Only of a run that was opened for a subscription is the key known."""
    service = Restored(tmp_path, shared=False).serving()
    token = token_of(service, roles=("analyst", "custodian"))
    with listening(service) as address, connect(address, token) as session, client_of(address, token) as http:
        alert = Alert(count(), above=10**6, epsilon="0.1", below_margin=True)
        run = session.start(alert, request="standing orders")
        session.stand(alert, every="append", share="1/2")
        body = {"run": run.call, "question": {}, "every": "append", "share": "0.25"}
        assert http.post(f"{PLACE}/standing", json=body).status_code == 201
        session.append(visits().head(1))
        wait_for(lambda: all(each["version"] == 1 for each in session.standing))
        assert {each["state"] for each in session.standing} == {"active"}
