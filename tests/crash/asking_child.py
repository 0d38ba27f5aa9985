"""What a child process of a crash test does: it dies at a step, or asks until it is refused."""

import os
import signal
import sys

from chary import BudgetExceeded
from chary.ledger import SecretMoved


def killing(step):
    """An `on_step` that kills its process at one step."""
    return lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == step else None


def ask_until_refused(left_after_asking):
    """Write what was left after each answer; a question whose state others moved is asked again."""
    while True:
        try:
            sys.stdout.write(f"{left_after_asking()}\n")
        except SecretMoved:
            continue
        except BudgetExceeded:
            return
