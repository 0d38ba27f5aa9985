"""Exact search over all adaptive analysts on small trees, against charging code that really runs.

A game says what may be asked and runs the code for every outcome: what the analyst sees, what is charged, what is kept
in secret. The search carries all secret states that fit what was seen, with their chances under both neighbours, and
finds the most that any analyst can make of it. Charges are added along each path; a call is made only where its worst
price fits into what is left, as in a session.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

STEPS = 10**15
DIGITS = 11


class Result(NamedTuple):
    """One outcome of a call in one secret state: its chance there, what is seen, what is charged, what is kept.

    `seen` is the new public state, which decides what can be asked next.
    """

    chance: float
    told: Hashable
    charged: int
    seen: Hashable
    kept: Hashable


class Ask(NamedTuple):
    """A call: its worst price, and its outcomes under neighbour 0 or 1 in a secret state."""

    worst: int
    play: Callable[[int, Hashable], Iterable[Result]]


class World(NamedTuple):
    """A secret state that fits what was seen, under one of the neighbours, with its chance."""

    side: int
    chance: float
    kept: Hashable


class Game(Protocol):
    """What an analyst may do."""

    start: tuple[Hashable, tuple[World, ...]]

    def asks(self, seen: Hashable) -> Iterable[Ask]:
        """All calls that can be made in a public state."""


class Goal(Protocol):
    """What the analyst wants: a value of a transcript, homogeneous in its two chances."""

    def worth(self, first: float, second: float) -> float:
        """Of a transcript with these chances."""

    def scale(self, first: float, second: float) -> tuple[float, float, float]:
        """What to divide the two chances by, and the factor of the value that this takes out."""

    def charge(self, amount: int) -> float:
        """The factor for what is charged."""


@dataclass(frozen=True)
class Moment:
    """`E_P1[(P0/P1)^a e^(-charged)]`: at most 1 for a sound price; without `discounted`, the plain moment."""

    order: float
    discounted: bool = True

    def worth(self, first, second):
        return first**self.order * second ** (1 - self.order) if min(first, second) > 0 else 0.0

    def scale(self, first, second):
        if min(first, second) <= 0:
            return 1.0, 1.0, 1.0
        return first, second, self.worth(first, second)

    def charge(self, amount):
        return math.exp(-amount / STEPS) if self.discounted else 1.0


@dataclass(frozen=True)
class Delta:
    """The true delta at a total epsilon."""

    epsilon: float

    def worth(self, first, second):
        return max(0.0, first - math.exp(self.epsilon) * second)

    def scale(self, first, second):
        return (first + second,) * 3

    def charge(self, amount):
        return 1.0


class Best:
    """The best analyst of a game; `room` is the budget in steps, None for one without end."""

    def __init__(self, game: Game, goal: Goal, *, room: int | None = None):
        self.game, self.goal, self.room = game, goal, room
        self._known: dict[Hashable, float] = {}

    def value(self, calls: int) -> float:
        """The most that any analyst reaches with so many calls."""
        seen, worlds = self.game.start
        return self._value(seen, worlds, self.room, calls)

    def _value(self, seen, worlds, left, calls) -> float:
        sums = [math.fsum(world.chance for world in worlds if world.side == side) for side in (0, 1)]
        first, second, factor = self.goal.scale(*sums)
        if factor == 0.0:
            return 0.0
        scaled = tuple(World(w.side, w.chance / (second if w.side else first), w.kept) for w in worlds)
        named = (seen, tuple((w.side, float(f"{w.chance:.{DIGITS}e}"), w.kept) for w in scaled), left, calls)
        if named not in self._known:
            chances = (sums[0] / first, sums[1] / second)
            self._known[named] = self._most(seen, scaled, left, calls, chances)
        return factor * self._known[named]

    def _most(self, seen, worlds, left, calls, chances) -> float:
        found = [self.goal.worth(*chances)]
        for ask in self.game.asks(seen) if calls else ():
            if left is None or ask.worst <= left:
                found.append(self._asked(ask, worlds, left, calls))
        return max(found)

    def _asked(self, ask, worlds, left, calls) -> float:
        total = 0.0
        for charged, seen, after in outcomes(ask, worlds):
            rest = None if left is None else left - charged
            total += self.goal.charge(charged) * self._value(seen, after, rest, calls - 1)
        return total


def outcomes(ask: Ask, worlds: tuple[World, ...]) -> Iterator[tuple[int, Hashable, tuple[World, ...]]]:
    """What can be seen, with what is charged and the secret states that then remain.

    What is charged, and what can be asked next, must follow from what is seen, and fit into what was reserved.
    """
    found: dict[Hashable, tuple[int, Hashable, dict[tuple[int, Hashable], float]]] = {}
    for world in worlds:
        for result in ask.play(world.side, world.kept):
            assert 0 <= result.charged <= ask.worst
            charged, seen, states = found.setdefault(result.told, (result.charged, result.seen, {}))
            assert (charged, seen) == (result.charged, result.seen), "a charge tells more than the answer"
            place = (world.side, result.kept)
            states[place] = states.get(place, 0.0) + world.chance * result.chance
    for charged, seen, states in found.values():
        yield charged, seen, tuple(World(side, chance, kept) for (side, kept), chance in states.items() if chance)
