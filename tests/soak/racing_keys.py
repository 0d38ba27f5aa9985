"""The same request key from several processes at the same moment: one charge, and never two answers."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from chary import BudgetExceeded
from chary.errors import LedgerError
from tests.soak.figures import Figures, Until
from tests.soak.kills import digest, unharmed
from tests.soak.replay import Replay
from tests.soak.rooms import BUDGETS, ROOMS

RACERS = 3
ROUNDS_OF_ONE = 25
ANSWER_SECONDS = 120.0
# What needs no call before it: preparing others would race under other keys.
ALONE = ("release", "test", "release_if", "watch", "between", "call", "histogram", "choose", "track", "decide")


@dataclass
class Racers:
    """Processes with a session each on one ledger; what is sent to them they ask at once."""

    folder: Path
    pipes: list[Connection]
    workers: list

    def ask(self, kind: str, key: str, pauses: list[float]) -> list[tuple[str, str]]:
        start = time.time() + 0.005
        for pipe, pause in zip(self.pipes, pauses, strict=True):
            pipe.send((kind, key, start + pause))
        return [pipe.recv() if pipe.poll(ANSWER_SECONDS) else ("broken", "no answer at all") for pipe in self.pipes]

    def close(self) -> None:
        for pipe, worker in zip(self.pipes, self.workers, strict=True):
            pipe.send(None)
            worker.join(10)
            worker.kill()
            pipe.close()
        shutil.rmtree(self.folder)


def racing_keys(until: Until, random: Random, sabotage: Callable[[], None] = unharmed) -> Figures:
    """The attack. `sabotage` runs in each process first, to see that a broken chary is caught."""
    figures, racers = Figures(), None
    for number in until:
        if number % ROUNDS_OF_ONE == 0:
            if racers is not None:
                racers.close()
            racers = _start(random, sabotage)
        _round(figures, racers, random.choice(ALONE), f"key {number}", random)
    racers.close()
    return figures


def _start(random: Random, sabotage: Callable[[], None]) -> Racers:
    folder, context = Path(tempfile.mkdtemp(prefix="soak-")), get_context("fork")
    pipes, workers = [], []
    for _ in range(RACERS):
        ours, theirs = context.Pipe()
        worker = context.Process(target=_race, args=(theirs, folder, sabotage), daemon=True)
        worker.start()
        theirs.close()
        pipes.append(ours)
        workers.append(worker)
    return Racers(folder, pipes, workers)


def _race(pipe: Connection, folder: Path, sabotage: Callable[[], None]) -> None:
    """A racer, until it is told to stop or the harness is gone."""
    sabotage()
    room = ROOMS["units"]
    session = room.open(folder, ledger=folder / "soak.ledger", **BUDGETS[0])
    while (asked := _next(pipe)) is not None:
        kind, key, start = asked
        ask = room.prepare(session, kind, key)
        while time.time() < start:
            pass
        pipe.send(_outcome(lambda: ask(key)))  # noqa: B023 - called at once
    os._exit(0)


def _next(pipe: Connection) -> tuple[str, str, float] | None:
    try:
        return pipe.recv()
    except EOFError:
        return None


def _outcome(ask: Callable[[], object]) -> tuple[str, str]:
    try:
        return "answer", digest(ask())
    except BudgetExceeded:
        return "refused", ""
    except LedgerError as error:
        # Told that the key is in flight, or that others held the ledger for too long.
        return "told to wait", type(error).__name__
    except BaseException as error:
        return "broken", f"{type(error).__name__}: {error}"


def _round(figures: Figures, racers: Racers, kind: str, key: str, random: Random) -> None:
    pauses = [random.choice([0.0, random.uniform(0, 0.003)]) for _ in racers.pipes]
    outcomes = racers.ask(kind, key, pauses)
    figures.count("rounds")
    for what, _ in outcomes:
        figures.count(what)
    answers = {answer for what, answer in outcomes if what == "answer"}
    figures.expect(len(answers) <= 1, f"{kind}: {len(answers)} different answers under one key", "answers")
    figures.expect(bool(answers) or "refused" in dict(outcomes), f"{kind}: nobody was answered: {outcomes}")
    for what, told in outcomes:
        figures.expect(what != "broken", f"{kind}: {told}")
    replay = Replay(racers.folder / "soak.ledger")
    charged = [state for state in replay.state(key) if state != "voided"]
    figures.expect(len(charged) <= 1, f"{kind}: charged {len(charged)} times under one key", "charges")
    for problem in replay.problems:
        figures.violation(f"{kind}: {problem}")
