"""Alerts that stand: each transition told once, with whom it is about."""

import json
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest
from sqlalchemy import select

import chary
from chary import Budget
from chary import sum as total
from chary.calls import Alert
from chary.client import connect
from chary.errors import CharyError, InvalidParameter
from chary.noise import Seeded
from chary.service.core.requests import Wish
from chary.service.core.scheduler import StandingRunner
from chary.service.store.tables import TOLD
from tests.service.kit import UNPRICED, listening, serve_dataset, service_at, token_of, wait_for
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
    service.standing.book.clock = service.standing.feed.clock = lambda: clock[0]
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


@contextmanager
def meeting(service, **roles):
    """The same service, listening, and a session over HTTP for each of these people."""
    with ExitStack() as open_, listening(service) as address:
        yield [open_.enter_context(connect(address, token_of(service, name, [role]))) for name, role in roles.items()]


def test_an_alert_is_opened_and_stands_in_one_step_and_under_one_key_once(made):
    service, _ = made
    asked = alert(SAVED.by("zone", ZONES), note="call the desk")
    with meeting(service, alice="analyst") as (alice,):
        said = {"every": "append", "share": "0.6", "request": "mine"}
        first = alice.stand(asked, **said)
        assert alice.stand(asked, **said)["standing"] == first["standing"]
        assert [run.kind for run in alice.runs] == ["alert"]
        (shown,) = alice.standing
        assert shown["alert"] == {"severity": "warning", "note": "call the desk", "active": [], "version": None}
        service.datasets["homes"].session.append(homes({"north": 4000}))
        wait_for(lambda: alice.news)
        assert alice.standing[0]["alert"] | {"note": None} == {
            "severity": "warning",
            "note": None,
            "active": ["north"],
            "version": 2,
        }
        with pytest.raises(CharyError, match="used before with another question"):
            alice.stand(alert(), **said)
    (trailed,) = [each for each in service.trail.entries() if each.action == "stand"]
    assert json.loads(trailed.asked)["asked"]["body"]["kind"] == "alert"


def test_what_is_killed_between_opening_and_standing_opens_once(made, monkeypatch):
    service, _ = made
    with meeting(service, alice="analyst") as (alice,):
        said = {"every": "append", "share": "0.6", "request": "mine"}
        with monkeypatch.context() as patched:
            patched.setattr(StandingRunner, "stand", dropped)
            with pytest.raises(InvalidParameter, match="killed"):
                alice.stand(alert(), **said)
        assert (len(alice.runs), alice.standing) == (1, [])
        first = alice.stand(alert(), **said)
        assert [run.call for run in alice.runs] == [first["asked"]["run"]]


def dropped(*_, **__):
    raise InvalidParameter("killed")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"share": "0.04"}, "larger"),
        ({"every": "never"}, "crontab"),
        ({"webhook": "ops"}, "no webhook of that name"),
        ({"share": "a tenth"}, "share"),
        ({"call": Alert(chary.count("saved = 1"), above=5, hits=20)}, "false alarm"),
    ],
)
def test_what_cannot_stand_opens_nothing(made, wrong, words):
    service, _ = made
    with meeting(service, alice="analyst") as (alice,):
        with pytest.raises(CharyError, match=words):
            alice.stand(**({"call": alert(), "every": "append", "share": "0.5"} | wrong))
        assert (alice.runs, alice.standing) == ([], [])


def waiting(service):
    """The kinds of news that are to be sent."""
    return [kind for (kind,) in service.store.rows(select(TOLD.c.kind).where(TOLD.c.due.is_not(None)))]


def test_a_silence_sends_nothing_and_the_feed_says_so(made):
    service, clock = made
    name = stand(service, alert(), webhook="ops")
    until = service.standing.book.silence(name, clock[0] + 3600).silenced
    grow(service, north=4000)
    clock[0] = until
    grow(service, north=-4000)
    assert told(service, "kind", "silenced") == [("fired", True), ("cleared", False)]
    assert waiting(service) == ["cleared"]
    assert service.standing.book.found(name).hits == 2


def test_what_becomes_of_a_question_is_sent_although_it_is_silenced(made):
    service, clock = made
    name = stand(service, alert(), webhook="ops")
    service.standing.book.silence(name, clock[0] + 3600)
    service.tokens.revoke(service.standing.book.found(name).token)
    grow(service, north=4000)
    assert waiting(service) == ["ended"]


def test_what_is_acknowledged_is_sent_no_more(made):
    service, _ = made
    stand(service, alert(), webhook="ops")
    grow(service, north=4000)
    assert waiting(service) == ["fired"]
    with meeting(service, alice="analyst", bob="analyst") as (alice, bob):
        with pytest.raises(CharyError, match="no news"):
            bob.acknowledge(1)
        first = alice.acknowledge(1)
        assert (first["acknowledged_by"], alice.acknowledge(1)) == ("alice", first)
        assert alice.news == [first]
        service.datasets["homes"].session.append(homes({"north": -4000}))
        wait_for(lambda: len(alice.news) == 2)
        with pytest.raises(InvalidParameter, match="nothing else waits"):
            alice.acknowledge(2)
    assert waiting(service) == ["cleared"]
    assert {"acknowledged": 1} in [json.loads(each.asked) for each in service.trail.entries()]


def test_one_silences_ones_own_over_http(made):
    service, clock = made
    with meeting(service, alice="analyst", bob="analyst") as (alice, bob):
        name = alice.stand(alert(), every="append", share="0.5")["standing"]
        with pytest.raises(CharyError, match="no standing question"):
            bob.silence(name, hours=8)
        assert alice.silence(name, hours="1.5")["silenced"] == clock[0] + 5400
        assert alice.silence(name, until="2030-01-01 01:00+01:00")["silenced"] == 1893456000.0
        assert alice.silence(name, hours=0)["silenced"] is None
        for wrong, words in (
            ({"hours": -1}, "later than now"),
            ({"hours": 10**6}, "ten years"),
            ({"until": "1999-01-01"}, "later than now"),
            ({"until": "tomorrow"}, "a time such as"),
        ):
            with pytest.raises(InvalidParameter, match=words):
                alice.silence(name, **wrong)
        for body in ({}, {"silence_hours": 1, "state": "paused"}, {"silence_until": 5}):
            with pytest.raises(InvalidParameter):
                alice._transport.once("PUT", alice._at(f"standing/{name}"), body)
    assert [json.loads(each.asked).get("silenced") for each in service.trail.entries()][1:] == [name] * 3
