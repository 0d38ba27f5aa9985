"""A process that asks a session and may be killed in the middle: python session_child.py FOLDER MODE ARGUMENT."""

import os
import signal
import sys
from pathlib import Path

import chary

BUDGET = chary.Budget(epsilon=50)
FREE_MISSES = chary.Budget(epsilon=1, delta=1e-6)
EPSILON = "0.1"
REQUEST = "the one question"


def open_session(folder, on_step=None, analyst="analyst", budget=BUDGET):
    return chary.open(
        Path(folder) / "rows.csv",
        privacy_unit="unit",
        ledger=Path(folder) / "rows.ledger",
        budget=budget,
        analyst=analyst,
        columns={"unit": "int64", "age": "int64"},
        on_step=on_step,
    )


def ask(session):
    return session.release_if(chary.count("age > 30"), above=-(10**6), epsilon=EPSILON, request=REQUEST)


def killed_at(folder, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    session = open_session(folder, kill)
    sys.stdout.write(f"answer {ask(session).value}\n")
    sys.stdout.flush()
    kill("published")


def many(folder, analyst, requests, epsilon):
    """So many requests; writes how many were answered and how many refused."""
    answered = refused = 0
    with open_session(folder, analyst=analyst) as session:
        for _ in range(int(requests)):
            try:
                session.test(chary.count(), above=-(10**6), epsilon=epsilon)
                answered += 1
            except chary.BudgetExceeded:
                refused += 1
    sys.stdout.write(f"{answered} {refused}\n")


if __name__ == "__main__":
    {"kill": killed_at, "many": many}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
