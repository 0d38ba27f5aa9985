"""The page of standing questions: made, paused and stopped by their owners, drawn over time, for who may see them."""

import json
import re
from fractions import Fraction

import pandas as pd
import pytest

from chary import Budget, count
from chary.calls import Alert, Release, ReleaseIf, SparseVector, ThresholdTest
from chary.service.auth.tokens import Role
from chary.service.core.requests import Wish
from chary.service.http.admission import Asking
from chary.service.pages.episodes import MOST_KEYS
from chary.service.pages.timelines import MOST, alarms_spec, watched
from tests.service.kit import UNPRICED, serve_visits, service_at, token_of
from tests.service.page_kit import fields_of
from tests.session.kit import CLINICS, PUBLIC, visits

PLACE = "/page/datasets/visits/standing"
CALL = {"kind": "release_if", "query": {"kind": "count", "by": {"columns": ["clinic"], "keys": [["north"], ["south"]]}}}
CALL |= {"above": 1, "hits": 20}
FORM = {"asked": json.dumps({"call": CALL}), "every": "append", "share": "0.5", "tell": "hits"}
ASK = {"kind": "release_if", "ask.query.kind": "count", "ask.query.by": "clinic", "ask.query.keys": "north, south"}
ASK |= {"ask.above": "1", "ask.hits": "20"}
CLEAR = {"value": "0.5", "hits": 50}


@pytest.fixture(scope="module")
def alice(arriving):
    return arriving("alice")


@pytest.fixture(scope="module")
def bob(arriving):
    return arriving("bob")


@pytest.fixture
def made(tmp_path):
    """A service without a server, with plenty of budget, and somebody who asks."""
    service = service_at(tmp_path)
    serve_visits(service, **PUBLIC, budget=Budget(epsilon=10**4, delta=1e-6))
    yield service, Asking(service.tokens.recognise(token_of(service)), service.datasets["visits"])
    service.jobs.close(5)
    service.datasets.close()
    service.store.close()


def asking(call):
    return json.dumps({"call": call})


def stand(made, call, tell="hits", who=None):
    service, on = made
    terms = {"every": "append", "share": 1, "tell": tell, "webhook": None}
    return service.standing.stand(on.served, who or on.who, Wish("ask", call.body()), UNPRICED, **terms).standing


def grow(made, times=1):
    for _ in range(times):
        made[1].served.session.append(visits().head(1))
        made[0].standing.tick()


def name_in(text):
    """The standing question that was made last."""
    return re.search(rf'action="{PLACE}/([0-9a-f]{{16}})"', text)[1]


def test_nothing_stands_at_first_and_the_page_says_what_to_do(arriving):
    assert f'href="{PLACE.replace("standing", "ask")}"' in arriving("ann").get(PLACE).text
    reader = arriving("rae", ["reader"]).get(PLACE).text
    assert "The alerts of analysts appear here" in reader
    assert "Let a question stand" not in reader


def test_one_is_made_paused_let_on_and_stopped(service, alice):
    assert alice.post(PLACE, **FORM).headers["location"] == PLACE
    page = alice.get(PLACE).text
    name = name_in(page)
    kept = service.standing.book.found
    assert kept(name).wish.body == CALL
    assert "Not asked yet. It waits for new rows" in page
    for state, button in (("paused", "Resume"), ("active", "Pause"), ("ended", None)):
        assert alice.post(f"{PLACE}/{name}", state=state).status_code == 303
        assert kept(name).state == state
        assert button is None or button in alice.get(PLACE).text
    assert alice.post(f"{PLACE}/{name}", state="active").status_code == 422
    assert f'action="{PLACE}/{name}"' not in alice.get(PLACE).text


def test_what_was_filled_in_to_be_asked_can_stand(service, alice):
    begun = alice.post(f"{PLACE}/new", **ASK)
    assert begun.status_code == 200
    assert "count by clinic (2 keys), above 1, hits 20" in begun.text
    assert "The remaining budget pays for" in begun.text
    fields = fields_of(begun.text, PLACE) | {"every": "at", "at": "0 6 * * mon", "tell": "all"}
    fields.pop("form_token")
    assert alice.post(PLACE, **fields).status_code == 303
    page = alice.get(PLACE).text
    found = service.standing.book.found(name_in(page))
    assert (found.wish.kind, found.every, found.tell, found.share) == (
        "release_if",
        "0 6 * * mon",
        "all",
        Fraction(1, 10),
    )
    assert "at 0 6 * * mon (UTC), if rows are new" in page


def test_what_was_filled_in_for_a_run_can_stand(service, alice):
    run = service.datasets["visits"].asked_by("alice").start(SparseVector(above=1, hits=3, epsilon="0.05"))
    page = alice.get(f"{PLACE.replace('standing', 'ask')}/runs/{run.call}").text
    (place,) = re.findall(rf'formaction="({PLACE}/new/[0-9]+)"', page)
    begun = alice.post(place, **{"ask.query.kind": "count", "ask.query.where": "age >= 34"})
    assert begun.status_code == 200
    assert f"count where age &gt;= 34, of the run of call {run.call}" in begun.text
    fields = fields_of(begun.text, PLACE)
    fields.pop("form_token")
    assert alice.post(PLACE, **fields).status_code == 303
    wish = service.standing.book.found(name_in(alice.get(PLACE).text)).wish
    assert (wish.run, wish.body) == (run.call, {"query": {"kind": "count", "where": "age >= 34"}})


def test_a_form_that_is_sent_twice_makes_one(service, alice):
    begun = alice.post(f"{PLACE}/new", **ASK)
    fields = fields_of(begun.text, PLACE)
    fields.pop("form_token")
    standing = service.standing.book.all
    before = len(standing("visits"))
    for share in ("0.2", "0.2", "0.3"):
        assert alice.post(PLACE, **(fields | {"share": share})).status_code == 303
    assert [str(each.share) for each in standing("visits")[before:]] == ["1/5", "3/10"]


def test_what_a_run_cannot_be_asked_says_why_at_once(service, alice):
    session = service.datasets["visits"].asked_by("alice")
    run = session.start(SparseVector(above=-(10**6), hits=1, epsilon="0.05"))
    place = f"{PLACE}/new/{run.call}"
    assert "unknown column" in alice.post(place, **{"ask.query.kind": "count", "ask.query.where": "agee > 1"}).text
    assert run.ask(count())
    told = alice.post(place, **{"ask.query.kind": "count"}).text
    assert "all 1 hits of the sparse vector of call" in told
    assert "is opened, and charged, by Sparse vector (above, hits 1, epsilon)" in told


def test_a_question_to_a_run_of_somebody_else_cannot_stand(service, bob):
    run = service.datasets["visits"].asked_by("alice").start(SparseVector(above=1, hits=3, epsilon="0.05"))
    assert bob.post(f"{PLACE}/new/{run.call}", **{"ask.query.kind": "count"}).status_code == 404
    asked = json.dumps({"run": run.call, "question": {"query": {"kind": "count"}}})
    assert bob.post(PLACE, **(FORM | {"asked": asked})).status_code in (404, 422)


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"share": "2"}, "share", "between 0 and 1"),
        ({"share": "0.0001"}, "share", "larger"),
        ({"every": "at", "at": "never"}, "at", "crontab"),
        ({"every": "at", "at": "0 0 31 2 *"}, "at", "never comes"),
        (
            {"asked": asking(CALL | {"kind": "test", "query": {"kind": "count", "where": "agee > 1"}})},
            "asked",
            "unknown column",
        ),
        ({"asked": asking(CALL | {"hits": 10**30})}, "asked", ""),
        ({"asked": json.dumps({"run": 10**9, "question": {}})}, "asked", "opened no run"),
        ({"asked": json.dumps(CALL)}, "asked", "a call, or a run with a question"),
        ({"asked": "{"}, "asked", "JSON"),
        ({"asked": ""}, "asked", "JSON"),
    ],
)
def test_what_cannot_stand_is_told_at_its_field_and_what_was_typed_stays(alice, changed, field, words):
    sent = alice.post(PLACE, **(FORM | changed))
    assert sent.status_code in (404, 409, 422)
    assert words in re.search(r'role="alert" id="problem">(.*?)</div>', sent.text, re.DOTALL)[1]
    assert fields_of(sent.text, PLACE).items() >= changed.items()
    assert re.search(rf'id="{field}"[^>]*aria-invalid="true" aria-describedby="problem"', sent.text)


def test_no_webhook_but_those_of_the_operator_is_told(alice):
    sent = alice.post(PLACE, **FORM, webhook="http://evil.example")
    assert sent.status_code == 422
    assert "no webhook of that name" in sent.text


def test_what_is_typed_is_no_markup(alice):
    sent = alice.post(PLACE, **(FORM | {"asked": "</textarea><script>alert(1)</script>", "at": '"><script>alert(1)'}))
    assert sent.status_code == 422
    assert "<script>alert" not in sent.text


def test_others_are_shown_nothing_and_change_nothing(service, alice, bob, arriving):
    query = {"kind": "count", "where": "age >= 33"}
    alice.post(PLACE, **FORM | {"asked": asking({"kind": "test", "query": query, "above": 1, "hits": 20})})
    name = name_in(alice.get(PLACE).text)
    assert "age &gt;= 33" not in bob.get(PLACE).text
    assert bob.get(f"{PLACE}/{name}/picture.svg").status_code == 404
    assert bob.post(f"{PLACE}/{name}", state="ended").status_code == 404
    carol = arriving("carol", ["custodian"])
    seen = carol.get(PLACE).text
    assert "age &gt;= 33" in seen
    assert f'action="{PLACE}/{name}"' not in seen
    assert carol.post(f"{PLACE}/{name}", state="ended").status_code == 403
    assert service.standing.book.found(name).state == "active"


@pytest.mark.parametrize("role", [Role.READER, Role.CUSTODIAN])
def test_only_analysts_let_questions_stand(arriving, role):
    assert arriving("al", [role]).post(PLACE, **FORM).status_code == 403


@pytest.mark.parametrize("path", [PLACE, f"{PLACE}/{'0' * 16}"])
def test_posts_of_other_sites_do_nothing(service, alice, path):
    before = len(service.standing.book.all())
    said = FORM | {"form_token": alice.form_token(), "state": "ended"}
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert alice.http.post(path, data=said, headers=headers).status_code == 403
    assert alice.http.post(path, data=said | {"form_token": "0" * 64}).status_code == 403
    assert len(service.standing.book.all()) == before


def panels(found, narrow=False):
    return alarms_spec(found, narrow=narrow)["vconcat"]


def test_values_are_drawn_with_intervals_at_the_time_of_their_version_and_misses_have_none(made):
    stand(made, ReleaseIf(count(), above=10, **CLEAR))
    stand(made, ThresholdTest(count(), above=10**6, hits=50))
    grow(made, 3)
    never, valued = watched(*made)
    assert [(look.version, look.hits) for look in valued.looks] == [(2, 1), (3, 1), (4, 1)]
    values, alarms = panels(valued)
    times = [each.time for each in made[1].served.session.versions[1:]]
    assert [row["time"] for row in values["data"]["values"]] == times
    for row, truth in zip(values["data"]["values"], (121, 122, 123), strict=True):
        assert row["low"] <= truth <= row["high"] or row["open"]
        assert row["value"] == pytest.approx(truth, abs=50)
    assert [layer["mark"]["type"] for layer in values["layer"]] == ["rule", "point", "point", "rule"]
    assert values["layer"][3]["data"]["values"] == [{"bar": 10}]
    assert [row["alarm"] for row in alarms["data"]["values"]] == ["alarm"] * 3
    (only,) = panels(never)
    assert [(row["time"], row["alarm"]) for row in only["data"]["values"]] == [(time, "none") for time in times]
    assert "0 of 3 versions of the rows gave an alarm" in never.alt
    assert "3 of 3" in valued.alt
    assert panels(valued, narrow=True)[0]["width"] < values["width"]


def test_groups_have_a_colour_each_unless_there_are_too_many(made):
    stand(made, ReleaseIf(count().by("clinic", CLINICS), above=1, **CLEAR))
    stand(made, ReleaseIf(count().by("age", list(range(20, 50, 3))), above=1, **CLEAR))
    grow(made)
    ages, clinics = (panels(found)[0] for found in watched(*made))
    assert {row["key"] for row in clinics["data"]["values"]} == set(CLINICS)
    assert clinics["layer"][1]["encoding"]["color"]["field"] == "key"
    assert len({row["key"] for row in ages["data"]["values"]}) > MOST_KEYS
    assert "color" not in ages["layer"][1]["encoding"]


def test_an_alert_has_a_band_of_its_states_and_tells_who_is_active(made):
    service, on = made
    asked = Alert(count().by("clinic", CLINICS), above=300, clear_below=250, note="call the desk", hits=50)
    run = on.served.asked_by("alice").start(asked)
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    service.standing.stand(on.served, on.who, Wish("question", {}, run.call), UNPRICED, **terms)
    grow(made)
    many = pd.concat([visits().head(1).assign(clinic="south")] * 600)
    on.served.session.append(many)
    service.standing.tick()
    (found,) = watched(*made)
    assert (found.title, found.alert.active) == ("Alert", ["south"])
    assert [(each["kind"], each["groups"]) for each in found.alert.changes] == [("fired", ["south"])]
    values, bands = panels(found)
    assert [row["key"] for row in values["data"]["values"]] == ["south"]
    first, second = (each.time for each in on.served.session.versions[1:])
    rows = {(row["group"], row["state"]): (row["time"], row["until"]) for row in bands["data"]["values"]}
    assert rows["south", "quiet"] == (first, second)
    assert rows["south", "active"][0] == second < rows["south", "active"][1]
    assert {group for group, _ in rows} == set(CLINICS)
    assert "Active now: south." in found.alt
    assert [each["number"] for each in found.alert.unacknowledged] == [1]
    service.standing.feed.acknowledge(on.served.name, 1, "alice")
    assert watched(*made)[0].alert.unacknowledged == []


def test_what_fired_is_acknowledged_and_a_question_silenced_on_the_page(alice, service):
    before = {each.standing for each in service.standing.book.all()}
    asked = {"call": Alert(count(), above=10**6, hits=50).body()}
    alice.post(PLACE, **FORM | {"asked": json.dumps(asked), "once": "an alert"})
    (made,) = [each for each in service.standing.book.all() if each.standing not in before]
    for hours, silenced in (("8", True), ("0", False)):
        assert alice.post(f"{PLACE}/{made.standing}", hours=hours).status_code == 303
        assert (service.standing.book.found(made.standing).silenced is not None) == silenced
        assert ("Silenced until" in alice.get(PLACE).text) == silenced
    for number, status in (("x", 422), ("999", 404)):
        assert alice.post(f"{PLACE}/{made.standing}", acknowledged=number).status_code == status
    assert "New alert" in alice.get(PLACE).text
    alice.post(f"{PLACE}/{made.standing}", state="ended")


def test_what_a_run_found_is_listed_and_drawn(made):
    service, on = made
    run = on.served.asked_by("alice").start(SparseVector(above="122.5", hits=2, epsilon=200))
    terms = {"every": "append", "share": 1, "tell": "hits", "webhook": None}
    wish = Wish("question", {"query": {"kind": "count"}}, run.call)
    service.standing.stand(on.served, on.who, wish, UNPRICED, **terms)
    grow(made, 3)
    (found,) = watched(*made)
    assert [(look.version, look.hits) for look in found.looks] == [(2, 0), (3, 0), (4, 1)]
    assert "1 of 3 versions of the rows gave an alarm" in found.alt
    assert [row["alarm"] for row in panels(found)[-1]["data"]["values"]] == ["none", "none", "alarm"]


def test_the_latest_are_listed(made, monkeypatch):
    monkeypatch.setattr("chary.service.pages.timelines.MOST", 2)
    assert MOST > 2
    stand(made, ThresholdTest(count(), above=10, hits=50))
    grow(made, 3)
    (found,) = watched(*made)
    assert [look.version for look in found.looks] == [3, 4]
    assert found.lasting == (46, None)


def test_answers_of_others_under_such_a_key_are_not_taken_for_its_own(made):
    service, on = made
    name = stand(made, ThresholdTest(count(), above=10, hits=50))
    bob = on.served.asked_by("bob")
    bob.ask(Release(count("age >= 30"), epsilon=1), request=f"standing {name} at 1")
    grow(made)
    (found,) = watched(service, on)
    assert [(look.version, look.replay.entry.analyst) for look in found.looks] == [(2, "alice")]


def test_its_last_words_are_shown(made):
    service, on = made
    name = stand(made, ThresholdTest(count(), above=10, hits=50))
    service.tokens.revoke(on.who.token)
    grow(made)
    (found,) = watched(service, on)
    assert (found.standing.standing, found.standing.state, found.lasting) == (name, "ended", None)
    assert "token is not valid any more" in found.says
