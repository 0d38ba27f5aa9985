"""Intervals of a report hold as often as it says, whatever kind of call published the value."""

import pytest

from chary import Budget, count
from chary.calls import Choose, GrowingTests, Quantile
from chary.report import report
from chary.session import findings
from tests.session.kit import CLINICS
from tests.session.public_report.pages import asked


@pytest.mark.parametrize(("paid", "held"), [("0.9", False), ("0.95", True), ("0.99", True)])
def test_guards_that_hold_less_often_are_not_told(tmp_path, paid, held):
    with asked(tmp_path / "visits.ledger") as session:
        bounds = {"bounds": (0, 120), "max_rows_per_unit": 1, "epsilon": "0.1"}
        answer = session.ask(Quantile("age", "0.5", interval=paid, **bounds))
        [value] = report(session).datasets[0].calls[-1].values
        [loose] = report(session, confidence="0.9").datasets[0].calls[-1].values
    assert value.bounded is held
    assert loose.bounded
    assert (loose.low, loose.high) == answer.interval


def test_a_choice_tells_how_far_below_the_best_it_may_be(tmp_path):
    with asked(tmp_path / "visits.ledger") as session:
        answer = session.ask(Choose(count().by("clinic", CLINICS), epsilon="0.1"))
        outcome = report(session).datasets[0].calls[-1].outcome
    assert answer.shortfall is not None
    assert outcome.startswith(str(answer.value))
    assert "below the largest, with 95 % confidence" in outcome


def test_an_average_over_a_growing_table_is_a_finding(opened):
    session = opened(budget=Budget(epsilon=4, delta=1e-6), privacy_unit=None, neighbors="replace")
    run = session.start(GrowingTests(above="0.01", hits=4, values=True))
    answer = run.ask(count())
    assert answer.above
    [found] = findings(session)
    assert found == answer.findings[0]
    assert list(findings(session, run=run.call)) == [found]
    low, high = answer.interval
    assert found.interval == pytest.approx((low, high), abs=1 / answer.size)
    assert 0 < found.p_value < 1
    [value] = report(session).datasets[0].calls[-1].values
    assert (value.low, value.high) == pytest.approx((low, high), abs=1 / answer.size)
    assert value.low <= value.value <= value.high
