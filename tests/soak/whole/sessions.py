"""Adaptive analysts play whole sessions on two neighbours; what they learn is held against the budget.

All kinds of moves are mixed, with growth, revisions, runs, restarts and refusals among what is seen. Three analysts:
one asks anything, one what tells most for its price, one looks at every way to go on. Of each game a lower bound on
epsilon is taken from transcripts, which must not exceed what the session was opened with.
"""

from dataclasses import dataclass
from random import Random

from chary import Budget
from chary.data import RowTable
from chary.ledger import MemoryLedger
from chary.noise import Source
from tests.soak.figures import Figures, Until
from tests.soak.whole.desks import MOVES, NEAR, Desk, Promise, rows_of
from tests.soak.whole.evidence import epsilon_down
from tests.soak.whole.players import REFUSED, Best, Player, Transcript, greedy, roaming, study

PROMISES = {
    "renyi": Promise(Budget("2", "0.05"), "renyi", "0.6"),
    "exact": Promise(Budget("2", "0.1"), "exact", "0.6"),
    "pure": Promise(Budget("1.8"), "pure"),
}
PLAYED, STUDIED, STEPS = 600, 100, 8
# A session is left after so many refusals: the next ones tell no more.
PATIENCE = 3
# Moves whose few outcomes tell nothing of earlier ones: what `Best` may choose among.
SIMPLE = ("test", "small test", "large test", "majority", "choose", "between", "decide", "classify", "sharp test")
# Who plays, and from how many moves of which.
MENUS = {
    "roaming": (tuple(MOVES), 8),
    "greedy": (tuple(move for move in MOVES if move != "append"), 4),
    "best": (SIMPLE, 4),
}


@dataclass(frozen=True)
class Played:
    """One game: who played what, what it proves, and what was promised."""

    told: str
    measured: float
    claimed: float
    transcripts: int
    refused: int
    overspent: bool

    @property
    def broken(self) -> bool:
        return self.measured > self.claimed or self.overspent


def whole_sessions(until: Until, random: Random, played: int = PLAYED) -> Figures:
    """The attack."""
    figures, most = Figures(), 0.0
    for _ in until:
        game = play(random, played)
        figures.count("transcripts", game.transcripts)
        figures.count("games")
        figures.count("refusals", game.refused)
        most = max(most, game.measured / game.claimed)
        figures.counts["% of the promise measured at most"] = round(100 * most)
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
    """One game of so many sessions a side; what is not said is drawn."""
    name, who = name or random.choice(list(PROMISES)), who or random.choice(list(MENUS))
    menu, promise = menu or random.sample(*MENUS[who]), PROMISES[name]
    with Tables() as tables:
        player = _player(who, menu, promise, tables, random)
        tables.fresh = "append" in menu
        sides = [
            [_session(Desk(tables(side), promise, MemoryLedger(), source), player, random) for _ in range(played)]
            for side in (0, 1)
        ]
    epsilon, delta = (float(part) for part in promise.budget.exact)
    transcripts = [[transcript for transcript, _ in side] for side in sides]
    measured = epsilon_down(*transcripts, delta)
    told = f"{who} at {name} with {', '.join(menu)}: at least {measured:.3f} where {epsilon:g} is promised"
    refused = sum(symbol.startswith(REFUSED) for side in transcripts for seen in side for _, symbol in seen)
    overspent = any(share > 1 for side in sides for _, share in side)
    return Played(told, measured, epsilon, 2 * played, refused, overspent)


class Tables:
    """The two databases; opened anew for every session where sessions append."""

    def __init__(self) -> None:
        self.fresh, self._open, self._kept = False, [], {}

    def __call__(self, side: int) -> RowTable:
        if self.fresh:
            for table in self._open:
                table.close()
            self._open = [RowTable.open(rows_of(side), neighbouring=NEAR)]
            return self._open[0]
        if side not in self._kept:
            self._kept[side] = RowTable.open(rows_of(side), neighbouring=NEAR)
        return self._kept[side]

    def __enter__(self) -> "Tables":
        return self

    def __exit__(self, *_: object) -> None:
        for table in [*self._open, *self._kept.values()]:
            table.close()


def _player(who: str, menu: list[str], promise: Promise, tables: Tables, random: Random) -> Player:
    if who == "roaming":
        return roaming(menu)
    laws = study(menu, promise, tables, STUDIED)
    if who == "greedy":
        return greedy(laws)
    return Best(laws, float(promise.budget.exact[0]) / 2, STEPS, flipped=random.random() < 0.5)


def _session(desk: Desk, player: Player, random: Random) -> tuple[Transcript, float]:
    """One session to its end: what was seen, and how much of the budget was charged."""
    seen = Transcript()
    while len(seen) < STEPS and sum(REFUSED in symbol for _, symbol in seen) < PATIENCE:
        move = player(seen, random)
        if move is None:
            break
        seen.append((move, desk.do(move)))
    return seen, desk.session.spent.share
