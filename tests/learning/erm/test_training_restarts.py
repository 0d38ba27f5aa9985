"""A training that is scheduled and interrupted or killed loses nothing, and goes on with the same share."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import chary
from chary import InvalidParameter
from chary.noise import Seeded
from chary.session import STEPS
from tests.paths import ROOT
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import PUBLIC, USUAL, spent

from .growing_kit import BOXES, EVERY, in_a_ball, people


@pytest.mark.parametrize("step", STEPS)
def test_a_training_that_was_interrupted_goes_on_with_the_same_share(grown, step, tmp_path):
    box, stop = BOXES["gaussian" if step == "ran" else "ball"], Interruption(step, armed=False)
    place = tmp_path / "people.ledger"
    with grown(ledger=place, on_step=stop) as session:
        schedule = session.schedule(box, **EVERY)
        first, paid = schedule.run(), spent(session)
        session.append(people(1000, 1500))
        stop.armed = True
        with pytest.raises(Stop):
            schedule.run()
    session = grown(1500, ledger=place, unsafe_noise=Seeded(2))
    again = box.follow(session.schedule(box, call=schedule.call))
    stored = step == "settled"
    assert len(again.curve()) == 1 + stored
    if not stored:
        assert again.model.coef_.tolist() == box.classifier(first).coef_.tolist()
    assert (again.schedule.run() is None) == stored
    assert [run.epsilon for run in again.schedule.results] == [
        schedule.runs.epsilon_down(0, 0),
        schedule.runs.epsilon_down(1, 500),
    ]
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def test_a_process_killed_while_it_trains_loses_nothing(grown, tmp_path):
    with grown(ledger=tmp_path / "people.ledger") as session:
        call = session.schedule(BOXES["ball"], **EVERY).call
        paid = spent(session)
    command = [sys.executable, "-m", "tests.learning.erm.test_training_restarts", str(tmp_path), str(call)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    session = grown(ledger=tmp_path / "people.ledger")
    again = BOXES["ball"].follow(session.schedule(BOXES["ball"], call=call))
    assert again.curve() == []
    assert again.schedule.run().epsilon == again.schedule.runs.epsilon_down(0, 0)
    assert len(again.model.coef_) == 3
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def killed(folder, call):
    """The child: it is killed when it has trained, before that is stored."""

    def kill(reached):
        if reached == "ran":
            os.kill(os.getpid(), signal.SIGKILL)

    terms = PUBLIC | {"ledger": Path(folder) / "people.ledger", "budget": USUAL, "dataset": "people"}
    chary.open(people(0, 1000), **terms, on_step=kill).schedule(BOXES["ball"], call=int(call)).run()


def test_another_model_cannot_go_on(grown):
    session = grown()
    call = session.schedule(BOXES["ball"], **EVERY).call
    for other in (in_a_ball(fit_intercept=False), replace(BOXES["ball"], declared=(1, 2)), BOXES["gaussian"]):
        with pytest.raises(InvalidParameter, match="another black box"):
            session.schedule(other, call=call)
    assert session.schedule(in_a_ball(), call=call).run().run == 0


if __name__ == "__main__":
    killed(*sys.argv[1:])
