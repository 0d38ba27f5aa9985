"""The best of random candidates, as many as a coin says: 3 epsilon-DP, however many run (Liu and Talwar 2019)."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from chary.calls import Algorithm
from chary.calls.selection import Scored, listed, scored
from chary.errors import InvalidParameter
from chary.noise import Enclosure, Source, bernoulli, uniform_integers
from chary.numbers import whole


def random_stopping(algorithms: Sequence[Algorithm], *, runs: int, name: str = "random stopping") -> Algorithm:
    """One algorithm that runs a random one of several again and again, stops after each run with probability 1/runs,
    and returns the best: {"name", "score", "solution"}, of equal scores the first.

    Guarantee: if each algorithm's [score, solution] is epsilon-DP, the whole is 3 epsilon-DP (pure), whatever `runs`,
    which is how many there are in the mean. The number that ran is secret: with it, more is revealed, so whoever sees
    how long it takes must not be the adversary. Proof, with c = 1/runs: one run has an epsilon-DP law p, and

        P(y is published) = c p(y) / ((c + (1-c) P(a run ranks as high as y)) (c + (1-c) P(a run ranks higher))),

    the sum over the runs before and after y; each of the three changes by e^epsilon at most. A run that fails ranks
    below all scores; if all fail, so does the whole.

    Errors: `InvalidParameter` for what is no list of algorithms with different names, or one with a delta.

    >>> coin = Algorithm("coin", lambda rows, source: [0, "heads"], epsilon=0.1)
    >>> random_stopping([coin], runs=20).size[0]
    Fraction(3, 10)
    """
    listed(algorithms)
    if any(algorithm.size[1] for algorithm in algorithms):
        raise InvalidParameter("random stopping needs pure algorithms: none with a delta")
    stop = Enclosure.rational(Fraction(1, whole(runs, "runs")))

    def run(rows: Any, source: Source, **_: Any) -> dict[str, Any]:
        best: Scored = None
        winner = ""
        going = True
        while going:
            algorithm = algorithms[int(uniform_integers(source, len(algorithms), 1)[0])]
            found = scored(algorithm, rows if algorithm.columns is None else rows.select(algorithm.columns), source)
            if found is not None and (best is None or found[0] > best[0]):
                best, winner = found, algorithm.name
            going = not bernoulli(source, stop, 1)[0]
        if best is None:
            raise InvalidParameter("every run failed")
        return {"name": winner, "score": best[0], "solution": best[1]}

    body = {"algorithms": [algorithm.body() for algorithm in algorithms], "runs": runs}
    epsilon = 3 * max(algorithm.size[0] for algorithm in algorithms)
    return Algorithm(name, run, epsilon, columns=_columns(algorithms), parameters=body)


def _columns(algorithms: Sequence[Algorithm]) -> list[str] | None:
    """What any of them reads; None for everything."""
    read = [algorithm.columns for algorithm in algorithms]
    named = [columns for columns in read if columns is not None]
    return list(dict.fromkeys(chain(*named))) if len(named) == len(read) else None
