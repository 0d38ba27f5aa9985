"""What transcripts prove: a lower bound on epsilon, by bets on which of the neighbours each session was at.

Every session is at one of two neighbours, drawn by a coin. An analyst who has seen its transcript guesses which, or
passes. Under (epsilon, delta) he is right with a chance of at most `e^epsilon` times that of being wrong, plus delta.
So whoever stakes a part of what he has, wins as much by a right guess, loses `e^epsilon` times as much by a wrong one
and pays delta of it for each session, or half of it if he guesses one side only, does not get richer on average: he has
a million times his 1 once in 10^6 at most, whenever he looks. How he guesses and what he stakes follows from earlier
sessions only; each is bet on but the first ones.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.soak.whole.players import Transcript

ALPHA = 1e-6
# Sessions that are only learned from; from then on they come in parts, each longer than the last.
FIRST, LONGER = 40, 1.4
STAKES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92)
# Steps of the epsilon that is refuted, as parts of the one that is promised.
STEP, MOST = 0.05, 4.0
Session = tuple[int, Transcript]
Scores = NDArray[np.float64]
Sides = NDArray[np.int64]


@dataclass(frozen=True)
class Bet:
    """Guesses the odd unit from a score of `high` on, its absence from one of `low` down, and stakes so much."""

    epsilon: float
    delta: float
    stake: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def gains(self) -> tuple[float, float, float]:
        """The logarithms of what a right guess, a wrong one and none multiply the wealth by."""
        odds = math.exp(self.epsilon)
        part = self.stake / (odds + self.delta)
        return tuple(math.log1p(part * (won - self.delta)) for won in (1.0, -odds, 0.0))

    def of(self, scores: Scores, sides: Sides) -> Scores:
        """What each session multiplies the wealth by, as logarithms."""
        right, wrong, none = self.gains
        guessed = np.where(scores >= self.high, 1, np.where(scores <= self.low, 0, -1))
        return np.where(guessed < 0, none, np.where(guessed == sides, right, wrong))

    def best_bars(self, scores: Scores, sides: Sides, guessed: Sequence[int]) -> tuple[float, "Bet"]:
        """The same stake with the bars that would have won most, and what that is, if these sides are guessed; each bar
        is met by one more session, that is guessed wrongly."""
        right, wrong, none = self.gains
        bars, total = [math.inf, math.inf], none * len(scores)
        for side in guessed:
            ahead = scores if side else -scores
            order = np.argsort(-ahead, kind="stable")
            steps = np.where(sides[order] == side, right, wrong) - none
            won = np.cumsum(steps) + wrong - none
            last = np.append(np.diff(ahead[order]) < 0, True)
            won[~last | (ahead[order] <= 0)] = -math.inf
            place = int(np.argmax(won)) if len(won) else 0
            useful = len(won) and won[place] > 0
            bars[side] = float(ahead[order][place]) if useful else math.inf
            total += float(won[place]) if useful else 0.0
        return total, Bet(self.epsilon, self.delta, self.stake, -bars[0], bars[1])


@dataclass(frozen=True)
class Evidence:
    """Sessions in the order in which they were played, and how many are learned from before the first bet."""

    sessions: Sequence[Session]
    first: int = FIRST

    @cached_property
    def _parts(self) -> list[tuple[Scores, Sides, Scores, Sides]]:
        """What is known before each part, and the part: scores and sides."""
        sides = np.array([side for side, _ in self.sessions])
        found = []
        for start, end in self._ends():
            weights = _weights(self.sessions[:start])
            scores = np.array([_score(transcript, weights) for _, transcript in self.sessions[:end]])
            found.append((scores[:start], sides[:start], scores[start:end], sides[start:end]))
        return found

    def _ends(self) -> Iterator[tuple[int, int]]:
        start = self.first
        while start < len(self.sessions):
            end = min(len(self.sessions), max(start + 1, int(start * LONGER)))
            yield start, end
            start = end

    def wealth(self, epsilon: float, delta: float) -> list[float]:
        """What bets against (epsilon, delta) made of 1, session after session, as logarithms."""
        logs = [0.0]
        for known, sides, scores, truth in self._parts:
            tried = (
                Bet(epsilon, delta * len(guessed) / 2, stake).best_bars(known, sides, guessed)
                for stake in STAKES
                for guessed in ((0, 1), (0,), (1,))
            )
            won, bet = max(tried, key=lambda each: each[0])
            if won > 0:
                logs.extend(logs[-1] + np.cumsum(bet.of(scores, truth)))
        return logs

    def refutes(self, epsilon: float, delta: float) -> bool:
        """Whether sessions of (epsilon, delta) look like this once in 10^6 at most."""
        return max(self.wealth(epsilon, delta)) > -math.log(ALPHA)

    def epsilon_down(self, claimed: float, delta: float) -> float:
        """The largest multiple of a twentieth of what is claimed that is refuted with all smaller ones.

        The first of these that sessions keep is refuted once in 10^6, so the bound is wrong no oftener.
        """
        found = 0.0
        for step in range(1, round(MOST / STEP) + 1):
            if not self.refutes(step * STEP * claimed, delta):
                break
            found = step * STEP * claimed
        return found


def _weights(sessions: Sequence[Session]) -> dict[tuple[str, str], float]:
    """How much oftener a move was answered like this beside the odd unit, as a logarithm: how often it was made says
    nothing that was not seen before."""
    counts = [Counter(pair for at, seen in sessions if at == side for pair in seen) for side in (0, 1)]
    made: list[Counter[str]] = [Counter(), Counter()]
    for times, found in zip(made, counts, strict=True):
        for (move, _), often in found.items():
            times[move] += often

    def chance(pair: tuple[str, str], side: int) -> float:
        return math.log((counts[side][pair] + 0.5) / (made[side][pair[0]] + 1))

    return {pair: chance(pair, 1) - chance(pair, 0) for pair in counts[0] | counts[1]}


def _score(transcript: Transcript, weights: dict[tuple[str, str], float]) -> float:
    return sum(weights.get(pair, 0.0) for pair in transcript)
