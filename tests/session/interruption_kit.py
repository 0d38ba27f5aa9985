"""What the tests of interruptions and races share: a call stopped at a step, and another call in between."""

from chary.core.transaction import Spine


class Stop(BaseException):
    """Stands for an interruption."""


class Interruption:
    """An `on_step` that stops a call at one step, for as long as it is armed."""

    def __init__(self, step, armed=True):
        self.step, self.armed = step, armed

    def __call__(self, reached):
        if self.armed and reached == self.step:
            raise Stop


def in_between(monkeypatch, kind, act):
    """Let something happen once between what a call of this kind reads and what it stores."""
    ran, acts = Spine._run, [act]

    def run(self, running):
        outcome = ran(self, running)
        if acts and running.plan.kind == kind:
            acts.pop()()
        return outcome

    monkeypatch.setattr(Spine, "_run", run)
