"""Principal components: exact sums from the engine, covariances that follow from them, intervals that hold."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, InvalidParameter, InvalidQuery
from chary.accounting import Pure, ZeroConcentrated, zero_concentrated_rho_down
from chary.calls import PrincipalComponents
from chary.data import NeighborRelation, RowTable, second_moments
from chary.noise import Seeded
from tests.session.kit import PLENTY, spent

RANGES = {"a": (-4, 4), "b": (0, 50), "c": (0, 8)}
PURE = Budget(epsilon=10**9)


def frame(rows=300):
    draw = np.random.default_rng(2)
    b = draw.normal(25, 12, rows)
    b[::9] = np.nan
    return pd.DataFrame(
        {"a": draw.normal(0, 3, rows) + b.clip(0, 50) / 25, "b": b, "c": draw.integers(-1, 10, rows), "u": range(rows)}
    )


def counted(data, steps, longest=None):
    """The rows as they are counted, in pure Python."""
    found = []
    for row in data[["a", "b", "c"]].dropna().itertuples(index=False):
        line = []
        for value, (low, high) in zip(row, RANGES.values(), strict=True):
            scaled = (value - (low + high) / 2) / ((high - low) / 2) * steps
            inside = min(max(scaled, -steps), steps)
            line.append(math.floor(abs(inside) + 0.5) * (1 if inside >= 0 else -1))
        size, most = sum(s * s for s in line), None if longest is None else math.floor((longest * steps) ** 2)
        if most is not None and size > most:
            line = [math.trunc(s * math.sqrt(most / size)) for s in line]
        found.append(line)
    return np.array(found)


def sums(rows):
    square = rows.T @ rows
    return [len(rows), *rows.sum(axis=0), *square[np.triu_indices(3)]]


@pytest.mark.parametrize(
    ("steps", "longest"), [(1, None), (1, 1), (100, None), (100, "0.3"), (4096, None), (4096, 1), (4096, "0.3")]
)
def test_the_engine_sums_exactly(longest, steps):
    table = RowTable.open(frame(), neighbor_relation=NeighborRelation("replace", None))
    query = second_moments(RANGES, steps=steps, longest=longest)
    rows = counted(frame(), steps, None if longest is None else float(longest))
    assert table.prepare(query).run().tolist() == sums(rows)
    assert (rows**2).sum(axis=1).max() <= query.squared
    assert np.abs(rows).sum(axis=1).max() <= query.most
    other = table.prepare(second_moments(RANGES, steps=steps, longest=longest, where="c > 100")).run()
    assert other.tolist() == [0] * 10


def test_rows_of_a_unit_are_limited_by_their_own_values():
    """Whatever order they come in, each unit has the sums of two of its own rows, whatever rows others have."""
    data = frame(60).assign(u=[k % 7 for k in range(60)])
    query = second_moments(RANGES, steps=50, max_rows_per_unit=2)

    def found(rows):
        near = NeighborRelation("add_remove", "u")
        return RowTable.open(rows, neighbor_relation=near).prepare(query).run().tolist()

    alone = [found(own) for _, own in data.groupby("u")]
    for mine, (_, own) in zip(alone, data.groupby("u"), strict=True):
        assert mine in [sums(np.array(pair)) for pair in itertools.combinations(counted(own, 50), 2)]
    assert found(data) == found(data.sample(frac=1, random_state=1)) == np.sum(alone, axis=0).tolist()


def opened(data, **options):
    given = {"privacy_unit": None, "neighbors": "replace", "budget": PURE, "ledger": ":memory:"}
    return chary.open(data, **(given | options))


def test_without_noise_it_is_the_exact_analysis():
    session = opened(frame())
    found = session.ask(PrincipalComponents(RANGES, epsilon=PLENTY))
    rows = counted(frame(), 1000) / 1000
    covariance = np.cov(rows.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    assert np.array(found.covariance) == pytest.approx(covariance, abs=1e-3)
    assert list(found.value.values()) == pytest.approx(values[::-1], abs=1e-3)
    first = np.array(list(found.directions[0].values()))
    assert abs(first @ vectors[:, -1]) == pytest.approx(1, abs=1e-3)
    assert found.rows_counted == pytest.approx(len(rows), abs=1)
    for name, mean, (low, high) in zip(RANGES, rows.mean(axis=0), RANGES.values(), strict=True):
        assert found.means[name] == pytest.approx((low + high) / 2 + mean * (high - low) / 2, abs=0.1)
    assert sum(row["explained"] for row in found) == pytest.approx(1)
    own = np.array(found.own_covariance) / np.array(found.covariance)
    assert own[0, 1] == pytest.approx(4 * 25)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [{"rho": "0.05"}, {"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}])
def test_intervals_and_angles_hold(size):
    data = frame(3000)
    rows = counted(data, 1000) / 1000
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
    session = opened(data, budget=Budget(10**4, "0.1"), delta_reserve="0.05", unsafe_noise=Seeded(3))
    missed = beyond = 0
    for number in range(60):
        found = session.ask(PrincipalComponents(RANGES, **size), request=str(number))
        inside = [row["low"] <= truth <= row["high"] for row, truth in zip(found, values[::-1], strict=True)]
        missed += not all(inside)
        angle = found.angle(1, "0.8")
        first = np.array(list(found.directions[0].values()))
        beyond += angle is not None and math.degrees(math.acos(min(1, abs(first @ vectors[:, -1])))) > angle
    assert stats.binomtest(missed, 60, 0.05, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(beyond, 60, 0.2, alternative="greater").pvalue > 1e-6


def test_it_is_charged_as_its_size_says():
    session = opened(frame(), budget=Budget(1, "1e-6"))
    price = session.spine.filter.price
    sizes = [
        ({"rho": "0.001"}, ZeroConcentrated("0.001")),
        ({"epsilon": "0.05"}, Pure("0.05")),
        (
            {"epsilon": "0.1", "delta": "1e-7"},
            ZeroConcentrated(zero_concentrated_rho_down(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))),
        ),
    ]
    paid = spent(session)
    for size, event in sizes:
        session.ask(PrincipalComponents(RANGES, **size))
        assert spent(session) == paid + price(event).hit
        paid = spent(session)


def test_few_rows_have_no_interval():
    found = opened(frame(5), budget=Budget(1, "1e-6"), unsafe_noise=Seeded(1)).ask(
        PrincipalComponents(RANGES, rho="0.001")
    )
    assert found.within() is None
    assert found.angle() is None
    assert found.rows()[0]["low"] is None
    assert found.rows_counted >= 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(PrincipalComponents({"nothere": (0, 1)}, rho="0.1")),
        lambda s: s.ask(PrincipalComponents({}, rho="0.1")),
        lambda s: s.ask(PrincipalComponents({"a": (1, 0)}, rho="0.1")),
        lambda s: s.ask(PrincipalComponents({"a": 1}, rho="0.1")),
        lambda s: s.ask(PrincipalComponents(RANGES)),
        lambda s: s.ask(PrincipalComponents(RANGES, rho=1, epsilon=1)),
        lambda s: s.ask(PrincipalComponents(RANGES, rho=1, delta="1e-6")),
        lambda s: s.ask(PrincipalComponents(RANGES, rho=0)),
        lambda s: s.ask(PrincipalComponents(RANGES, rho=1, fineness=5000)),
        lambda s: s.ask(PrincipalComponents(RANGES, rho=1, max_rows_per_unit=2)),
    ],
)
def test_bad_questions_cost_nothing(ask):
    session = opened(frame(20))
    with pytest.raises((InvalidParameter, InvalidQuery)):
        ask(session)
    assert session.history == []


def test_values_without_an_end_are_clipped():
    data = pd.DataFrame({"a": [np.inf, -np.inf, 1e308, -1e308, 5e-324, np.nan], "b": 1.0, "c": 2.0})
    table = RowTable.open(data, neighbor_relation=NeighborRelation("replace", None))
    found = table.prepare(second_moments({"a": (1, 1 + 2.0**-50), "b": (-1, 1)}, steps=3)).run().tolist()
    assert found == [5, -3, 15, 45, -9, 45]


def test_texts_have_no_moments():
    session = opened(frame(20).assign(a="x"))
    with pytest.raises(InvalidQuery, match="columns of numbers"):
        session.ask(PrincipalComponents(RANGES, rho="0.1"))


@pytest.mark.parametrize("size", [{"rho": "0.5"}, {"epsilon": 3}])
def test_a_quote_tells_how_far_the_covariance_is_off(opened, size):
    """Never less than what the answer tells of many rows."""
    options = {"privacy_unit": None, "neighbors": "replace"}
    session = opened(frame(3000), **options, budget=Budget(epsilon=10**9, delta=1e-6), unsafe_noise=Seeded(1))
    asked = PrincipalComponents(RANGES, **size)
    told = session.quote(asked).interval
    most = float(told.split("about ")[1].split("/n")[0])
    answer = session.ask(asked)
    assert answer.within() * (answer.rows_counted - answer.made.reaches("0.05")[0]) < 1.1 * most
