"""What histograms are taught beside their own hard answers: for free, bit by bit the same again, and never past the
truth where what they are told is true; and those that are refitted to all that they were told."""

import json
import signal

import duckdb
import numpy as np
import pandas as pd
import pytest

import chary
from chary import Budget, LedgerLocked, count
from chary.amounts import Amount
from chary.calls import ReleaseAll
from chary.calls.history import RELEASES
from chary.calls.public_histograms import HistogramRound
from chary.data import average
from chary.data.predicates.predicate import Predicate
from chary.data.universe import counts
from chary.data.universe.axes import Universe
from chary.data.universe.regions import located, matrix
from chary.errors import InvalidParameter, InvalidQuery
from chary.ledger import SecretMoved
from chary.mechanisms.weights import NEAR, Change, MultiplicativeWeights, Transcript, WeightVector
from chary.noise import Seeded
from tests.calls.weights import sparse_weights_kit
from tests.calls.weights.weighting_kit import QUESTIONS, true_share, weights_of
from tests.children import FORKED, ended, killing, started
from tests.session.kit import CLINICS, visits

CLEAR = Budget(epsilon=1000, delta=1e-6)
FORMS = {"hits": weights_of, "rounds": sparse_weights_kit.weights_of}
of_each_form = pytest.mark.parametrize("form", FORMS)
NORTH, OLD = QUESTIONS[0], "age >= 50"


@of_each_form
def test_lessons_are_free_and_bring_a_share_to_the_nearer_end(rows, form):
    session = rows()
    weights = FORMS[form](session)
    before = session.spent.amount
    for ends, share in [((0.5, 0.6), 0.5), ((0.1, 0.3), 0.3), ((0.2, 0.4), 0.3), ((0, 1), 0.3), ((0.25, 0.25), 0.25)]:
        told = weights.learn(NORTH, ends)
        assert told.share == pytest.approx(share, rel=1e-6)
        assert (told.hard, told.verified, told.error_bar) == (False, False, None)
        assert weights.state.estimate(NORTH) == pytest.approx(share, rel=1e-6)
    assert session.spent.amount == before
    assert weights.state.standing().hard == 0
    assert [change.hard for change in weights.state.changes] == [False] * 3
    last = session.history[-1]
    assert (last.kind, last.hits, last.tests) == (f"{weights.kind}_learn", 0, 0)


@of_each_form
def test_lessons_teach_the_same_from_any_rows(rows, form):
    made = []
    for frame in (visits(), visits().assign(clinic="south", age=20)):
        weights = FORMS[form](rows(frame))
        weights.learn(NORTH, (0.5, 0.6))
        weights.learn(average("age", bounds=(0, 100)), (0.1, 0.2))
        made.append(weights.state.histogram().tobytes())
    assert made[0] == made[1]


@of_each_form
def test_lessons_are_told_again_and_survive_a_restart(rows, form, tmp_path):
    place, source = tmp_path / "visits.ledger", Seeded(3)
    session = rows(ledger=place, unsafe_noise=source)
    weights = FORMS[form](session)
    first = weights.learn(NORTH, (0.5, 0.6), request="once")
    calls = len(session.history)
    assert weights.learn(NORTH, (0.5, 0.6), request="once") == first
    assert len(session.history) == calls
    weights.ask(OLD)
    weights.learn(OLD, (0.3, 0.4))
    after = weights.state.histogram().tobytes()
    again = rows(ledger=place).resume(weights.call)
    assert again.state.histogram().tobytes() == after
    assert again.learn(NORTH, (0.5, 0.6), request="once") == first
    assert weights.learn(NORTH, (0, 1)).share == again.state.estimate(NORTH)


def test_a_lesson_does_not_end_a_round(rows):
    session = rows(unsafe_noise=Seeded(1))
    weights = sparse_weights_kit.weights_of(session)
    assert not weights.ask("clinic IS NOT NULL OR age IS NULL").hard
    before = HistogramRound.load(session.spine.ledger.secret(weights.call))
    weights.learn(NORTH, (0.9, 1))
    after = HistogramRound.load(session.spine.ledger.secret(weights.call))
    assert before.shift is not None
    assert (after.shift, after.begun, after.size, after.hard) == (before.shift, before.begun, before.size, 0)
    assert len(after.changes) == 1


def test_answers_of_other_calls_teach(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2))
    weights = weights_of(session, epsilon=None, hits=50)
    other = weights_of(session, epsilon=None, hits=50)
    released = session.release(count(NORTH), rho="0.05")
    low, high = (end / 120 for end in released.interval)
    assert low <= weights.learn(NORTH, released).share <= high
    hard = next(answer for answer in map(other.ask, QUESTIONS) if answer.hard)
    where = QUESTIONS[hard.call - other.call - 2]
    assert hard.interval[0] - NEAR <= weights.learn(where, hard).share <= hard.interval[1] + NEAR
    found = session.release_if(count(OLD), above=1, epsilon=5)
    assert weights.learn(OLD, found).share <= 1


@pytest.mark.parametrize(
    ("where", "told", "error"),
    [
        (NORTH, (0.4, 0.3), InvalidParameter),
        (NORTH, (-0.1, 0.3), InvalidParameter),
        (NORTH, (0.4, 1.1), InvalidParameter),
        (NORTH, ("nan", 1), InvalidParameter),
        ("age >= 35", (0.1, 0.2), InvalidQuery),
        ("clinic = 'west'", (0.1, 0.2), InvalidQuery),
    ],
)
@of_each_form
def test_lessons_that_say_nothing_are_refused(rows, form, where, told, error):
    session = rows()
    weights = FORMS[form](session)
    calls = len(session.history)
    with pytest.raises(error):
        weights.learn(where, told)
    assert len(session.history) == calls


def test_an_answer_without_an_interval_teaches_nothing(rows):
    weights = weights_of(rows(budget=CLEAR, unsafe_noise=Seeded(4)), epsilon=None, hits=50)
    easy = next(answer for answer in (weights.ask(text) for text in QUESTIONS * 3) if not answer.hard)
    with pytest.raises(InvalidParameter, match="teaches nothing"):
        weights.learn(NORTH, easy)
    weights.close()
    with pytest.raises(InvalidParameter, match="closed"):
        weights.learn(NORTH, (0, 1))


# The update itself, against the definition of relative entropy.

UNIVERSE = Universe({"a": [0, 1, 2], "b": [0, 1, 2, 3]}, missing=False)
SCHEMA = {"a": "int64", "b": "int64"}
ASKED = ["a = 0", "b IN (1, 3)", "a = 1 OR b = 2", "NOT (a = 2 AND b > 1)", average("b", bounds=(0, 3))]


def cells_of(query):
    """The cells, and the weight of each."""
    if isinstance(query, str):
        region, _ = located(UNIVERSE, SCHEMA, Predicate.parse(query))
        return region, region.weights()
    region = counts.weighing(UNIVERSE, SCHEMA, query)
    return region, region.weights()


def entropy(truth, shares):
    held = truth > 0
    return float(np.sum(truth[held] * np.log(truth[held] / shares[held])))


@pytest.mark.parametrize("update", ["projected", "refitted", "published"])
def test_a_true_interval_brings_the_histogram_nearer_by_what_was_proved(update):
    draw, moved = np.random.default_rng(5), 0
    for _ in range(60):
        truth = draw.dirichlet(np.full(12, 0.5))
        vector = WeightVector(MultiplicativeWeights("0.1", update), *matrix(UNIVERSE), 100)
        for place in draw.integers(0, len(ASKED), 8):
            cells, weights = cells_of(ASKED[place])
            right, share, before = float(truth @ weights), vector.share(cells, 100), entropy(truth, vector.shares(100))
            low, high = max(0.0, right - draw.exponential(0.05)), min(1.0, right + draw.exponential(0.05))
            change = vector.within(str(ASKED[place]), cells, 100, low, high)
            vector.apply(change, cells)
            goal = min(max(share, low), high)
            fell = before - entropy(truth, vector.shares(100))
            assert fell >= 2 * (goal - share) ** 2 - 1e-5
            if 0 < goal < 1:
                assert vector.share(cells, 100) == pytest.approx(goal, abs=2e-6)
            moved += change.factor != 1
            assert (change.factor == 1) == (abs(goal - share) <= NEAR or not 0 < goal < 1)
    assert moved > 100


def test_no_share_of_0_or_1_is_taught():
    cells, _ = cells_of("a = 0")
    vector = WeightVector(MultiplicativeWeights("0.1"), *matrix(UNIVERSE), 100)
    assert vector.within("a = 0", cells, 100, 1.0, 1.0).factor == 1
    assert vector.within("a = 0", cells, 100, 0.0, 0.0).factor == 1


def test_lines_of_changes_that_were_told_no_more_stay_as_they_were():
    known = Change("age >= 1", 40, 1.0, 0.0, 3.0)
    assert (
        Transcript((known,)).dump()
        == json.dumps({"query": "age >= 1", "size": 40, "scale": 1.0, "lift": 0.0, "factor": 3.0}).encode()
    )
    told = Transcript((known, Change("b", 40, 1.0, 0.0, 3.0, 0.25, 0.5, hard=False)))
    assert Transcript.load(told.dump()) == told
    assert told.hard == 1


# Histograms that are refitted.


def test_a_refitted_histogram_goes_over_earlier_answers_once_from_the_latest_on(rows):
    """Against the same steps in plain NumPy, from the ends that it keeps."""
    session = rows(budget=CLEAR, unsafe_noise=Seeded(6))
    weights = weights_of(session, epsilon=None, hits=60, update="refitted")
    for text in QUESTIONS[:5] * 3:
        weights.ask(text)
        if weights.state.standing().hard == 2:
            weights.learn("age < 40", (0.2, 0.25))
    changes, shape = weights.state.changes, weights.state.universe.shape
    followed = [change for change in changes if change.low is None]
    assert followed
    assert not any(change.hard for change in followed)
    assert {change.hard for change in changes if change.low is not None} == {True, False}
    made, told, left = np.full(shape, 1.0), [], list(changes)
    while left:
        change = left.pop(0)
        assert change.low is not None
        made = tilted(weights, made, change.query, change.factor)
        for low, high, query in reversed(told):
            share = share_of(weights, made, query)
            goal = min(max(share, low), high)
            if abs(goal - share) > NEAR and left and left[0].low is None and left[0].query == query:
                factor = goal * (1 - share) / (share * (1 - goal))
                assert left.pop(0).factor == pytest.approx(factor, rel=1e-4)
                made = tilted(weights, made, query, factor)
            assert low - 1e-5 <= share_of(weights, made, query) <= high + 1e-5
        told.append((change.low, change.high, change.query))
    assert np.allclose(made / made.sum(), weights.state.histogram(), atol=1e-5)


def flags(weights, query):
    region, _ = weights.memory._located(query)
    return region.flags().reshape(weights.state.universe.shape)


def tilted(weights, made, query, factor):
    return made * np.where(flags(weights, query), factor, 1)


def share_of(weights, made, query):
    return float(made[flags(weights, query)].sum() / made.sum())


def test_answers_at_another_size_are_not_fitted_again(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(7))
    weights = weights_of(session, epsilon=None, hits=60, update="refitted")
    weights.learn(NORTH, (0.9, 0.95))
    session.append(pd.concat([visits()] * 2))
    weights.learn("clinic = 'south'", (0.8, 0.9))
    assert len(weights.state.changes) == 2
    assert weights.state.estimate(NORTH) < 0.3
    weights.learn(NORTH, (0.5, 0.6))
    assert [change.query for change in weights.state.changes[2:]] == [NORTH, "clinic = 'south'"]


@pytest.mark.parametrize("update", ["projected", "refitted"])
def test_practically_without_noise_answers_are_within_alpha(rows, update):
    weights, frame = (
        weights_of(rows(budget=CLEAR, unsafe_noise=Seeded(1)), epsilon=None, hits=30, update=update),
        visits(),
    )
    for text in QUESTIONS * 2:
        assert abs(weights.ask(text).share - true_share(frame, text)) <= 0.06 + 1e-9
    assert weights.state.standing().most_hard == pytest.approx(
        weights_of(rows(budget=CLEAR), epsilon=None, hits=30).state.standing().most_hard
    )


# What was published elsewhere, found in the ledger.


def published_around(session):
    """Calls of each kind that teach, and some that do not; another histogram that was asked."""
    other = weights_of(session, epsilon=None, hits=50)
    session.release(count(OLD), rho="0.05")
    session.release(count().by("clinic", CLINICS), rho="0.05")
    session.release_if(count("age >= 40"), above=1, epsilon=5)
    session.ask(ReleaseAll([count("age < 30"), count().by("clinic", ["north"]), count()], rho="5"))
    session.release(count("age >= 33"), rho="0.05")
    session.release(chary.sum("age", bounds=(0, 100)), rho="0.05")
    session.release(count(), rho="0.05")
    session.release_if(count(NORTH), above=10**6, epsilon="0.01")
    return [other.ask(text) for text in QUESTIONS]


def share_in(frame, text):
    return duckdb.query(f"SELECT avg(({text})::INT) FROM frame").fetchall()[0][0]


def test_published_answers_are_found_with_what_they_say(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2))
    weights = weights_of(session, epsilon=None, hits=50)
    weights.ask(NORTH)
    hard = [answer for answer in published_around(session) if answer.hard]
    found, before = weights.lessons(), len(session.history)
    calls = {entry.call: entry.kind for entry in session.history}
    assert {calls[lesson.call] for lesson in found} == {*RELEASES, "multiplicative_weights_ask"}
    assert {lesson.where for lesson in found if lesson.call == hard[-1].call} <= set(QUESTIONS)
    for lesson in found:
        right = share_in(visits(), lesson.where)
        assert lesson.low - 0.05 <= right <= lesson.high + 0.05
        estimate = weights.state.estimate(lesson.where)
        assert not lesson.low <= estimate <= lesson.high
    assert sum(lesson.low <= share_in(visits(), lesson.where) <= lesson.high for lesson in found) >= len(found) - 1
    off = sum(abs(weights.state.estimate(text) - true_share(visits(), text)) for text in QUESTIONS)
    spent = session.spent.amount
    assert weights.learn_published() == len(found)
    assert len(session.history) == before + len(found)
    assert session.spent.amount == spent
    assert sum(abs(weights.state.estimate(text) - true_share(visits(), text)) for text in QUESTIONS) < off
    assert [entry.kind for entry in session.history[before:]] == ["multiplicative_weights_learn"] * len(found)


def test_rows_that_came_since_widen_what_was_published(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2))
    weights = weights_of(session, epsilon=None, hits=50)
    low, high = session.release(count(NORTH), rho="0.5").interval
    assert [(lesson.low, lesson.high) for lesson in weights.lessons()] == [(low / 120, high / 120)]
    session.append(visits().head(12))
    assert [(lesson.low, lesson.high) for lesson in weights.lessons()] == [(low / 132, (high + 12) / 132)]
    session.append(pd.concat([visits()] * 10))
    assert weights.lessons() == []


def test_what_another_analyst_alone_was_told_teaches_only_where_all_are_taken(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2), analyst="alice")
    weights = weights_of(session, epsilon=None, hits=50)
    session.release(count(NORTH), rho="0.5")
    assert len(weights.lessons()) == len(weights.lessons(analyst="alice")) == 1
    assert weights.lessons(analyst="bob") == []


def test_calls_of_parts_do_not_teach_a_histogram_of_all_rows(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2))
    weights = weights_of(session, epsilon=None, hits=50)
    part = session.partition("clinic", CLINICS)[CLINICS[0]]
    part.release(count(OLD), rho="0.5")
    assert weights.lessons() == []


def test_lessons_are_found_without_any_row(rows):
    steps = []
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2), on_step=steps.append)
    weights = weights_of(session, epsilon=None, hits=50)
    session.release(count(NORTH), rho="0.5")
    steps.clear()
    assert len(weights.lessons()) == 1
    assert steps == []


# Killed between a lesson and what comes next, and two processes at one histogram.


def opened_at(place, **options):
    given = {"neighbors": "replace", "privacy_unit": None, "dataset": "data", "budget": CLEAR}
    return chary.open(visits(), ledger=place, **given, **options)


def learn_and_die(place, call, step):
    session = opened_at(place, on_step=killing(step))
    session.resume(call).learn(NORTH, (0.5, 0.6), request="lesson")


def learn_each(place, call, number, together):
    run = opened_at(place).resume(call)
    together.wait(60)
    for each in range(5):
        while True:
            try:
                run.learn(QUESTIONS[number], (0.4 + 0.01 * each, 0.41 + 0.01 * each))
                break
            except (LedgerLocked, SecretMoved):
                continue


@pytest.mark.parametrize("step", ["ran", "settled"])
def test_a_kill_leaves_a_lesson_learned_or_not_at_all(tmp_path, step):
    place = tmp_path / "visits.ledger"
    with opened_at(place) as session:
        weights = weights_of(session)
        call, before = weights.call, weights.state.estimate(NORTH)
    assert ended(started(learn_and_die, place, call, step)) == -signal.SIGKILL
    with opened_at(place) as session:
        weights = session.resume(call)
        assert weights.state.estimate(NORTH) == (before if step == "ran" else pytest.approx(0.5, rel=1e-6))
        assert weights.learn(NORTH, (0.5, 0.6), request="lesson").share == pytest.approx(0.5, rel=1e-6)
        assert len(weights.state.changes) == 1
        assert session.spent.amount == Amount(0)
        assert session.spine.ledger.verify().ok


def test_two_processes_teach_one_histogram(tmp_path):
    place = tmp_path / "visits.ledger"
    with opened_at(place) as session:
        call = weights_of(session).call
    together = FORKED.Barrier(2)
    children = [started(learn_each, place, call, number, together) for number in range(2)]
    assert [ended(child) for child in children] == [0, 0]
    with opened_at(place) as session:
        weights = session.resume(call)
        assert len([entry for entry in session.history if entry.kind.endswith("_learn")]) == 10
        taught = {change.query for change in weights.state.changes}
        assert len(taught) == 2
        assert session.spent.amount == Amount(0)
        assert session.spine.ledger.verify().ok


def test_where_the_number_of_rows_is_secret_only_answers_about_all_of_them_teach(rows):
    session = rows(budget=CLEAR, unsafe_noise=Seeded(2), neighbors="add_remove")
    weights = weights_of(session, epsilon=None, hits=50, rows=100)
    low, high = session.release(count(NORTH), rho="0.5").interval
    assert [(lesson.low, lesson.high) for lesson in weights.lessons()] == [(low / 100, high / 100)]
    session.append(visits().head(12))
    assert weights.lessons() == []
    low, high = session.release(count(NORTH), rho="0.5").interval
    assert [(lesson.low, lesson.high) for lesson in weights.lessons()] == [(low / 100, high / 100)]
