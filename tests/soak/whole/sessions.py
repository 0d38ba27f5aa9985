"""Adaptive analysts play whole sessions on two neighbours; what they learn is held against the budget.

All kinds of moves are mixed, with growth, revisions, runs, restarts and refusals among what is seen. Five analysts: one
asks anything, one what tells most for its price, one looks at every way to go on, one likewise with two bits by which
the exact curve is reached, one spends all on one question. A coin says at which neighbour each session is. Of each game
a lower bound on epsilon is taken from transcripts, which must not exceed what the session was opened with. What the
best analyst reaches under an exact filter is worked out without a sample.
"""

from dataclasses import dataclass
from functools import partial
from random import Random

from chary import Budget
from chary.data import RowTable
from chary.ledger import IN_MEMORY, open_ledger
from chary.noise import Source
from tests.soak.figures import Figures, Until
from tests.soak.whole.desks import MOVES, NEAR, SIZED, Desk, Promise, ReadOnce, largest, rows_of
from tests.soak.whole.evidence import Evidence
from tests.soak.whole.exact_sessions import reached
from tests.soak.whole.players import REFUSED, Best, Menu, Player, Transcript, greedy, insisting, roaming, study

# With a delta this large, a filter by Renyi order leaves little of what a fault would show.
PROMISES = {
    "renyi": Promise(Budget("2", "0.2"), "renyi", "0.6"),
    "exact": Promise(Budget("2", "0.2"), "exact", "0.6"),
    "pure": Promise(Budget("1.8"), "pure"),
}
PLAYED, STUDIED, STEPS = 2000, 100, 8
# Bits are known well: few are asked, and they are cheap to study.
OF_BITS = 400
# A session is left after so many refusals: the next ones tell no more.
PATIENCE = 3
# So often it is looked whether a game is decided.
LOOKS = 4
# Moves whose few outcomes tell nothing of earlier ones: what `Best` may choose among.
SIMPLE = ("test", "small test", "large test", "majority", "choose", "between", "decide", "classify", "sharp test")
# Who plays, and from how many moves of which.
MENUS = {
    "roaming": (tuple(MOVES), 8),
    "greedy": (tuple(move for move in MOVES if move != "append"), 4),
    "best": (SIMPLE, 4),
    "betting": (("here", "away"), 2),
    "spending": (tuple(SIZED), len(SIZED)),
}


@dataclass(frozen=True)
class Played:
    """One game: who played what, what it proves, and what was promised."""

    who: str
    told: str
    measured: float
    claimed: float
    refuted: bool
    transcripts: int
    refused: int
    overspent: bool

    @property
    def broken(self) -> bool:
        return self.refuted or self.overspent


def whole_sessions(until: Until, random: Random, played: int = PLAYED) -> Figures:
    """The attack."""
    figures, exact = Figures(), PROMISES["exact"]
    delta, allowed = reached(exact), float(exact.budget.exact[1])
    figures.counts["% of an exact filter's delta reached, exactly"] = round(100 * delta / allowed)
    figures.expect(delta <= allowed, f"delta {delta:.4f} is reached where {allowed:g} is promised", "promise")
    for _ in until:
        game = play(random, played)
        figures.count("transcripts", game.transcripts)
        figures.count("games")
        figures.count("refusals", game.refused)
        share, told = round(100 * game.measured / game.claimed), f"% of the promise measured at most, {game.who}"
        figures.counts[told] = max(figures.counts[told], share)
        figures.expect(not game.broken, game.told, "promise")
    return figures


def play(
    random: Random,
    played: int,
    *,
    name: str | None = None,
    who: str | None = None,
    menu: list[str] | None = None,
    source: Source | None = None,
) -> Played:
    """One game of so many sessions, fewer if it is decided earlier; what is not said is drawn."""
    name, who = name or random.choice(list(PROMISES)), who or random.choice(list(MENUS))
    menu, promise = menu or random.sample(*MENUS[who]), PROMISES[name]
    epsilon, delta = (float(part) for part in promise.budget.exact)
    sessions, spent, evidence = [], 0.0, Evidence([])
    with Tables() as tables:
        known, player = _prepared(who, menu, promise, tables, random)
        tables.fresh = "append" in known
        while len(sessions) < played and not evidence.refutes(epsilon, delta):
            for _ in range(-(-played // LOOKS)):
                side = random.randrange(2)
                desk = Desk(tables(side), promise, open_ledger(":memory:"), source, known)
                sessions.append((side, _session(desk, player, random)))
                spent = max(spent, desk.session.spent.share)
            evidence = Evidence(sessions)
    measured, refuted = evidence.epsilon_down(epsilon, delta), evidence.refutes(epsilon, delta)
    told = f"{who} at {name} with {', '.join(known)}: at least {measured:.3f} where {epsilon:g} is promised"
    refused = sum(symbol.startswith(REFUSED) for _, seen in sessions for _, symbol in seen)
    return Played(who, told, measured, epsilon, refuted, len(sessions), refused, spent > 1)


class Tables:
    """The two databases; opened anew for every session where sessions append."""

    def __init__(self) -> None:
        self.fresh, self._open, self._kept = False, [], {}

    def __call__(self, side: int) -> RowTable:
        if self.fresh:
            for table in self._open:
                table.close()
            self._open = [RowTable.open(rows_of(side), neighbor_relation=NEAR)]
            return self._open[0]
        if side not in self._kept:
            self._kept[side] = ReadOnce.open(rows_of(side), neighbor_relation=NEAR)
        return self._kept[side]

    def __enter__(self) -> "Tables":
        return self

    def __exit__(self, *_: object) -> None:
        for table in [*self._open, *self._kept.values()]:
            table.close()


def _prepared(who: str, menu: list[str], promise: Promise, tables: Tables, random: Random) -> tuple[Menu, Player]:
    """The moves that may be made, and who makes them."""
    if who == "spending":
        return _spending(menu, promise, tables)
    moves = {move: MOVES[move] for move in menu}
    if who == "roaming":
        return moves, roaming(menu)
    betting, epsilon = who == "betting", float(promise.budget.exact[0])
    laws = study(moves, promise, tables, OF_BITS if betting else STUDIED)
    if who == "greedy":
        return moves, greedy(laws)
    return moves, Best(laws, epsilon if betting else epsilon / 2, STEPS, flipped=random.random() < 0.5)


def _spending(menu: list[str], promise: Promise, tables: Tables) -> tuple[Menu, Player]:
    """The first question of the menu that is answered at some size, at its largest."""
    sizes = ((name, largest(name, promise, tables(0), partial(open_ledger, IN_MEMORY))) for name in menu)
    name, size = next((name, size) for name, size in sizes if size is not None)
    move = f"{name} of {float(size):g}"
    return {move: SIZED[name](size)}, insisting(move)


def _session(desk: Desk, player: Player, random: Random) -> Transcript:
    """What is seen of one session, to its end."""
    seen = Transcript()
    while len(seen) < STEPS and sum(REFUSED in symbol for _, symbol in seen) < PATIENCE:
        move = player(seen, random)
        if move is None:
            break
        seen.append((move, desk.do(move)))
    return seen
