"""A training that is scheduled and interrupted or killed loses nothing, and goes on with the same share."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import chary
from chary import InvalidParameter
from chary.calls import Rerun
from chary.noise import Seeded
from chary.session import STEPS
from tests.children import Python
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import PUBLIC, USUAL, spent

from .growing_kit import BOXES, EVERY, in_a_ball, people


@pytest.mark.parametrize("step", STEPS)
def test_a_training_that_was_interrupted_goes_on_with_the_same_share(grown, step, tmp_path):
    box, stop = BOXES["gaussian" if step == "ran" else "ball"], Interruption(step, armed=False)
    place = tmp_path / "people.ledger"
    with grown(ledger=place, on_step=stop) as session:
        schedule = session.start(Rerun(box, **EVERY))
        first, paid = schedule.ask(), spent(session)
        session.append(people(1000, 1500))
        stop.armed = True
        with pytest.raises(Stop):
            schedule.ask()
    session = grown(1500, ledger=place, unsafe_noise=Seeded(2))
    resumed = session.resume(schedule.call, bring=box)
    again = box.follow(resumed.state)
    stored = step == "settled"
    assert len(again.curve()) == 1 + stored
    if not stored:
        assert again.model.coef_.tolist() == box.classifier(first).coef_.tolist()
    assert (resumed.ask() is None) == stored
    assert [run.epsilon for run in again.schedule.results] == [
        schedule.state.runs.epsilon_down(0, 0),
        schedule.state.runs.epsilon_down(1, 500),
    ]
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def test_a_process_killed_while_it_trains_loses_nothing(grown, tmp_path):
    with grown(ledger=tmp_path / "people.ledger") as session:
        call = session.start(Rerun(BOXES["ball"], **EVERY)).call
        paid = spent(session)
    child = Python("-m", "tests.learning.erm.test_training_restarts", tmp_path, call)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    session = grown(ledger=tmp_path / "people.ledger")
    resumed = session.resume(call, bring=BOXES["ball"])
    again = BOXES["ball"].follow(resumed.state)
    assert again.curve() == []
    assert resumed.ask().epsilon == resumed.state.runs.epsilon_down(0, 0)
    assert len(again.model.coef_) == 3
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def killed(folder, call):
    """The child: it is killed when it has trained, before that is stored."""

    def kill(reached):
        if reached == "ran":
            os.kill(os.getpid(), signal.SIGKILL)

    terms = PUBLIC | {"ledger": Path(folder) / "people.ledger", "budget": USUAL, "dataset": "people"}
    chary.open(people(0, 1000), **terms, on_step=kill).resume(int(call), bring=BOXES["ball"]).ask()


def test_another_model_cannot_go_on(grown):
    session = grown()
    call = session.start(Rerun(BOXES["ball"], **EVERY)).call
    for other in (in_a_ball(fit_intercept=False), replace(BOXES["ball"], declared=(1, 2)), BOXES["gaussian"]):
        with pytest.raises(InvalidParameter, match="another black box"):
            session.resume(call, bring=other)
    assert session.resume(call, bring=in_a_ball()).ask().run == 0


@pytest.mark.parametrize("name", BOXES)
def test_a_schedule_of_an_earlier_law_goes_on_and_promises_what_both_do(grown, name):
    box = BOXES[name]
    earlier = box.laws[-1]
    session = grown()
    terms = {"beta": "0.05", "growth": 1, "rho": "0.005"}
    call = session.start(Rerun(replace(box, declared=earlier), **terms)).call
    resumed = session.resume(call, bring=box)
    assert resumed.ask().run == 0
    assert resumed.state.law == earlier.either(box.law)
    told = box.follow(resumed.state).curve()[0].excess_risk
    beta = resumed.state.runs.failure(0)
    given = {"size": 1000, "epsilon": resumed.state.runs.epsilon_down(0, 0), "beta": beta}
    assert told >= max(law.error(**given) for law in box.laws)


if __name__ == "__main__":
    killed(*sys.argv[1:])
