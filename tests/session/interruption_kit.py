"""What the tests of interruptions and races share: a call stopped at a step, another call in between, and threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

from chary import BudgetExceeded, count
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


def hits_of_threads(number, sparse, moved):
    """How many hits so many threads find together until all are refused; each asks again where others `moved` it."""
    start = threading.Barrier(number)

    def ask():
        found = 0
        start.wait()
        while True:
            try:
                found += sparse.ask(count()).above
            except moved:
                continue
            except BudgetExceeded:
                return found

    with ThreadPoolExecutor(number) as pool:
        tasks = [pool.submit(ask) for _ in range(number)]
        return sum(task.result() for task in tasks)
