"""Public histograms taught through a service: by JSON, by the client and by the awaited one, as in a session."""

import asyncio
from dataclasses import replace

import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, NotWithheld, RequestConflict, count
from chary.calls import PMW, SparseVector
from chary.client import connect, connect_async, connect_json
from chary.noise import Seeded
from tests.calls.weights.weighting_kit import QUESTIONS, UNIVERSE
from tests.service.kit import client_of, serve_dataset, serve_visits, token_of
from tests.session.kit import visits

NORTH = QUESTIONS[0]
OPENING = PMW(universe=UNIVERSE, alpha="0.06", hits=50)
BODY = {"where": NORTH, "low": "0.5", "high": 0.6}
ROWS = {"neighbors": "replace", "privacy_unit": None, "budget": Budget(epsilon=1000, delta="1e-6")}


@pytest.fixture
def each(service):
    """Visits each of which is a unit, served; and a session on others of its kind."""
    serve_visits(service, **ROWS, unsafe_noise=Seeded(5))
    local = chary.open(visits(), ledger=":memory:", dataset="visits", **ROWS, unsafe_noise=Seeded(5))
    yield service, local
    local.close()


def taught(session):
    run = session.start(OPENING, request="open")
    answers = [run.learn(NORTH, (0.5, "0.6"), request="lesson")]
    released = session.release(count("age >= 50"), rho="0.5", request="release")
    session.release(count("clinic = 'east'"), rho="0.5", request="other")
    answers.append(run.learn("age >= 50", released, request="answer"))
    lessons = run.lessons()
    return run, answers, lessons, run.learn_published()


def test_a_client_teaches_as_a_session_does(each, address):
    service, local = each
    run, answers, lessons, number = taught(local)
    with connect(address, token_of(service, "alice")) as remote:
        found = taught(remote)
        assert found[1:] == (answers, lessons, number)
        assert number > 0
        assert found[0].learn(NORTH, (0.5, "0.6"), request="lesson") == answers[0]
        with pytest.raises(RequestConflict):
            found[0].learn(NORTH, (0.5, 0.7), request="lesson")
        assert remote.resume(found[0].call).ask(NORTH).share == pytest.approx(run.ask(NORTH).share)
        assert [entry.kind for entry in remote.history] == [entry.kind for entry in local.history]
        found[0].close()
        for use in (lambda: found[0].learn(NORTH, (0, 1)), found[0].lessons):
            with pytest.raises(InvalidParameter, match="was closed"):
                use()


def test_the_awaited_client_teaches(each, address):
    service, _ = each

    async def teach():
        async with await connect_async(address, token_of(service, "alice")) as remote:
            run = await remote.start(OPENING)
            told = await run.learn(NORTH, (0.5, 0.6))
            await remote.release(count("age >= 50"), rho="0.5")
            return told.share, await run.learn_published()

    assert asyncio.run(teach()) == (pytest.approx(0.5, rel=1e-6), 1)


def test_a_lesson_over_http_is_free_told_again_and_in_both_trails(each, address):
    service, _ = each
    token = token_of(service, "alice")
    with connect_json(address, token) as remote:
        run = remote.start(OPENING.body())["run"]
        told = remote.learn(run, BODY, request="lesson")
        assert told["share"] == pytest.approx(0.5, rel=1e-6)
        assert (told["hard"], told["verified"], told["charged"]) == (False, False, 0)
        assert remote.learn(run, BODY, request="lesson") == told
        assert remote.pages("calls")[-1]["kind"] == "multiplicative_weights_learn"
    (entry, *_) = service.trail.done("visits", "lesson")
    assert (entry.analyst, entry.request) == ("alice", "lesson")
    ledger = service.datasets["visits"].session.spine.ledger
    lesson = [call for call in ledger.calls("visits") if call.kind == "multiplicative_weights_learn"]
    assert [call.origin != "" for call in lesson] == [True]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"where": NORTH, "low": 0.5},
        BODY | {"more": 1},
        BODY | {"low": 0.7},
        BODY | {"low": -1},
        BODY | {"low": None},
        BODY | {"low": [1]},
        BODY | {"where": 3},
        BODY | {"where": "age >= 33"},
        BODY | {"where": {"kind": "nothing"}},
    ],
    ids=str,
)
def test_a_lesson_that_says_nothing_is_refused(each, address, body):
    service, _ = each
    with connect_json(address, token_of(service, "alice")) as remote:
        run = remote.start(OPENING.body())["run"]
        with pytest.raises((InvalidParameter, InvalidQuery)):
            remote.learn(run, body)
        assert len(remote.pages("calls")) == 1


def test_other_runs_are_not_taught_and_those_of_others_are_not_there(each, address):
    service, _ = each
    tokens = {name: token_of(service, name) for name in ("alice", "bob")}
    with connect(address, tokens["alice"]) as alice, connect(address, tokens["bob"]) as bob:
        sparse = alice.start(SparseVector(above=51, hits=2, epsilon="0.01"))
        for use in (lambda: sparse.learn(NORTH, (0, 1)), sparse.lessons):
            with pytest.raises(InvalidQuery, match="is not taught"):
                use()
        run = alice.start(OPENING)
        bob.release(count(NORTH), rho="0.5")
        assert run.lessons() == []
        alice.release(count("age >= 50"), rho="0.5")
        assert [lesson.where for lesson in run.lessons()] == ["age >= 50"]
    with client_of(address, tokens["bob"]) as http:
        place = f"/v1/datasets/visits/runs/{run.call}/lessons"
        assert http.post(place, json=BODY).status_code == http.get(place).status_code == 404
        assert http.post(place, json=BODY).json()["type"].endswith("unknown-held")
    with connect(address, token_of(service, "carol", ["custodian", "analyst"])) as carol:
        assert {lesson.where for lesson in carol.resume(run.call).lessons()} == {NORTH, "age >= 50"}
        with pytest.raises(NotWithheld):
            carol.resume(99)


def test_answers_are_shared_where_the_dataset_says_so(service, address):
    session = chary.open(visits(), ledger=":memory:", dataset="both", **ROWS, unsafe_noise=Seeded(5))
    serve_dataset(service, "both", session, shared=True)
    with connect(address, token_of(service, "alice"), dataset="both") as alice:
        run = alice.start(OPENING)
        with connect(address, token_of(service, "bob"), dataset="both") as bob:
            bob.release(count(NORTH), rho="0.5")
            assert len(bob.resume(run.call).lessons()) == 1
        assert run.learn_published() == 1
    del service.datasets["both"]
    session.close()


def test_no_example_goes_to_a_service(each, address):
    service, _ = each
    with connect(address, token_of(service, "alice")) as remote:
        for said in ({"queries": QUESTIONS}, {"like": visits()}):
            with pytest.raises(InvalidParameter, match="a service simulates nothing"):
                remote.quote(OPENING, **said)


def test_no_histogram_starts_from_one_that_is_not_shown(each, address):
    service, _ = each
    with (
        connect(address, token_of(service, "alice")) as alice,
        connect(address, token_of(service, "bob")) as bob,
        connect(address, token_of(service, "carol", ["custodian", "analyst"])) as carol,
    ):
        run = alice.start(OPENING)
        assert run.ask(NORTH).hard
        warm = replace(OPENING, warm_start=run.call)
        for use in (bob.start, bob.quote):
            with pytest.raises(NotWithheld, match="no call of that number"):
                use(warm)
        assert [who.start(warm).call > run.call for who in (alice, carol)] == [True, True]
