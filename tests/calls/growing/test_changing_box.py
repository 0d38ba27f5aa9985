"""Schedules whose black box changes: which one runs when, one budget for all, told again, refused where none fits."""

from fractions import Fraction

import pytest

import chary
from chary import Budget, InvalidParameter, count
from chary.accounting import ZeroConcentrated
from chary.accounting.schedules import Law
from chary.calls import Rerun
from chary.growth import ChangingBox, CountsBox, QuantilesBox
from tests.calls.growing.continual_streams import WARDS, exactly, rows, streams
from tests.session.kit import NO_NOISE, spent

FIRST, LATER = CountsBox(count("ward = 0")), CountsBox(WARDS)
CHANGING = ChangingBox({0: FIRST, 2: LATER, 3: CountsBox(count("ward = 2"))})


def test_each_run_is_that_of_its_box(grown):
    session = grown(budget=NO_NOISE, filter="pure")
    schedule = session.start(Rerun(CHANGING, beta="0.05", epsilon=10**5, growth=1))
    paid, size, found = spent(session), 100, []
    for _ in range(5):
        found.append(schedule.ask())
        session.append(rows(size, 2 * size))
        size *= 2
    assert [run.run for run in found] == [0, 1, 2, 3, 4]
    values = [run.answer.value if run.run != 2 else run.answer.values for run in found]
    expected = [exactly(100)[0], exactly(200)[0], list(exactly(400)), exactly(800)[2], exactly(1600)[2]]
    assert [list(value) if isinstance(value, tuple) else value for value in values] == expected
    assert schedule.state.results == found
    assert spent(session) == paid
    errors = [run.error for run in schedule.state.table(4)]
    assert errors[2] == schedule.state.runs.error(LATER.law, 2) > schedule.state.runs.error(FIRST.law, 2)


def test_outgrown_runs_hand_their_shares_to_the_box_of_the_last(grown):
    session = grown(budget=NO_NOISE, filter="pure")
    schedule = session.start(Rerun(CHANGING, beta="0.05", epsilon=10**5, growth=1))
    session.append(rows(100, 450))
    told = schedule.ask()
    assert (told.run, list(told.answer.values)) == (2, list(exactly(450)))
    assert told.epsilon == schedule.state.runs.epsilon_down(0, 2)


def test_it_goes_on_after_a_restart_with_the_same_boxes_only(opened, tmp_path):
    session = streams(opened)(ledger=tmp_path / "a.ledger")
    schedule = session.start(Rerun(CHANGING, beta="0.05", rho="0.01", growth=1))
    first = schedule.ask()
    session.close()
    again = streams(opened)(ledger=tmp_path / "a.ledger")
    assert again.resume(schedule.call, bring=CHANGING).state.results == [first]
    with pytest.raises(InvalidParameter, match="another black box"):
        again.resume(schedule.call, bring=ChangingBox({0: FIRST, 1: LATER})).ask()


def test_what_is_refused(grown):
    for boxes in ({}, {1: FIRST}, {0: FIRST, -1: LATER}, {0: FIRST, 2: "counts"}, {0: CHANGING}, [FIRST]):
        with pytest.raises(InvalidParameter):
            ChangingBox(boxes)
    with pytest.raises(InvalidParameter, match="other powers"):
        ChangingBox({0: FIRST, 2: CountsBox(count(), gaussian=True)})
    session = grown()
    late = ChangingBox({0: CountsBox(count(), gaussian=True), 3: CountsBox(WARDS, gaussian=True)})
    with pytest.raises(InvalidParameter, match="not epsilon-DP"):
        session.start(Rerun(late, beta="0.05", epsilon=1))
    with pytest.raises(chary.InvalidQuery, match="unknown column"):
        session.start(Rerun(ChangingBox({0: FIRST, 9: CountsBox(count("height > 3"))}), beta="0.05", epsilon="0.1"))
    assert not session.history


def test_a_law_for_all_is_the_worst_of_each():
    box = ChangingBox({0: QuantilesBox("ward", [0.5], bounds=(0, 2)), 1: LATER})
    assert box.law == Law(1, 2, 6)
    for size, epsilon, beta in ((100, 1, "0.05"), (10**6, "0.001", "0.5")):
        worst = max(each.law.error(size=size, epsilon=epsilon, beta=beta) for _, each in box.boxes)
        assert worst <= box.law.error(size=size, epsilon=epsilon, beta=beta)


@pytest.mark.parametrize("terms", [{"growth": "0.5"}, {"exponent": "0.1"}, {}])
def test_epsilon_and_delta_are_the_rho_that_they_allow(grown, terms):
    asked = {"beta": "0.05", "epsilon": "0.5", "delta": "1e-6"} | terms
    sessions = [grown(budget=Budget(epsilon=1, delta=1e-6)) for _ in range(2)]
    schedule = sessions[0].start(Rerun(FIRST, **asked))
    rho = chary.accounting.zero_concentrated_rho_down(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))
    same = sessions[1].start(Rerun(FIRST, beta="0.05", rho=rho, **terms))
    assert schedule.state.runs == same.state.runs
    assert schedule.state.runs.event == ZeroConcentrated(rho)
    assert spent(sessions[0]) == spent(sessions[1])
    assert sessions[0].resume(schedule.call, bring=FIRST).state.runs == schedule.state.runs


def test_one_way_to_say_a_budget():
    for wrong in (
        {"rho": 1, "delta": "1e-6"},
        {"delta": "1e-6"},
        {"epsilon": 1, "rho": 1},
        {"epsilon": 1, "exponent": "0.1"},
    ):
        with pytest.raises(InvalidParameter):
            Rerun(FIRST, beta="0.05", **wrong)
