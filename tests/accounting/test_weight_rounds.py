"""Rounds of sparse vector for multiplicative weights: worst paths by brute force, both constants."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chary.accounting import Approximate, Pure, ZeroConcentrated, hard_answers_up
from chary.accounting.numerics import precise
from chary.accounting.weights import Allowance, ExactRounds, PublishedRounds, weight_rounds
from chary.errors import InvalidParameter

SIZES, START = 10**6, 200
PUBLISHED = {"constants": "published", "update": "published", "mixing": 1}
# Few rounds, so that they can be added up one by one; the first is not a whole number.
FEW = Allowance(5, Fraction("3.7"), Fraction("2.3"))


def loss(noise):
    """The epsilon of the tests of a round and that of its value, from the noise itself: two steps for a test."""
    return 1 / noise.threshold + 2 / noise.test, 1 / noise.answer


def zcdp(noise):
    """Both as parts of a composition."""
    return sum(part**2 for part in loss(noise)) / 2


def most_at(allowed, sizes):
    """How many rounds may have begun at each size."""
    first, growth = float(allowed.first), float(allowed.growth)
    return np.floor(first + growth * np.log(sizes / allowed.start))


@pytest.mark.parametrize("allowed", [FEW, Allowance(1000, Fraction(100), Fraction("30.5"))])
def test_an_allowance_opens_round_after_round(allowed):
    assert allowed.most(allowed.start) == allowed.most(1) == math.floor(allowed.first)
    for number in range(1, 3 * math.floor(allowed.first)):
        size = allowed.opens(number)
        assert allowed.most(size) >= number
        assert size == allowed.start or allowed.most(size - 1) < number
    assert allowed.most(allowed.opens(10**4)) >= 10**4
    sizes = range(allowed.start, 50 * allowed.start, 7)
    assert [allowed.most(size) for size in sizes] == most_at(allowed, np.array(sizes)).tolist()


@pytest.mark.parametrize("update", ["projected", "published"])
def test_as_many_rounds_may_begin_as_there_can_be_hard_answers_and_one_more(update):
    given = {"alpha": "0.1", "cells": 1000, "start": 500, "update": update, "mixing": "0.1"}
    allowed = weight_rounds(**given, epsilon=1).allowance
    falls = 0.01 * (2 / 9 if update == "projected" else 1 / 36)
    for size in (500, 501, 800, 5000):
        entropy = math.log(1000) + sum(math.log(10_000) / row for row in range(501, size + 1))
        assert math.floor(entropy / falls) + 1 <= allowed.most(size) <= hard_answers_up(**given, size=size) + 1
    fewer = weight_rounds(**given, epsilon=1, rounds=20).allowance
    assert fewer.most(500) == 20
    assert fewer.most(5000) == pytest.approx(20 * allowed.most(5000) / allowed.most(500), abs=1)


@pytest.mark.parametrize("power", ["1/10", "1/2", "1", "9/5"])
def test_the_total_is_the_sum_of_all_weights_and_below_its_integral(power):
    part = Fraction(power)
    with precise():
        added = sum((FEW.weight(number, part) for number in range(1, 3000)), Decimal(0))
        assert added <= FEW.total(part) * (1 + Decimal("1e-50"))
        assert float(added) == pytest.approx(float(FEW.total(part)), rel=1e-12)
        assert FEW.total(part) <= Decimal(float(FEW.first + FEW.growth / part) + 1e-12)


@pytest.mark.parametrize("exponent", ["1/10", "1/2", "4/5"])
def test_exact_rounds_use_up_their_budget_and_never_more(exponent):
    many = range(1, int(25 * FEW.growth / (1 - Fraction(exponent))))
    pure = ExactRounds(FEW, exponent, epsilon="0.3")
    spent = sum(sum(loss(pure.noise(number, 5))) for number in many)
    assert Fraction("0.2999") < spent <= Fraction("0.3")
    joint = ExactRounds(FEW, exponent, rho="0.02")
    spent = sum(zcdp(joint.noise(number, 5)) for number in many)
    assert Fraction("0.01999") < spent <= Fraction("0.02")
    assert (pure.event, joint.event) == (Pure("0.3"), ZeroConcentrated("0.02"))
    shares = [pure.epsilon_down(number, 5) for number in range(1, 10)]
    assert shares[0] == shares[2] > shares[3] > shares[8]
    assert pure.epsilon_down(7, 5) == pure.epsilon_down(7, 10**6)


@pytest.mark.parametrize("exponent", ["1/10", "1/2", "4/5"])
def test_exact_rounds_on_the_worst_path_of_a_million_sizes(exponent):
    """All rounds that may have begun by then, each as early as it may; late ones cost the same."""
    given = {"alpha": "0.6", "cells": 50, "start": START, "exponent": exponent}
    for total, cost in (({"epsilon": 1}, lambda noise: sum(loss(noise))), ({"rho": "0.02"}, zcdp)):
        rounds = weight_rounds(**given, **total)
        allowed, most = rounds.allowance, next(iter(total.values()))
        opened = [allowed.opens(number) for number in range(1, allowed.most(START + SIZES) + 1)]
        assert opened == sorted(opened)
        spent = sum(cost(rounds.noise(number, size)) for number, size in enumerate(opened, 1))
        power = float(rounds.kept if "epsilon" in total else 2 * rounds.kept)
        beyond = 2 * float(allowed.growth) / power * (SIZES / START) ** -power * float(cost(rounds.noise(1, START)))
        assert Fraction(most) - Fraction(beyond) < spent <= Fraction(most)


def published(exponent="1/2", delta=0, **other):
    given = {"alpha": "0.9", "cells": 10**5, "start": 2, "exponent": exponent, "epsilon": "0.5", "delta": delta}
    return weight_rounds(**(given | PUBLISHED | other))


@pytest.mark.parametrize("exponent", ["1/10", "1/2", "4/5"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_published_rounds_on_the_worst_path_of_a_million_sizes(exponent, delta):
    """Each round begins as early as it may; for the sizes beyond, what the integral says can still come."""
    rounds = published(exponent, delta, start=START)
    sizes = np.arange(START, START + SIZES)
    begun = np.diff(most_at(rounds.allowance, sizes), prepend=0)
    at_start, kept = rounds.noise(1, START), float(rounds.kept)
    falling = (sizes / START) ** -kept
    if not Fraction(delta):
        one, power = sum(loss(at_start)), kept
        worst, most = float(one) * float(begun @ falling), 0.5
    else:
        one, power = zcdp(at_start), 2 * kept
        worst = float(one) * float(begun @ falling**2)
        worst, most = worst + 2 * math.sqrt(worst * math.log(1e6)), 0.5
    assert worst <= float(rounds.spent_up) <= most
    beyond = float(rounds.allowance.growth) / power * (1 + SIZES / START) ** -power * float(one)
    if not Fraction(delta):
        assert float(rounds.spent_up) == pytest.approx(worst + beyond, rel=0.01)
    random = np.random.default_rng(1)
    for _ in range(20):
        late = np.sort(random.choice(sizes, 1000))
        late = late[np.arange(1, 1001) <= most_at(rounds.allowance, late)]
        path = [rounds.noise(1, int(size)) for size in late[:40]]
        spent = sum(float(zcdp(noise) if Fraction(delta) else sum(loss(noise))) for noise in path)
        assert spent <= worst


def test_published_rounds_are_those_of_the_paper():
    logs = math.log(1000 * 5000)
    pure = published(alpha="0.1", cells=1000, start=5000, epsilon=1)
    for size in (5000, 20_000):
        xi = 0.01 * math.sqrt(5000) / (162 * logs) * math.sqrt(size)
        noise = pure.noise(3, size)
        assert [float(scale) for scale in (noise.threshold, noise.test, noise.answer)] == pytest.approx(
            [2 * size / xi, 4 * size / xi, 2 * size / xi], rel=1e-12
        )
        assert float(pure.epsilon_down(3, size)) == pytest.approx(1.5 * xi / size, rel=1e-12)
    approximate = published(alpha="0.1", cells=1000, start=5000, epsilon=1, delta="1e-6")
    xi = 0.1 * math.sqrt(5000) / (48 * math.sqrt(logs * math.log(1e6))) * math.sqrt(20_000)
    assert float(approximate.noise(3, 20_000).threshold) == pytest.approx(2 * 20_000 / xi, rel=1e-12)
    assert approximate.event == Approximate(1, "1e-6")
    assert pure.noise(3, 100) == pure.noise(3, 5000)


@given(st.floats(0.01, 0.99), st.integers(2, 10**9), st.integers(2, 10**9), st.floats(0.05, 0.95), st.floats(1e-3, 100))
def test_published_constants_keep_every_pure_budget_from_two_rows_on(alpha, cells, start, exponent, epsilon):
    for update in ("published", "projected"):
        rounds = published(exponent, 0, alpha=alpha, cells=cells, start=start, epsilon=epsilon, update=update)
        assert float(rounds.spent_up) <= epsilon * (1 + 1e-12)


@given(st.floats(0.01, 0.99), st.integers(2, 10**9), st.integers(2, 10**9), st.floats(0.05, 0.95))
def test_published_constants_with_a_delta_leave_most_of_a_moderate_budget(alpha, cells, start, exponent):
    rounds = published(exponent, "1e-6", alpha=alpha, cells=cells, start=start, epsilon=1)
    assert float(rounds.spent_up) <= 0.2796 + 0.0196 / math.log(1e6)


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        ({"start": 1}, False),
        ({"start": 2, "mixing": "0.1"}, False),
        ({"start": 5, "mixing": "0.1"}, True),
        ({"start": 2, "mixing": "0.1", "update": "projected"}, True),
        ({"delta": "0.1", "epsilon": 80}, True),
        ({"delta": "0.1", "epsilon": 110}, False),
        ({"delta": "1e-6", "epsilon": 110}, True),
    ],
)
def test_published_constants_are_refused_where_they_do_not_keep_the_budget(other, holds):
    if holds:
        assert published(**other).spent_up <= Fraction(other.get("epsilon", "0.5"))
        return
    with pytest.raises(InvalidParameter, match='constants="exact"'):
        published(**other)


def test_exact_constants_are_better_than_the_published_ones():
    given = {"alpha": "0.1", "cells": 10**5, "start": 5000, "update": "published", "mixing": 1}
    pure = [weight_rounds(**given, epsilon=1, constants=name).epsilon_down(1, 5000) for name in ("exact", "published")]
    assert float(pure[0] / pure[1]) == pytest.approx(math.log(10**5 * 5000) / math.log(10**5), rel=1e-4)
    projected = weight_rounds(**(given | {"update": "projected"}), epsilon=1).epsilon_down(1, 5000)
    assert float(projected / pure[0]) == pytest.approx(8, rel=1e-3)
    rho = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2
    exact = zcdp(weight_rounds(**given, rho=rho).noise(1, 5000))
    least = zcdp(weight_rounds(**given, epsilon=1, delta=1e-6, constants="published").noise(1, 5000))
    assert 4 < math.sqrt(exact / least) < 6


def test_a_wrong_constant_would_be_seen():
    """Half as much again of the noise function is refused by the same check."""

    class Louder(PublishedRounds):
        @property
        def first(self):
            return super().first * Decimal("1.12")

    given = {"alpha": Fraction("0.9"), "cells": 10**5, "epsilon": Fraction(1, 2)}
    allowed = weight_rounds(**given, start=2, **PUBLISHED).allowance
    PublishedRounds(allowed, "1/2", **given)
    with pytest.raises(InvalidParameter):
        Louder(allowed, "1/2", **given)
