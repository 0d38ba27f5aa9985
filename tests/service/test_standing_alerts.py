"""Alerts that stand: each transition told once, with whom it is about."""

import json
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from sqlalchemy import select

import chary
from chary import Blocks, Budget
from chary import sum as total
from chary.calls import Alert, Release
from chary.client import connect
from chary.data import blocks as periods
from chary.data.blocks import months_later
from chary.errors import CharyError, InvalidParameter, InvalidQuery
from chary.ledger import entries
from chary.noise import Seeded
from chary.service.core import jobs
from chary.service.core.requests import Wish
from chary.service.core.scheduler import StandingRunner
from chary.service.store import TOLD
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


def stand(service, asked, *, webhook=None, tell="hits", share=1):
    """An alert of alice's that stands."""
    run = service.datasets["homes"].asked_by("alice").start(asked)
    who = service.tokens.recognise(token_of(service, "alice"))
    terms = {"every": "append", "share": share, "tell": tell, "webhook": webhook}
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


@pytest.fixture
def monthly(tmp_path, monkeypatch):
    """A service whose rows have a budget for each month, and what lets a batch arrive on a day."""
    today = [date(2024, 1, 10)]
    monkeypatch.setattr(periods, "now", lambda: datetime.combine(today[0], datetime.min.time()))
    monkeypatch.setattr(entries, "now", lambda: f"{today[0]}T00:00:00+00:00")

    def batch(saved):
        return pa.table({"day": [today[0]] * abs(saved), "saved": [1 if saved > 0 else -1] * abs(saved)})

    def arrives(day, saved):
        today[0] = day
        service.datasets["homes"].session.append(batch(saved))
        return service.standing.tick()

    service = service_at(tmp_path)
    renews = {"budget": Budget(epsilon=1, delta=1e-6), "blocks": Blocks("day", every="month", since="2024-01")}
    session = chary.open(batch(1), **PUBLIC, **renews, ledger=":memory:", dataset="homes", unsafe_noise=Seeded(6))
    serve_dataset(service, "homes", session)
    yield service, arrives
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def test_an_alert_over_blocks_outlives_its_share_of_one(monthly):
    service, arrives = monthly
    name = stand(service, alert(window="20 days"), tell="all")
    for number in range(24):
        assert arrives(months_later(date(2024, 1, 25), number), 4000 if number % 2 == 0 else 1) == 1
    kinds = [kind for (kind,) in told(service, "kind")]
    assert (kinds.count("fired"), kinds.count("cleared"), kinds.count("ended")) == (12, 12, 0)
    spent = service.datasets["homes"].session.spent_by_block
    assert sum(spent.values()) > 1
    assert max(spent.values()) == pytest.approx(service.standing.book.found(name).charged)


@pytest.mark.parametrize("others", [False, True])
def test_an_alert_whose_month_is_spent_goes_on_once_its_window_left_it(monthly, others):
    """Whether its own share is spent there, or the budget is by what others ask."""
    service, arrives = monthly
    session = service.datasets["homes"].session
    stand(service, alert(window="20 days"), share=1 if others else "0.1", tell="all")
    arrives(date(2024, 1, 12), 4000)
    arrives(date(2024, 1, 13), -4000)
    if others:
        session.blocks("2024-01", "2024-01").release(chary.count(), epsilon="0.5")
    for day in (date(2024, 1, 14), date(2024, 2, 10)):
        arrives(day, 4000)
    arrives(date(2024, 3, 25), 4000)
    assert [kind for (kind,) in told(service, "kind")] == ["fired", "cleared", "skipped", "skipped", "fired"]
    assert session.spent_by_block["2024-03"] == pytest.approx(0.05)


def test_an_alert_that_sees_all_months_ends_with_the_first_that_is_spent(monthly):
    service, arrives = monthly
    stand(service, alert(), share="0.1")
    for day, saved in ((12, 4000), (13, -4000), (14, 4000)):
        arrives(date(2024, 1, day), saved)
    assert [kind for (kind,) in told(service, "kind")] == ["fired", "cleared", "ended"]


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


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Whoever listens looks ten times a second."""
    monkeypatch.setattr(jobs, "BEAT", 0.1)


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
    service.standing.feed.acknowledge("homes", 1, "alice")
    assert waiting(service) == []
    grow(service, north=-4000)
    assert waiting(service) == ["cleared"]
    with pytest.raises(InvalidParameter, match="nothing else waits"):
        service.standing.feed.acknowledge("homes", 2, "alice")


def test_everybody_sees_who_takes_care_of_what_fired(made):
    service, _ = made
    stand(service, alert())
    grow(service, north=4000)
    with meeting(service, alice="analyst", bob="analyst", carol="custodian") as (alice, bob, carol):
        with pytest.raises(CharyError, match="no event of that number"):
            bob.acknowledge(1)
        with pytest.raises(CharyError, match="roles"):
            carol.acknowledge(1)
        first = alice.acknowledge(1)
        assert (first["acknowledged_by"], alice.acknowledge(1)) == ("alice", first)
        assert alice.news == carol.news == [first]
        with pytest.raises(InvalidParameter, match="acknowledged by"):
            alice._transport.once("PUT", alice._at("feed/1"), {"acknowledged": False})
        assert {"acknowledged": 1} in [json.loads(each.asked) for each in service.trail.entries()]


def test_one_silences_ones_own_over_http(made):
    service, clock = made
    with meeting(service, alice="analyst", bob="analyst") as (alice, bob):
        name = alice.stand(alert(), every="append", share="0.5")["standing"]
        with pytest.raises(CharyError, match="no subscription"):
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


def run_of(service):
    """The run of the only alert."""
    (standing,) = service.standing.book.all("homes")
    return service.datasets["homes"].asked_by("alice").resume(standing.wish.run)


def arrive(service, *batches):
    """Batches that come before anything is asked."""
    for changes in batches:
        service.datasets["homes"].session.append(homes(changes))


def test_a_backlog_is_worked_off_in_order_about_the_rows_of_each_version(made):
    service, _ = made
    name = stand(service, alert())
    arrive(service, {"north": 4000}, {}, {"north": -4000}, {"east": 4000})
    assert [service.standing.tick(), service.standing.tick()] == [4, 0]
    assert told(service, "kind", "version") == [("fired", 2), ("cleared", 4), ("fired", 5)]
    assert (service.standing.book.found(name).version, service.standing.book.found(name).runs) == (5, 4)
    assert [each.version for each in run_of(service).state.results] == [2, 3, 4, 5]


def test_rows_may_arrive_between_two_versions_of_a_backlog(made, monkeypatch):
    service, _ = made
    stand(service, alert())
    arrive(service, {"north": 4000}, {"north": -4000})
    usual, late = StandingRunner._ask, [{"south": 4000}]

    def asked(runner, served, standing, latest):
        usual(runner, served, standing, latest)
        served.growing.release()
        arrive(service, *late[:1])
        late.clear()
        served.growing.acquire()

    monkeypatch.setattr(StandingRunner, "_ask", asked)
    assert service.standing.tick() == 3
    assert told(service, "kind", "version") == [("fired", 2), ("cleared", 3), ("fired", 4)]


def test_where_earlier_versions_cannot_be_read_those_of_now_are_and_it_is_said_once(tmp_path):
    """Rows in memory: what came before this opening is not known apart."""
    service = service_at(tmp_path)
    terms = PUBLIC | {"budget": Budget(epsilon=1, delta=1e-6), "dataset": "homes", "ledger": tmp_path / "ledger"}
    with chary.open(homes({}), **terms) as first:
        serve_dataset(service, "homes", first)
        stand(service, alert())
        arrive(service, {"north": 4000}, {"north": -4000}, {"east": 4000})
    batches = [{}, {"north": 4000}, {"north": -4000}, {"east": 4000}]
    serve_dataset(service, "homes", chary.open(pa.concat_tables(map(homes, batches)), **terms))
    for each in (homes({}), homes({})):
        service.datasets["homes"].session.append(each)
    assert [service.standing.tick(), service.standing.tick()] == [1, 0]
    assert told(service, "kind", "version") == [("skipped", 5), ("fired", 6)]
    (detail, _) = told(service, "detail")
    assert detail[0].startswith("versions 2 to 5 were not looked at: rows of that version are not known apart")
    service.datasets.close(), service.store.close(), service.jobs.close(1)


def test_a_pause_says_which_versions_it_skipped_and_does_so_once(made):
    service, _ = made
    name = stand(service, alert(), webhook="ops")
    service.standing.book.turn(name, "paused", 1)
    arrive(service, {"north": 4000}, {"north": -4000}, {"east": 4000})
    service.standing.book.turn(name, "active", 4)
    arrive(service, {}, {"east": -4000})
    assert service.standing.tick() == 3
    assert told(service, "kind", "version") == [("skipped", 3), ("fired", 4), ("cleared", 6)]
    assert told(service, "detail")[0] == ("versions 2 to 3 were not looked at: it was paused",)
    assert "skipped" in waiting(service)


def test_a_version_that_came_before_one_that_somebody_asked_about_stays_out(made):
    service, _ = made
    stand(service, alert())
    arrive(service, {"north": 4000}, {"north": -4000})
    run_of(service).ask()
    arrive(service, {"east": 4000})
    service.standing.tick()
    assert told(service, "kind", "version") == [("skipped", 2), ("fired", 4)]


def test_what_was_charged_before_a_kill_is_told_although_its_rows_cannot_be_read_any_more(made, monkeypatch):
    service, clock = made
    stand(service, alert())
    with monkeypatch.context() as patched:
        patched.setattr(service.standing.feed, "add", killed)
        with pytest.raises(SystemExit):
            grow(service, north=4000)
    spent = service.datasets["homes"].session.spent
    arrive(service, {}, {})
    clock[0] += 301
    monkeypatch.setattr("chary.core.versions.Arrivals.as_of", unreadable)
    assert service.standing.tick() == 2
    assert told(service, "kind", "version") == [("fired", 2), ("skipped", 3)]
    assert service.datasets["homes"].session.spent == spent


def killed(*_):
    raise SystemExit


def unreadable(*_):
    raise InvalidQuery("they cannot be read")


def test_an_answer_that_somebody_had_about_the_rows_of_now_is_none_about_earlier_ones(tmp_path):
    service = service_at(tmp_path)
    terms = PUBLIC | {"budget": Budget(epsilon=1, delta=1e-6), "dataset": "homes", "ledger": ":memory:"}
    serve_dataset(service, "homes", chary.open(homes({}), **terms), shared=True)
    asked, served = Release(chary.count(), epsilon="0.1"), service.datasets["homes"]
    who = service.tokens.recognise(token_of(service, "alice"))
    said = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    service.standing.stand(served, who, Wish("ask", asked.body()), UNPRICED, **said)
    arrive(service, {}, {"north": 4000})
    shared = served.asked_by("bob").ask(asked)
    assert service.standing.tick() == 2
    (first,), (second,) = told(service, "call")
    assert (
        len({first, second, shared.call}) == 3
    )  # what was asked last was about earlier rows, so that nothing is shared
    service.datasets.close(), service.store.close(), service.jobs.close(1)


def test_a_window_ends_when_the_version_came_however_late_it_is_looked_at(tmp_path):
    service = service_at(tmp_path)
    times = pa.table({"time": pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))})
    terms = PUBLIC | {"budget": Budget(epsilon=1, delta=1e-6), "dataset": "homes", "ledger": ":memory:"}
    serve_dataset(service, "homes", chary.open(times, **terms))
    stand(service, Alert(chary.count(), above=2000, clear_below=1500, hits=20, time="time", window="1 hour"))
    session = service.datasets["homes"].session
    batch = [datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=30)] * 4000
    for _ in range(2):
        session.append(pa.table({"time": pa.array(batch, pa.timestamp("us"))}))
    assert service.standing.tick() == 2
    asked = [record for record in session.spine.ledger.calls("homes") if record.kind == "alert_ask"]
    came = [datetime.fromisoformat(each.time).strftime("%Y-%m-%d %H:%M:%S") for each in session.versions[1:]]
    assert [json.loads(record.answer)["at"] for record in asked] == came
    assert told(service, "kind", "version") == [("fired", 2)]
    service.datasets.close(), service.store.close(), service.jobs.close(1)
