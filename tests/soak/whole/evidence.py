"""What transcripts prove: a lower bound on epsilon, learned on one half, tested on the other; it fails once in 10^6."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from tests.soak.whole.players import Transcript

ALPHA = 1e-6
Scores = NDArray[np.float64]


def epsilon_down(without: Sequence[Transcript], beside: Sequence[Transcript], delta: float) -> float:
    """A lower bound on the epsilon of sessions with these transcripts on either side, at this delta.

    Each pair of a move and what was seen weighs as the logarithm of how much oftener it was seen beside the odd unit,
    in the first halves; the event is that the sum passes a bar that looked best there. Its chances come from the
    others.
    """
    weights = _weights(without[::2], beside[::2])
    scores = [_scores(transcripts, weights) for transcripts in (without[::2], beside[::2])]
    fresh = [_scores(transcripts, weights) for transcripts in (without[1::2], beside[1::2])]
    found = [0.0]
    for sign in (1, -1):
        rare, often = (0, 1) if sign > 0 else (1, 0)
        bar = _best_bar(sign * scores[rare], sign * scores[often], delta)
        found.append(bound(_passed(sign * fresh[rare], bar), _passed(sign * fresh[often], bar), delta))
    return max(found)


def bound(rare: tuple[int, int], often: tuple[int, int], delta: float) -> float:
    """The least epsilon for events that happened so often of so many times; both directions together fail by ALPHA."""
    risk = ALPHA / 4
    most = 1.0 if rare[0] == rare[1] else float(beta.ppf(1 - risk, rare[0] + 1, rare[1] - rare[0]))
    least = 0.0 if not often[0] else float(beta.ppf(risk, often[0], often[1] - often[0] + 1))
    return math.log((least - delta) / most) if least > delta else 0.0


def _weights(without: Sequence[Transcript], beside: Sequence[Transcript]) -> dict[tuple[str, str], float]:
    counts = [Counter(pair for transcript in transcripts for pair in transcript) for transcripts in (without, beside)]
    return {pair: math.log((counts[1][pair] + 0.5) / (counts[0][pair] + 0.5)) for pair in counts[0] | counts[1]}


def _scores(transcripts: Sequence[Transcript], weights: dict[tuple[str, str], float]) -> Scores:
    return np.array([sum(weights.get(pair, 0.0) for pair in transcript) for transcript in transcripts])


def _best_bar(rare: Scores, often: Scores, delta: float) -> float:
    bars = np.unique(np.quantile(np.concatenate([rare, often]), np.linspace(0, 1, 60)))
    return float(max(bars, key=lambda bar: bound(_passed(rare, bar), _passed(often, bar), delta)))


def _passed(scores: Scores, bar: float) -> tuple[int, int]:
    return int((scores >= bar).sum()), len(scores)
