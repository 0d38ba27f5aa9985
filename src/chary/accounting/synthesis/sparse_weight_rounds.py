"""Multiplicative weights by rounds of sparse vector: the rounds of an opening, and how accurate they are."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, get_args

import scipy

from chary.accounting.exponentials import precise
from chary.accounting.sparse.noise_split import SparseNoise
from chary.accounting.sparse.sparse_errors import error_up
from chary.accounting.synthesis.hard_answers import Update, hard_answer_rates_up
from chary.accounting.synthesis.weight_rounds import (
    Allowance,
    ExactRounds,
    PublishedRounds,
    WeightRounds,
    published_first,
)
from chary.errors import InvalidParameter
from chary.numbers import Number, failing, probability, whole

Constants = Literal["exact", "published"]
SMALLEST_ALPHA, LARGEST_ALPHA, PRECISION = 1e-5, 0.999999, 1e-4


def weight_rounds(
    *,
    alpha: Number,
    cells: int,
    start: int,
    update: Update = "projected",
    mixing: Number = 1,
    exponent: Number = "1/2",
    constants: Constants = "exact",
    epsilon: Number | None = None,
    rho: Number | None = None,
    delta: Number = 0,
    rounds: int | None = None,
) -> WeightRounds:
    """The rounds of a public histogram with so many cells, from `start` rows on.

    By default as many may begin as the potential argument allows hard answers, and one more. `rounds` (exact only)
    foresees so many at the start instead, and in proportion later. Errors: `InvalidParameter`.

    >>> given = {"alpha": "0.1", "cells": 1000, "start": 5000, "epsilon": 1}
    >>> exact, published = (weight_rounds(**given, constants=name) for name in ("exact", "published"))
    >>> exact.allowance.most(5000), f"{float(exact.epsilon_down(1, 5000) / published.epsilon_down(1, 5000)):.1f}"
    (3109, '17.9')
    """
    if constants not in get_args(Constants):
        raise InvalidParameter("constants must be 'exact' or 'published'")
    first, growth = hard_answer_rates_up(alpha=alpha, cells=cells, update=update, mixing=mixing)
    allowed = Allowance(whole(start, "start"), first + 1, growth)
    if constants == "published":
        if epsilon is None or rho is not None or rounds is not None:
            raise InvalidParameter(
                'constants="published" have an epsilon= and perhaps a delta=, no rho= and no rounds='
            )
        return PublishedRounds(allowed, exponent, alpha, cells, epsilon, delta)
    if failing(delta):
        raise InvalidParameter("exact constants are epsilon-DP or rho-zCDP: leave delta= out")
    if rounds is not None:
        number = Fraction(whole(rounds, "rounds"))
        allowed = Allowance(start, number, growth * number / allowed.first)
    return ExactRounds(allowed, exponent, epsilon, rho)


def round_alpha_up(
    noise: SparseNoise, *, size: int, queries: int, rounds: int = 1, confidence: Number = "0.95"
) -> float:
    """The accuracy of so many queries with noise like this: with `confidence` all noises are within a third of it.

    Each query is two tests. `rounds` is how many rounds they are spread over at most; each has a threshold and a value.

    >>> noise = ExactRounds(Allowance(10**6, Fraction(50), Fraction(60)), "1/2", rho="0.0175").noise(1, 10**6)
    >>> round(round_alpha_up(noise, size=10**6, queries=1000, rounds=50), 4)
    0.0079
    """
    asked, begun = whole(queries, "queries"), whole(rounds, "rounds")
    anew = replace(noise, hits=min(asked, begun), redrawn=True)
    return 3 * error_up(anew, tests=2 * asked, confidence=confidence) / whole(size, "size")


def sparse_weights_alpha(*, cells: int, size: int, queries: int, confidence: Number = "0.95", **terms: Any) -> float:
    """The least alpha that `weight_rounds` keeps over so many queries at the size of the opening; infinite for none.

    `terms` are those of `weight_rounds` but for alpha. As the table grows, the noise of rounds that open then is a
    smaller and smaller part of it. Rounded up, by a ten-thousandth at most.

    >>> known = {"cells": 1000, "queries": 1000, "update": "projected", "mixing": "0.1"}
    >>> round(sparse_weights_alpha(size=10**6, rho="0.0175", **known), 3)
    0.087
    """

    def excess(alpha: float) -> float:
        rounds = weight_rounds(alpha=alpha, cells=cells, start=size, **terms)
        spread, noise = min(queries, rounds.allowance.most(size)), rounds.noise(1, size)
        reached = round_alpha_up(noise, size=size, queries=queries, rounds=spread, confidence=confidence)
        return math.log(max(reached, SMALLEST_ALPHA) / alpha)

    low = LARGEST_ALPHA
    if excess(low) > 0:
        return math.inf
    while low > SMALLEST_ALPHA and excess(low) <= 0:
        low /= 10
    found = math.exp(
        float(
            scipy.optimize.brentq(lambda log: excess(math.exp(log)), math.log(low), math.log(10 * low), xtol=PRECISION)
        )
    )
    while excess(found) > 0:
        found = min(LARGEST_ALPHA, found * (1 + PRECISION))
    return found


def published_weights_alpha(
    *,
    cells: int,
    size: int,
    queries: int,
    epsilon: Number,
    delta: Number = 0,
    exponent: Number = "1/2",
    confidence: Number = "0.95",
) -> float:
    """The accuracy of the published constants in the form of [GROW] Theorems 14 and 17; 1 and more says nothing.

    With `x = ln(9 queries/beta)`: `(18 * 54 (2-p)/(1-p) ln(N n) x/(n epsilon))^(1/3)`, at p = 1/2 with the factor 2916,
    or `(18 sqrt(1152 (3-2p)/(2-2p) ln(N n) ln(1/delta)) x/(n epsilon))^(1/2)`. With `confidence` all answers keep it
    for ever, as long as not more than `queries exp(((t/n)^p - 1) x/2)` were asked by any size t.

    >>> round(published_weights_alpha(cells=1000, size=10**10, queries=1000, epsilon=1), 3)
    0.047
    """
    beta, power = float(1 - probability(confidence, "confidence")), 1 if failing(delta) else 2
    each = published_noise_function(cells=cells, size=size, epsilon=epsilon, delta=delta, exponent=exponent)
    return float((18 * math.log(9 * whole(queries, "queries") / beta) / each) ** (1 / (power + 1)))


def published_noise_function(*, cells: int, size: int, epsilon: Number, delta: Number, exponent: Number) -> float:
    """`xi_n/alpha` of [GROW] Algorithm 3 with a delta, `xi_n/alpha^2` without."""
    kept, unit, failure = 1 - probability(exponent, "exponent"), Fraction(1, 2), failing(delta)
    rows = whole(size, "size")
    with precise():
        at_half = published_first(unit, whole(cells, "cells", least=2), rows, kept, epsilon, failure)
    return float(at_half) * 2 ** (1 if failure else 2) * rows
