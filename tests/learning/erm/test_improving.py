"""A model that improves while its data grow: its curve, its promises, and runs that fail."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from chary import InvalidParameter
from chary.accounting import ZeroConcentrated
from chary.calls import Rerun
from chary.learning import PrivateLogisticRegression, TrainingBox, draw_curve
from tests.session.kit import spent

from .growing_kit import BOXES, EVERY, FEATURES, in_a_ball, people


def test_it_improves_and_is_paid_once(grown):
    session, box = grown(), in_a_ball()
    improving = box.follow(session.start(Rerun(box, **EVERY), follow=True).state)
    price = session.spine.filter.price(ZeroConcentrated("0.015")).hit
    assert spent(session) == price
    for size in range(1000, 9000, 2000):
        session.append(people(size, size + 2000))
    assert spent(session) == price
    curve = improving.curve()
    assert [run.size for run in curve] == [1000, 3000, 5000, 7000, 9000]
    assert sum(Fraction(run.epsilon) ** 2 for run in curve) <= 2 * Fraction("0.015")
    assert all(here.excess_risk > there.excess_risk for here, there in itertools.pairwise(curve))
    runs = improving.schedule.runs
    assert curve[-1].excess_risk == pytest.approx(
        box.law.error(size=9000, epsilon=runs.epsilon_down(6001, 8000), beta=runs.failure(8000))
    )
    tests = people(9000, 10_000)
    assert improving.score(tests, tests["ill"]) > 0.8
    assert set(improving.predict(tests)) == {"no", "yes"}
    assert session.spine.ledger.verify().ok


def test_beyond_the_most_rows_nothing_is_promised(grown):
    session, box = grown(), replace(in_a_ball(), rows_at_most=1200)
    improving = box.follow(session.start(Rerun(box, **EVERY), follow=True).state)
    with pytest.raises(InvalidParameter, match="nothing is learnt"):
        box.classifier(None)
    session.append(people(1000, 1300))
    assert [math.isfinite(run.excess_risk) for run in improving.curve()] == [True, False]


def test_the_picture_of_a_curve(grown, tmp_path):
    session, box = grown(), in_a_ball()
    improving = box.follow(session.start(Rerun(box, **EVERY), follow=True).state)
    curve = improving.curve()
    draw_curve(curve, tmp_path / "curve.png", measured={"measured": [0.1]})
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    draw_curve(improving, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")
    for none in (box, "curve", [1, 2], curve[0], improving.schedule):
        with pytest.raises(InvalidParameter, match=r"draw_curve\(improving\.curve\(\)"):
            draw_curve(none, tmp_path / "curve.png")
    for wrong in ({"path": "curve.txt"}, {"path": "no/curve.png"}, {"curve": []}, {"measured": {"m": [1, 2]}}):
        given = {"path": "curve.png"} | wrong
        with pytest.raises(InvalidParameter):
            draw_curve(given.get("curve", curve), tmp_path / given["path"], measured=given.get("measured"))


class Failing(PrivateLogisticRegression):
    """Raises, with a value of the data, until it has 1,500 rows."""

    def trained(self, rows, targets, source):
        if len(rows) < 1500:
            raise ValueError(f"secret {targets[0]}")
        return super().trained(rows, targets, source)


def test_a_training_that_fails_uses_its_run_up_and_tells_nothing_else(grown):
    session = grown()
    given = {"lam": "1e-4", "radius": 2, "classes": ["no", "yes"], "steps": 20, "length": 3}
    box = TrainingBox(Failing(rho=1, **given), FEATURES, "ill")
    schedule = session.start(Rerun(box, **EVERY), follow=True)
    improving, paid = box.follow(schedule.state), spent(session)
    session.append(people(1000, 1400))
    failed = improving.schedule.results
    assert [(run.size, run.answer, run.failed) for run in failed] == [(1000, None, True), (1400, None, True)]
    assert improving.curve() == []
    assert schedule.ask() is None
    for use in (lambda: improving.model, lambda: improving.predict(people(0, 2)), lambda: box.classifier(failed[0])):
        with pytest.raises(InvalidParameter, match="nothing is learnt"):
            use()
    assert "secret" not in str(session.history)
    session.append(people(1400, 2000))
    [run] = improving.curve()
    assert run.epsilon == float(improving.schedule.runs.epsilon_down(401, 1000))
    assert len(improving.model.coef_) == 3
    assert spent(session) == paid


def test_a_later_failure_leaves_the_model_as_it_was(grown, monkeypatch):
    session, box = grown(), in_a_ball()
    improving = box.follow(session.start(Rerun(box, **EVERY), follow=True).state)
    before = improving.model.coef_.tolist()
    monkeypatch.setattr(PrivateLogisticRegression, "trained", lambda *given: {"weights": [float("nan")]})
    session.append(people(1000, 1500))
    assert [run.failed for run in improving.schedule.results] == [False, True]
    assert improving.model.coef_.tolist() == before
    assert [run.size for run in improving.curve()] == [1000]


def test_rows_that_come_while_a_run_is_under_way_are_trained_on_with_their_number(grown, monkeypatch):
    """The public size is told as it was asked for; the noise is that of the rows that were read, as public."""
    armed, sizes, trained = [], [], PrivateLogisticRegression.trained

    def arrive(reached):
        if armed and reached == "reserved":
            armed.clear()
            session.append(people(1000, 1500))

    def noted(model, rows, *given):
        sizes.append((len(rows), model.problem(*rows.shape).size))
        return trained(model, rows, *given)

    monkeypatch.setattr(PrivateLogisticRegression, "trained", noted)
    session = grown(on_step=arrive)
    schedule = session.start(Rerun(BOXES["pure"], **EVERY))
    armed.append(True)
    result = schedule.ask()
    assert (result.size, result.failed, sizes) == (1000, False, [(1500, 1500)])
    assert result.epsilon == schedule.state.runs.epsilon_down(0, 0)
    assert schedule.state.due == 500


def test_only_a_schedule_of_the_box_is_followed(grown):
    session, box = grown(), in_a_ball()
    other = session.start(Rerun(BOXES["gaussian"], **EVERY))
    for wrong in (None, other.state, other, other.call):
        with pytest.raises(InvalidParameter, match="follow a schedule of this box"):
            box.follow(wrong)


def test_rows_to_predict_need_the_columns_of_the_features(grown):
    session, box = grown(), in_a_ball()
    improving = box.follow(session.start(Rerun(box, **EVERY), follow=True).state)
    assert improving.predict({"age": [None, 1e308, "old"], "sex": [None, 3, "f"]}).shape == (3,)
    with pytest.raises(InvalidParameter, match="no column 'sex'"):
        improving.predict({"age": [1]})
