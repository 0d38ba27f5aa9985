"""Strategies over many points: labels without noise, halting, replays after a restart, the whole way to a student."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from chary import Budget
from chary.accounting import BoundaryCall, Joint, NarrowChoice, Pure, ZeroConcentrated
from chary.errors import EngineError, InvalidInput, InvalidParameter, InvalidQuery, NotPriced
from chary.filters import PureFilter, RenyiFilter
from chary.learning import (
    AgreedLabels,
    ClearLabels,
    ConfidentGnmax,
    Corrections,
    EveryLabel,
    Teachers,
    TeacherVotes,
    digits,
    label_points,
    spread_points,
    teach,
    train_student,
)
from chary.learning.pate import plain_share
from chary.noise import Seeded
from chary.session import open_votes
from tests.session.kit import NO_NOISE, PLENTY, USUAL

CLASSES = ("no", "yes")
VOTES = [[90, 10], [20, 80], [55, 45], [3, 97]]
WINNERS = {0: "no", 1: "yes", 2: "no", 3: "yes"}
POINTS = range(len(VOTES))
CERTAIN = [EveryLabel(PLENTY), EveryLabel(PLENTY, flip=True), ClearLabels(PLENTY), Corrections(PLENTY)]


def voting(votes=VOTES, **options):
    given = {"dataset": "votes", "ledger": ":memory:", "budget": USUAL, "grain": "0.02"} | options
    return open_votes(TeacherVotes(votes, CLASSES), **given)


def always(label, number=4):
    return lambda labels: [label] * number


def run(session, strategy, points=POINTS, **options):
    guess = always("no", len(session.spine.rows._questions * [0])) if strategy.guided else None
    return label_points(session, points, strategy, **({"guess": guess, "progress": False} | options))


@pytest.mark.parametrize("strategy", CERTAIN, ids=str)
def test_without_noise_every_point_gets_the_label_of_most_teachers(strategy):
    with voting(budget=NO_NOISE, grain=None) as session:
        found = run(session, strategy)
    assert found.labels == WINNERS
    assert (found.asked, found.halted) == (4, False)


def test_without_noise_only_points_with_agreement_are_labelled():
    with voting(budget=NO_NOISE, grain=None) as session:
        tested = run(session, AgreedLabels(PLENTY, 70, PLENTY))
        barred = run(session, ClearLabels(PLENTY, low=70))
    assert tested.labels == barred.labels == {point: WINNERS[point] for point in (0, 1, 3)}


SO_MANY = [[90 * count for count in votes] for votes in VOTES]


def hits(session):
    return sum(call.hits for call in session.history)


@pytest.mark.parametrize(
    ("strategy", "paid"),
    [
        (AgreedLabels("0.02", 70 * 90, "0.02", "high"), 1),
        (AgreedLabels("0.02", 70 * 90, "0.02", "low"), 3),
        (ClearLabels("0.02"), 0),
        (ClearLabels("0.02", low=70 * 90), 0),
        (Corrections("0.02"), 2),
        (Corrections("0.02", flip=True), 2),
        (EveryLabel("0.02"), 4),
    ],
    ids=str,
)
def test_only_what_was_not_expected_is_paid(strategy, paid):
    """With 9,000 teachers noise decides nothing, and calls are so small that misses are free."""
    with voting(SO_MANY, unsafe_noise=Seeded(2)) as session:
        found = run(session, strategy)
        assert found.charged == hits(session) == paid
        assert (session.spent.share > 0) == (paid > 0)


@pytest.mark.parametrize(("expect", "missed"), [("high", 1), ("low", 3)])
def test_calls_too_large_for_a_price_of_hits_are_all_paid(expect, missed):
    with voting(budget=NO_NOISE, grain=None) as session:
        found = run(session, AgreedLabels(PLENTY, 70, PLENTY, expect))
        assert hits(session) == missed
        assert found.charged == found.asked == 4


@pytest.mark.parametrize("strategy", [ClearLabels("0.02"), Corrections("0.02")], ids=str)
def test_labels_end_with_the_budget_and_none_is_lost(strategy):
    with voting([[50, 50]] * 1000, unsafe_noise=Seeded(1)) as session:
        found = run(session, strategy, range(1000))
        price = BoundaryCall("0.02") if isinstance(strategy, ClearLabels) else NarrowChoice("0.02")
        hits = session.spine.filter.price(price).hit.copies_in(session.spine.filter.capacity)
        assert session.spent.share <= 1
        assert len(session.history) == found.asked
    assert found.halted
    assert found.charged == hits
    assert found.charged <= found.asked < 1000
    assert set(found.labels) <= set(range(found.asked))
    assert len(found.labels) == found.asked - (hits if isinstance(strategy, ClearLabels) else 0)


def test_agreement_is_free_for_as_many_points_as_there_are():
    with voting([[600, 0]] * 500, grain="0.04", unsafe_noise=Seeded(1)) as session:
        found = run(session, ClearLabels("0.04"), range(500))
        assert not found.halted
        assert found.charged == session.spent.share == 0
    assert found.labels == dict.fromkeys(range(500), "no")


def test_a_call_too_large_for_a_price_of_hits_is_charged_in_any_case():
    with voting([[600, 0]], unsafe_noise=Seeded(1)) as session:
        assert run(session, ClearLabels("0.04"), range(1)).charged == 1
        assert session.spent.share > 0


def test_a_price_that_does_not_exist_is_no_end_of_the_budget():
    class Priceless(EveryLabel):
        def ask(self, session, question, guess, request):
            raise NotPriced("none")

    with voting() as session, pytest.raises(NotPriced):
        run(session, Priceless("0.02"))


@pytest.mark.parametrize("strategy", [ClearLabels("0.02"), AgreedLabels("0.02", 70, "0.02"), Corrections("0.02")])
def test_after_a_restart_labels_come_from_the_ledger(tmp_path, strategy):
    place = {"ledger": tmp_path / "ledger", "request": "monday"}
    ledger = {"ledger": place["ledger"]}
    with voting(**ledger) as session:
        first = run(session, strategy, [0, 1], request="monday")
        calls, share = len(session.history), session.spent.share
    with voting([[0, 100]] * 4, budget=None, grain=None, **ledger) as session:
        again = run(session, strategy, [0, 1], request="monday")
        assert again == first
        assert (len(session.history), session.spent.share) == (calls, share)
        assert run(session, strategy, POINTS, request="monday").asked == 4
        assert len(session.history) > calls


def test_the_student_is_retrained_as_labels_arrive():
    seen = []

    def guess(labels):
        seen.append(len(labels))
        return ["no"] * 40

    with voting([[90, 10]] * 40, budget=NO_NOISE, grain=None) as session:
        label_points(session, range(40), Corrections(PLENTY), guess=guess, progress=False)
    assert seen == [0, 8, 16, 32]


@pytest.mark.parametrize(
    "votes",
    [
        [[1, 2, 3]],
        [[1], [2]],
        [[1, 2], [2, 2]],
        [[1, 0], [0, 1]],
        [[0, 0]],
        [[np.nan, 1.0]],
        [[-1, 4], [1, 2]],
        [[0.5, 0.5]],
        [1, 2],
        [["a", "b"]],
    ],
)
def test_votes_that_are_none(votes):
    with pytest.raises(InvalidParameter):
        TeacherVotes(votes, CLASSES)


@pytest.mark.parametrize("classes", [("no",), ("no", "no"), (True, False), (0.5, 1.5), ("a", "b", "c")])
def test_classes_that_cannot_be_published(classes):
    with pytest.raises(InvalidParameter):
        TeacherVotes(VOTES, classes)


@pytest.mark.parametrize("points", [[-1], [4], ["0"], [True], [None], [[0]], [0.0], [0, 1, 4]])
def test_questions_that_are_no_row_cost_nothing(points):
    with voting() as session:
        with pytest.raises(InvalidQuery):
            run(session, EveryLabel("0.02"), points)
        assert session.spent.share == 0


@pytest.mark.parametrize(
    ("strategy", "points", "guess"),
    [
        (EveryLabel("0.02"), [0, 0], None),
        (Corrections("0.02"), [0], None),
        (EveryLabel("0.02"), [0], always("no")),
        (Corrections("0.02"), [0], always("maybe")),
        (Corrections("0.02"), [0], always(float("nan"))),
        (Corrections("0.02"), [0], always(0)),
        (Corrections("0.02"), [0, 3], always("no", 3)),
        (Corrections("0.02"), [0], lambda labels: []),
    ],
)
def test_labelling_that_cannot_be_right_costs_nothing(strategy, points, guess):
    with voting() as session:
        with pytest.raises(InvalidInput):
            label_points(session, points, strategy, guess=guess, progress=False)
        assert session.spent.share == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: EveryLabel(0),
        lambda: ClearLabels(-1),
        lambda: Corrections("many"),
        lambda: AgreedLabels("0.1", -1, "0.1"),
        lambda: AgreedLabels("0.1", 5, 0),
    ],
)
def test_strategies_that_cannot_be(make):
    with pytest.raises(InvalidParameter):
        make()


def test_what_plain_composition_would_take():
    rho = ZeroConcentrated(Fraction(1, 800))
    filter_ = RenyiFilter.best(USUAL)
    assert ClearLabels("0.1").plain == Corrections("0.1").plain == EveryLabel("0.1").plain == rho
    assert EveryLabel("0.1", flip=True).plain == Pure("0.1")
    assert AgreedLabels("0.1", 5, "0.2").plain == Joint((Pure("0.2"), rho))
    share = filter_.price(rho).hit.main / filter_.capacity.main
    assert plain_share(USUAL, ClearLabels("0.1"), 30) == pytest.approx(30 * share)
    assert plain_share(Budget(epsilon=1), AgreedLabels("0.1", 5, "0.2"), 30) == pytest.approx(9)
    assert PureFilter(Budget(epsilon=1)).price(Pure("0.3")).hit.main * 30 > 0


def test_spread_points_are_different_and_as_many_as_asked():
    data = digits()
    for count in (1, 10, 60):
        found = spread_points(data.points, count)
        assert len(set(found)) == len(found) == count
    assert spread_points(data.points, 10) == spread_points(data.points, 10)
    assert len(set(data.truth[spread_points(data.points, 20)])) >= 8


@pytest.mark.parametrize("points", [[[0.0], [0.0]], [[0.0], [np.nan]], [0.0, 1.0]])
def test_points_that_cannot_be_spread(points):
    with pytest.raises(InvalidParameter):
        spread_points(points, 2)


@pytest.fixture(scope="module")
def taught():
    """Digits, and teachers of them."""
    data = digits(points=300, seed=7)
    estimator = KNeighborsClassifier(1)
    given = {"estimator": estimator, "classes": range(10), "progress": False, "unsafe_noise": Seeded(7)}
    return data, Teachers.train(data.rows, data.labels, teachers=40, **given)


@pytest.fixture(scope="module")
def votes(taught):
    """Of these teachers on all points."""
    data, teachers = taught
    return teachers.votes(data.points)


@pytest.mark.parametrize("strategy", CERTAIN, ids=str)
def test_without_noise_the_student_is_nearly_as_good_as_its_teachers(taught, votes, strategy):
    data, teachers = taught
    learned = teach(
        teachers,
        data.points,
        strategy=strategy,
        student=LogisticRegression(max_iter=300),
        budget=NO_NOISE,
        truth=data.truth.tolist(),
        test=(data.test_rows, data.test_labels),
        progress=False,
    )
    report, released = learned.report, learned.released.labels
    most = votes == votes.max(axis=1, keepdims=True)
    tied = set(np.flatnonzero(most.sum(axis=1) > 1).tolist())
    assert len(tied) < 15
    assert set(range(report.points)) - set(released) <= (tied if isinstance(strategy, ClearLabels) else set())
    assert report.label_accuracy > 0.85
    assert report.student_accuracy > 0.8
    assert most[list(released), list(released.values())].all()
    assert "differentially private" in learned.statement


def test_a_student_learns_more_from_unlabelled_points_as_well(taught):
    data, teachers = taught
    ask = spread_points(data.points, 20)
    given = {"strategy": EveryLabel(PLENTY), "budget": NO_NOISE, "ask": ask, "progress": False}
    test = (data.test_rows, data.test_labels)
    spreading = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100)
    both = teach(teachers, data.points, student=spreading, unlabelled=True, test=test, **given).report
    alone = teach(teachers, data.points, student=KNeighborsClassifier(1), test=test, **given).report
    assert both.labels == alone.labels == 20
    assert both.student_accuracy > alone.student_accuracy + 0.02


def test_a_report_compares_at_the_same_budget(taught):
    data, teachers = taught
    learned = teach(
        teachers,
        data.points,
        strategy=ClearLabels("0.02"),
        student=GaussianNB(),
        budget=Budget(epsilon=1, delta=1e-5),
        grain="0.02",
        confident=ConfidentGnmax(0, 400, 20),
        progress=False,
        unsafe_noise=Seeded(1),
    )
    report = learned.report
    assert learned.released.halted
    assert 5 < report.confident < 20
    assert 0.9 < report.share <= 1
    assert report.label_accuracy is report.student_accuracy is None
    assert report.plain_share == plain_share(Budget(epsilon=1, delta=1e-5), ClearLabels("0.02"), learned.released.asked)


@pytest.mark.parametrize("what", ["points", "columns", "student", "truth", "ask"])
def test_bad_input_opens_no_ledger(taught, tmp_path, what):
    data, teachers = taught
    points = data.points.copy()
    if what == "points":
        points[3, 3] = np.nan
    given = {"points": points[:, :5] if what == "columns" else points, "student": GaussianNB()}
    given["student"] = 3 if what == "student" else GaussianNB()
    given["truth"] = [1, 2] if what == "truth" else None
    given["ask"] = [300] if what == "ask" else None
    with pytest.raises(InvalidInput):
        teach(teachers, strategy=EveryLabel("0.02"), budget=USUAL, ledger=tmp_path / "ledger", progress=False, **given)
    with voting(ledger=tmp_path / "other") as session:
        assert session.spent.share == 0
    assert not (tmp_path / "ledger").exists()


def test_fewer_units_than_teachers_are_refused():
    with pytest.raises(InvalidParameter, match="fewer teachers"):
        Teachers.train([[0.0]], ["no"], teachers=2, estimator=GaussianNB(), classes=CLASSES, progress=False)


def test_votes_that_go_missing_stay_charged():
    with voting() as session:
        session.spine.rows.close()
        with pytest.raises(EngineError):
            run(session, EveryLabel("0.02"))
        assert session.spent.share > 0


def test_unlabelled_points_do_not_count_as_a_class():
    more = [[0.0], [5.0]]
    alone = train_student([[1.0]], ["yes"], estimator=GaussianNB(), classes=CLASSES, unlabelled=more)
    assert alone.predict([[0.0]]) == ["yes"]
    none = train_student(np.empty((0, 1)), [], estimator=GaussianNB(), classes=CLASSES, unlabelled=more)
    assert none.predict([[0.0]]) == ["no"]
    with pytest.raises(InvalidParameter):
        train_student([[1.0]], ["yes"], estimator=GaussianNB(), classes=CLASSES, unlabelled=[[1.0, 2.0]])


def test_a_label_after_a_test_of_agreement_tells_what_both_cost():
    with voting(SO_MANY, unsafe_noise=Seeded(2)) as session:
        found = AgreedLabels("0.02", 70 * 90, "0.02", "low").ask(session, 0, None, "one")
        asked = [call for call in session.history if call.state == "settled"]
        assert [call.call for call in asked] == [found.agreed, found.call]
        assert found.charged.amount == session.spent.amount
        assert found.paid
        assert AgreedLabels("0.02", 70 * 90, "0.02", "low").ask(session, 0, None, "one") == found
