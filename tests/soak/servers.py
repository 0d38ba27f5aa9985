"""A ledger in PostgreSQL under kills of processes, of connections and of the server, while several ask at once.

What was answered is charged, settled and told again; nothing is overspent; the chain goes on.
"""

import time
from collections.abc import Iterator
from random import Random

from chary import BudgetExceeded, Session
from chary.amounts import Amount
from chary.errors import CharyError, LedgerError
from chary.ledger import Ledger, State, open_ledger
from tests.servers.postgres import Server, programs, running
from tests.soak.children import Child, Tell
from tests.soak.figures import Figures, Until
from tests.soak.kills import digest
from tests.soak.rooms import BUDGETS, ROOMS

CROWD = 3
PATIENCE = 30.0
ROOM = ROOMS["rows"]
# Each with what it does to the server or to its connections while the crowd asks.
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'chary' AND random() < 0.7"


def servers(until: Until, random: Random) -> Figures:
    """The attack; where there is no PostgreSQL it says so."""
    figures = Figures()
    if programs() is None:
        figures.count("machines without PostgreSQL")
        return figures
    with running() as server:
        for number in until:
            _one(figures, server, server.schema(), number, random)
    return figures


def _one(figures: Figures, server: Server, url: str, number: int, random: Random) -> None:
    options = random.choice(BUDGETS)
    with ROOM.open(None, ledger=url, **options) as session:
        ROOM.prepare(session, ROOM.kinds[0], "first")(None)
    crowd = [_child(url, options, f"{number} {who}", random.getrandbits(32)) for who in range(CROWD)]
    crowd[0].wait_for(random.choice([1, 2, 4]), PATIENCE)
    for _ in range(random.choice([1, 2, 3])):
        _harm(figures, server, crowd, random)
        time.sleep(random.uniform(0, 0.3))
    for child in crowd:
        child.wait_for(random.choice([3, 6]), PATIENCE)
        child.kill()
    told = [line for child in crowd for line in child.told()[0]]
    where = f"{options}, round {number}"
    for _, *rest in (line for line in told if line[0] == "broken"):
        figures.violation(f"{where}: {rest[0]}")
    _check(figures, url, options, [tuple(line[1:]) for line in told if line[0] == "answer"], where)


def _child(url: str, options: dict, who: str, seed: int) -> Child:
    def live(tell: Tell) -> None:
        session = _opened(url, options)
        tell("opened")
        for line in _asked(session, who, Random(seed)):
            tell(*line)

    return Child(live)


def _opened(url: str, options: dict) -> Session:
    """A session, however often the server is away when it is opened."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ROOM.open(None, ledger=url, **options)
        except LedgerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _asked(session: Session, who: str, random: Random) -> Iterator[tuple[str, ...]]:
    for turn in range(10**6):
        # Few names, so that several children ask under one key.
        kind, key = random.choice(ROOM.kinds[:6]), f"{turn // 2 % 4}"
        try:
            yield "answer", kind, key, digest(ROOM.prepare(session, kind, f"{kind} {key}")(f"{kind} {key}"))
        except BudgetExceeded:
            return
        except CharyError:
            yield "refused", who


def _harm(figures: Figures, server: Server, crowd: list[Child], random: Random) -> None:
    what = random.choice(["server killed", "server ended", "connections cut", "process killed"])
    figures.count(what)
    if what == "connections cut":
        server.execute(CUT)
    elif what == "process killed":
        crowd[-1].kill()
    else:
        server.kill() if what == "server killed" else server.stop()
        server.start()


def _check(figures: Figures, url: str, options: dict, told: list[tuple[str, ...]], where: str) -> None:
    ledger = open_ledger(url)
    for problem in ledger.verify().problems:
        figures.violation(f"{where}: {problem}")
    _sums(figures, ledger, where)
    ledger.close()
    answers: dict[tuple[str, str], str] = {}
    for kind, key, seen in told:
        figures.count("answers")
        figures.expect(
            answers.setdefault((kind, key), seen) == seen, f"{where}: {kind} {key} was answered twice otherwise"
        )
    with ROOM.open(None, ledger=url, **options) as session:
        before = session.spent
        for (kind, key), seen in answers.items():
            again = digest(ROOM.prepare(session, kind, f"{kind} {key}")(f"{kind} {key}"))
            figures.expect(again == seen, f"{where}: {kind} {key} is told otherwise")
        figures.expect(session.spent == before, f"{where}: telling it again was charged")


def _sums(figures: Figures, ledger: Ledger, where: str) -> None:
    for terms in ledger.datasets():
        calls = list(ledger.calls(terms.name))
        charged = sum((call.charged for call in calls), Amount(0))
        figures.expect(charged == ledger.balance(terms.name).spent, f"{where}: the charges are not what is spent")
        figures.expect(charged.fits_into(terms.capacity), f"{where}: overspent")
        keyed = [(call.kind, call.request) for call in calls if call.request and call.state == State.SETTLED]
        figures.expect(len(keyed) == len(set(keyed)), f"{where}: a key was settled twice")
