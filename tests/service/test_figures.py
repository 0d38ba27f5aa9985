"""Metrics of alerts and deliveries: what is in the store, told the same by every process."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

import chary
from chary import Budget
from chary.noise import Seeded
from chary.service.core.figures import StoredFigures
from tests.service.kit import client_of, listening, serve_dataset, service_at, token_of
from tests.service.test_standing_alerts import SAVED, ZONES, alert, grow, homes, stand
from tests.session.kit import PUBLIC

HOOK = {"url": "http://127.0.0.1:1/hook", "secret-file": "secret"}


@pytest.fixture
def made(tmp_path):
    """A service without a server, whose noise is known, and a receiver that is not there."""
    (tmp_path / "secret").write_bytes(b"x" * 24)
    service = service_at(tmp_path, webhook={"ops": HOOK, "other": HOOK})
    terms = {"ledger": ":memory:", "budget": Budget(epsilon=1, delta=1e-6), "dataset": "homes"}
    serve_dataset(service, "homes", chary.open(homes({}), **PUBLIC, **terms, unsafe_noise=Seeded(6)))
    yield service
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def figures(text):
    """Every sample by its name, with its labels but for the dataset."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "dataset"}
            found[sample.name, tuple(labels.values())] = sample.value
    return found


def of(service, prefix="chary_alert"):
    found = figures(service.stored.told().decode())
    return {name.removeprefix("chary_"): value for (name, _), value in found.items() if name.startswith(prefix)}


def test_what_alerts_do_is_told(made):
    name = stand(made, alert(SAVED.by("zone", ZONES), severity="critical"), webhook="ops")
    quiet = {"alert_active": 0, "alert_last_version_looked": 1, "alert_behind_versions": 0}
    assert of(made) == quiet
    grow(made, north=4000, south=4000)
    told = figures(made.stored.told().decode())
    assert told["chary_alert_active", (name, "critical")] == 2
    assert told["chary_alert_transitions_total", (name, "fired")] == 2
    assert told["chary_alert_last_version_looked", (name,)] == 2
    assert told["chary_deliveries_waiting", ("ops",)] == 1
    assert told["chary_deliveries_waiting", ("other",)] == told["chary_deliveries_failed_total", ("ops",)] == 0
    grow(made, south=-4000)
    told = figures(made.stored.told().decode())
    assert told["chary_alert_active", (name, "critical")] == 1
    assert told["chary_alert_transitions_total", (name, "cleared")] == 1
    made.datasets["homes"].session.append(homes({}))
    assert figures(made.stored.told().decode())["chary_alert_behind_versions", (name,)] == 1
    other = StoredFigures(made.datasets, made.standing.book, made.standing.feed, made.delivery)
    assert other.told() == made.stored.told()
    made.standing.book.turn(name, "ended", 3)
    assert of(made) == {}


def test_what_is_no_alert_has_no_state(made):
    run = made.datasets["homes"].asked_by("alice").start(chary.calls.SparseVector(above=10, hits=3, epsilon="0.1"))
    who = made.tokens.recognise(token_of(made))
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    for wish in (
        chary.service.core.requests.Wish("question", {"query": {"kind": "count"}}, run.call),
        chary.service.core.requests.Wish("ask", {"kind": "test"}),
    ):
        made.standing.book.add(who, "homes", wish, -1, **terms)
    assert set(of(made)) == {"alert_last_version_looked", "alert_behind_versions"}


def test_metrics_have_them_for_who_may_see_metrics(made):
    stand(made, alert())
    with listening(made) as address:
        for roles, datasets, status in (("custodian", "*", 200), ("analyst", "*", 403), ("reader", "homes", 403)):
            with client_of(address, token_of(made, "carol", [roles], [datasets])) as client:
                answer = client.get("/metrics")
                assert answer.status_code == status
                assert ("chary_alert_active" in answer.text) == (status == 200)
                if status == 200:
                    figures(answer.text)
