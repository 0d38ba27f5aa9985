"""Alerts that stand: each transition told once, with whom it is about."""

import pyarrow as pa
import pytest

import chary
from chary import Budget
from chary import sum as total
from chary.calls import Alert
from chary.noise import Seeded
from chary.service.core.requests import Wish
from tests.service.kit import UNPRICED, serve_dataset, service_at, token_of
from tests.session.kit import PUBLIC

SAVED = total("saved", bounds=(-1, 1))
ZONES = ("north", "south", "east")


@pytest.fixture
def made(tmp_path):
    """A service without a server, whose clock stands and whose noise is known."""
    service = service_at(tmp_path)
    terms = {"ledger": ":memory:", "budget": Budget(epsilon=1, delta=1e-6), "dataset": "homes"}
    serve_dataset(service, "homes", chary.open(homes({}), **PUBLIC, **terms, unsafe_noise=Seeded(6)))
    clock = [service.standing.book.clock()]
    service.standing.book.clock = lambda: clock[0]
    yield service, clock
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def homes(changes):
    """A home of each zone that saved nothing, and in some zones so many that saved one, or lost one."""
    parts = [(zone, changed, 1) for zone, changed in zip(ZONES, (0, 0, 0), strict=True)]
    parts += [(zone, 1 if number > 0 else -1, abs(number)) for zone, number in changes.items()]
    rows = [(zone, saved) for zone, saved, times in parts for _ in range(times)]
    return pa.table({"zone": [zone for zone, _ in rows], "saved": [saved for _, saved in rows]})


def alert(query=SAVED, **said):
    """Far from what it is today, and far from what it is after 4,000 more."""
    return Alert(query, above=2000, clear_below=1500, hits=20, **said)


def stand(service, asked, *, webhook=None, tell="hits"):
    """An alert of alice's that stands."""
    run = service.datasets["homes"].asked_by("alice").start(asked)
    who = service.tokens.recognise(token_of(service, "alice"))
    terms = {"every": "append", "share": 1, "tell": tell, "webhook": webhook}
    wish = Wish("question", {}, run.call)
    return service.standing.stand(service.datasets["homes"], who, wish, UNPRICED, **terms).standing


def grow(service, **changes):
    """A batch, and how many questions are asked then."""
    service.datasets["homes"].session.append(homes(changes))
    return service.standing.tick()


def told(service, *names):
    return [tuple(each[name] for name in names) for each in service.standing.feed.since("homes")]


def test_an_alert_fires_once_and_says_how_severe_it_is_and_what_to_do(made):
    service, _ = made
    stand(service, alert(severity="critical", note="call the desk"))
    assert [grow(service), grow(service, north=4000), grow(service), grow(service, east=-4000)] == [1] * 4
    names = ("kind", "version", "severity", "note", "groups", "silenced", "acknowledged", "detail")
    always = ("critical", "call the desk", [], False, None, "")
    assert told(service, *names) == [("fired", 3, *always), ("cleared", 5, *always)]
    fired, _ = service.standing.feed.since("homes")
    (entry,) = [each for each in service.datasets["homes"].session.history if each.call == fired["call"]]
    assert (entry.hits, "value" in fired) == (1, False)


def test_groups_that_fire_and_groups_that_clear_are_told_apart(made):
    service, _ = made
    stand(service, alert(SAVED.by("zone", ZONES)), tell="all")
    grow(service, north=4000, south=4000)
    grow(service)
    grow(service, south=-4000, east=4000)
    assert told(service, "kind", "version", "groups") == [
        ("fired", 2, ["north", "south"]),
        ("answer", 3, []),
        ("cleared", 4, ["south"]),
        ("fired", 4, ["east"]),
    ]
