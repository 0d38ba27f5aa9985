"""Analysts: what each asks next, by what was seen. They know both databases, all mechanisms, and what moves tell."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chary.ledger import open_ledger
from tests.soak.whole.desks import Desk, Menu, Promise, Symbol

Transcript = list[tuple[str, Symbol]]
Player = Callable[[Transcript, Random], str | None]
# Symbols that were seen once in so many studies may be worth anything.
LEAST = 0.5
REFUSED = "BudgetExceeded"


@dataclass(frozen=True)
class Law:
    """How often each symbol of a move is seen on either side, and what the move is charged at most."""

    chances: Mapping[Symbol, tuple[float, float]]
    charged: float

    @classmethod
    def counted(cls, without: Counter[Symbol], beside: Counter[Symbol]) -> "Law":
        sums = [counts.total() + LEAST * len(without | beside) for counts in (without, beside)]
        chances = {
            symbol: ((without[symbol] + LEAST) / sums[0], (beside[symbol] + LEAST) / sums[1])
            for symbol in without | beside
        }
        return cls(chances, max(charge(symbol) for symbol in chances))

    @property
    def gain(self) -> float:
        """How far apart the sides are on average, for each part of the budget."""
        apart = sum((b - a) * math.log(b / a) for a, b in self.chances.values())
        spent = sum((a + b) / 2 * charge(symbol) for symbol, (a, b) in self.chances.items())
        return apart / max(spent, 1e-4)


def charge(symbol: Symbol) -> float:
    """The part of the budget at the end of a symbol."""
    return max(0.0, float(symbol.rsplit(" ", 1)[1]))


def study(moves: Menu, promise: Promise, tables: Callable[[int], object], times: int) -> dict[str, Law]:
    """The laws of moves, learned from sessions of their own."""
    laws = {}
    for move in moves:
        sides = []
        for side in (0, 1):
            seen: Counter[Symbol] = Counter()
            desk = None
            for _ in range(times):
                if desk is None or desk.session.spent.share > 0.5:
                    desk = Desk(tables(side), promise, open_ledger(":memory:"), moves=moves)
                seen[desk.do(move)] += 1
            sides.append(seen)
        laws[move] = Law.counted(*sides)
    return laws


def roaming(menu: Sequence[str]) -> Player:
    """Asks anything at any time."""
    return lambda seen, random: random.choice(menu)


def insisting(move: str) -> Player:
    """Asks the same for as long as what was charged leaves room for it."""

    def again(seen: Transcript, random: Random) -> str | None:
        charges = [charge(symbol) for _, symbol in seen]
        return move if sum(charges) + max(charges, default=0) <= 1 else None

    return again


def greedy(laws: Mapping[str, Law]) -> Player:
    """Asks what tells most for its price and was not refused; now and then something else."""

    def chosen(seen: Transcript, random: Random) -> str | None:
        refused = {move for move, symbol in seen if symbol.startswith(REFUSED)}
        open_ = [move for move in laws if move not in refused]
        if not open_ or random.random() < 0.1:
            return random.choice(list(laws))
        return max(open_, key=lambda move: laws[move].gain)

    return chosen


@dataclass
class Best:
    """The analyst who reaches most of `P1 - e^epsilon P0` with so many moves, by looking at every way to go on.

    What he holds is the ratio of the chances of what he saw and what was charged; moves must tell nothing of earlier
    ones. `flipped` is the other direction.
    """

    laws: Mapping[str, Law]
    epsilon: float
    steps: int
    flipped: bool = False
    _known: dict[tuple[int, int, int], tuple[float, str | None]] = field(default_factory=dict)

    def __call__(self, seen: Transcript, random: Random) -> str | None:
        spent = sum(charge(symbol) for _, symbol in seen)
        ratio = sum(self._heard(move, symbol) for move, symbol in seen)
        return self._best(self.steps - len(seen), spent, ratio)[1]

    @property
    def worth(self) -> float:
        """What he reaches from the start."""
        return self._best(self.steps, 0.0, 0.0)[0]

    def _heard(self, move: str, symbol: Symbol) -> float:
        first, second = self.laws[move].chances.get(symbol, (1.0, 1.0))
        return math.log(first / second) if self.flipped else math.log(second / first)

    def _best(self, left: int, spent: float, ratio: float) -> tuple[float, str | None]:
        """The most, in parts of P0, and the first move towards it."""
        place = (left, round(spent * 500), round(ratio * 20))
        if place not in self._known:
            found: tuple[float, str | None] = (max(0.0, math.exp(ratio) - math.exp(self.epsilon)), None)
            for move, law in self.laws.items() if left else ():
                if spent + law.charged <= 1.001:
                    found = max(found, (self._worth(move, law, left, spent, ratio), move), key=lambda way: way[0])
            self._known[place] = found
        return self._known[place]

    def _worth(self, move: str, law: Law, left: int, spent: float, ratio: float) -> float:
        return sum(
            (pair[1] if self.flipped else pair[0])
            * self._best(left - 1, spent + charge(symbol), ratio + self._heard(move, symbol))[0]
            for symbol, pair in law.chances.items()
        )
