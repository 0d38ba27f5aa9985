"""How many rows multiplicative weights take for an accuracy, and how many queries they keep it for."""

import math
from typing import Any, Final

from chary.accounting.rounding import LARGEST_FLOAT
from chary.accounting.searching import least_size
from chary.accounting.synthesis.sparse_weight_rounds import (
    published_noise_function,
    published_weights_alpha,
    round_alpha_up,
    weight_rounds,
)
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, probability, whole

_MOST: Final = 2**100
_MOST_QUERIES: Final = 2**40
_STEPS: Final = 100
# Published constants need a few rows; nothing is learnt from so few.
_FEWEST: Final = 16
# A few float operations, downwards.
_DOWNWARDS: Final = 1 - 1e-12


def published_weights_rows(*, alpha: Number, **terms: Any) -> int:
    """The fewest rows at which `published_weights_alpha` keeps alpha: n of [GROW] Theorems 14 and 17, and 22 and 24.

    `terms` are those of `published_weights_alpha` but for the size. Errors: `InvalidParameter`.

    >>> published_weights_rows(alpha="0.1", cells=1000, queries=1000, epsilon=1)
    974051578
    """
    wanted = float(probability(alpha, "alpha"))
    return _found(least_size(lambda size: published_weights_alpha(size=size, **terms), wanted, most=_MOST))


def sparse_weights_rows(*, alpha: Number, cells: int, queries: int, confidence: Number = "0.95", **terms: Any) -> int:
    """The fewest rows of a histogram opened with this alpha that keep it over so many queries, by the exact law.

    `terms` are those of `weight_rounds` but for the size; with its defaults the condition on n of static multiplicative
    weights, [GROW] Theorem 8, for a table that may also grow. Errors: `InvalidParameter`.

    >>> sparse_weights_rows(alpha="0.1", cells=1000, queries=1000, rho="0.0243", mixing="0.1")
    640080
    """

    def reached(size: int) -> float:
        rounds = weight_rounds(alpha=alpha, cells=cells, start=size, **terms)
        spread = min(queries, rounds.allowance.most(size))
        return round_alpha_up(rounds.noise(1, size), size=size, queries=queries, rounds=spread, confidence=confidence)

    # Noise in rows never falls with the size, so no step passes the least size.
    size, wanted = _FEWEST, float(probability(alpha, "alpha"))
    while (error := reached(size)) > wanted:
        size = max(size + 1, math.ceil(size * error / wanted * _DOWNWARDS))
        if size > _MOST:
            return _found(None)
    return size


def queries_allowed(
    *,
    alpha: Number,
    cells: int,
    start: int,
    size: int,
    epsilon: Number,
    delta: Number = 0,
    exponent: Number = "1/2",
    confidence: Number = "0.95",
) -> float:
    """How many queries [GROW] Theorems 14 and 17 allow until the table that began with `start` rows has this size.

    `k exp(((t/n)^p - 1) x/2)` with `x = alpha xi_n/18` and `k = beta e^x/9`, those that n rows allow: whole numbers,
    rounded down, at most the largest float. 0 says that even one is too many.

    Errors: `InvalidParameter`, also for a size below the start.

    >>> terms = {"alpha": "0.1", "cells": 1000, "start": 10**9, "epsilon": 1}
    >>> [queries_allowed(size=size, **terms) for size in (10**9, 2 * 10**9, 4 * 10**9)]
    [1364.0, 17831.0, 675980.0]
    """
    rows, first = whole(size, "size"), whole(start, "start")
    if rows < first:
        raise InvalidParameter("a growing table does not shrink: size must be at least start")
    known = {"epsilon": epsilon, "delta": delta, "exponent": exponent}
    power = 1 if failing(delta) else 2
    x = float(probability(alpha, "alpha")) ** (power + 1) / 18
    x *= published_noise_function(cells=cells, size=first, **known) * _DOWNWARDS
    grown = (rows / first) ** float(probability(exponent, "exponent")) - 1
    log = math.log(float(1 - probability(confidence, "confidence")) / 9) + x * (1 + grown / 2)
    return float(math.floor(math.exp(log) * _DOWNWARDS)) if log < math.log(LARGEST_FLOAT) else LARGEST_FLOAT


def exact_queries_allowed(*, alpha: Number, cells: int, size: int, confidence: Number = "0.95", **terms: Any) -> int:
    """How many queries a histogram opened now with this alpha keeps it over, by the exact law of its rounds.

    The inverse of `sparse_weights_rows`; 0 for none, at most 2**40, and above 100 in steps of a hundredth, rounded
    down. `terms` are those of `weight_rounds` but for the size.

    >>> exact_queries_allowed(alpha="0.1", cells=100, size=6000, epsilon=3, rounds=5)
    129
    """
    rounds = weight_rounds(alpha=alpha, cells=cells, start=whole(size, "size"), **terms)
    noise, wanted = rounds.noise(1, size), float(probability(alpha, "alpha"))

    def beyond(queries: int) -> bool:
        spread = min(queries, rounds.allowance.most(size))
        found = round_alpha_up(noise, size=size, queries=queries, rounds=spread, confidence=confidence)
        return found > wanted

    low, high = 0, 1
    while not beyond(high):
        if high == _MOST_QUERIES:
            return high
        low, high = high, 4 * high
    while high - low > max(1, low // _STEPS):
        middle = (low + high) // 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low


def _found(size: int | None) -> int:
    if size is None:
        raise InvalidParameter("no table has as many rows as this alpha takes: take a larger one, or a larger budget")
    return size
