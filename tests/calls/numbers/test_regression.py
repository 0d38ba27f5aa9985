"""Linear regression as a call: exact without noise, its errors said apart, refitted for nothing, refused where open."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, InvalidParameter, InvalidQuery
from chary.accounting import Pure, ZeroConcentrated, zero_concentrated_rho_down
from chary.calls import LinearRegression, Regression
from chary.data import NeighborRelation, RowTable
from chary.mechanisms.workloads import MomentNoise
from chary.noise import Seeded
from tests.session.kit import PLENTY, spent

RANGES = {"age": (0, 90), "dose": (0, 8), "cost": (-100, 300)}
ROOM = {"budget": Budget(10**9, "0.1"), "delta_reserve": "0.05"}
CALL = LinearRegression("cost", RANGES, rho="0.5")
TIMES = 200
PANEL = Path(chary.__file__).parent / "demo" / "randhie_stream.csv.gz"


def frame(rows=2000, seed=4):
    draw = np.random.default_rng(seed)
    age, dose = draw.uniform(10, 80, rows), draw.integers(0, 9, rows).astype(float)
    cost = 20 + 1.5 * age - 6 * dose + draw.normal(0, 15, rows)
    return pd.DataFrame({"age": age, "dose": dose, "cost": cost})


def ordinary(data, columns=("age", "dose"), response="cost"):
    """Coefficients and their standard errors, by the textbook."""
    x, y = np.column_stack([np.ones(len(data)), data[list(columns)]]), data[response].to_numpy()
    found, left, *_ = np.linalg.lstsq(x, y, rcond=None)
    return found, np.sqrt(left[0] / (len(x) - len(found)) * np.diag(np.linalg.inv(x.T @ x)))


def opened(data, **options):
    given = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "unsafe_noise": Seeded(2)}
    return chary.open(data, **(given | ROOM | options))


def table(data):
    return RowTable.open(data, neighbor_relation=NeighborRelation("replace", None))


@pytest.mark.parametrize("size", [{"rho": 10**6}, {"epsilon": PLENTY}])
def test_without_noise_it_is_the_exact_analysis(size):
    answer = opened(frame(), budget=Budget(10**12, "0.1")).ask(LinearRegression("cost", RANGES, **size))
    truth, deviations = ordinary(frame())
    assert list(answer.value) == ["intercept", "age", "dose"]
    assert list(answer.value.values()) == pytest.approx(truth, rel=2e-2)
    assert [row["sampling_error"] for row in answer] == pytest.approx(deviations, rel=2e-2)
    assert all(row["low"] <= true <= row["high"] for row, true in zip(answer, truth, strict=True))
    assert answer.residual_error == pytest.approx(15, rel=0.05)
    assert 0.8 < answer.explained < 0.9
    assert answer["age"]["noise_error"] < answer["age"]["sampling_error"]


def test_other_columns_and_confidences_are_free():
    session = opened(frame())
    answer = session.ask(CALL)
    paid = spent(session)
    alone = answer.refit(on=["age"], confidence="0.99")
    truth, _ = ordinary(frame(), ["age"])
    assert [row["low"] <= true <= row["high"] for row, true in zip(alone, truth, strict=True)] == [True, True]
    turned = answer.refit(response="age", on=["dose", "cost"])
    truth, _ = ordinary(frame(), ["dose", "cost"], "age")
    assert turned.response == "age"
    assert turned["cost"]["low"] <= truth[2] <= turned["cost"]["high"]
    wider = answer.refit(confidence="0.999")
    assert all(one["low"] > other["low"] for one, other in zip(answer, wider, strict=True))
    assert wider.value == answer.value
    assert "99.9 %" in wider.interval_says
    assert spent(session) == paid
    assert alone.charged == answer.charged
    assert answer.refit() == answer


@pytest.mark.parametrize("wrong", [{"on": ["cost"]}, {"on": ["age", "age"]}, {"on": ["x"]}, {"response": "x"}])
def test_what_has_no_moments_cannot_be_refitted(wrong):
    with pytest.raises(InvalidParameter, match="each once, among age, dose, cost"):
        opened(frame(50)).ask(CALL).refit(**wrong)


def test_it_is_charged_as_its_size_says():
    session = opened(frame(50), budget=Budget(1, "1e-4"), delta_reserve="1e-5")
    price, paid = session.spine.filter.price, spent(session)
    rho = zero_concentrated_rho_down(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))
    for size, event in [
        ({"rho": "0.001"}, ZeroConcentrated("0.001")),
        ({"epsilon": "0.05"}, Pure("0.05")),
        ({"epsilon": "0.1", "delta": "1e-7"}, ZeroConcentrated(rho)),
    ]:
        session.ask(LinearRegression("cost", RANGES, **size))
        assert spent(session) == paid + price(event).hit
        paid = spent(session)


def test_where_noise_leaves_all_open_nothing_is_told():
    answer = opened(frame(20)).ask(LinearRegression("cost", RANGES, rho="0.001"))
    assert set(answer.value.values()) == {None}
    assert {value for row in answer.rows() for name, value in row.items() if name != "term"} == {None}
    assert "may be anything" in answer.interval_says
    assert (answer.residual_error, answer.explained) == (None, None)


def test_a_column_that_follows_from_another_is_told():
    data = frame().assign(dose=lambda rows: rows["age"] / 10)
    answer = opened(data).ask(LinearRegression("cost", RANGES, rho="0.5"))
    assert answer.value["age"] is None
    assert answer.refit(on=["age"]).value["age"] is not None


def regressions(data, ranges, response, size):
    """Regressions of the same exact sums, each with noise of its own; and the one without."""
    call = LinearRegression(response, ranges, **size)
    query, exact = call.query(), table(data).prepare(call.query()).run()
    made = MomentNoise(len(ranges), query.squared, query.most, 1, True, **size)
    quiet = replace(made, **dict.fromkeys(size, 10**9))

    def of(sums, noise):
        return Regression.of(1, [int(each) for each in sums], query, noise, response, call.regressors, "0.95")

    source = Seeded(5)
    return [of(made.apply(exact, source), made) for _ in range(TIMES)], of(exact, quiet)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [{"rho": "0.01"}, {"rho": "0.2"}, {"epsilon": 2}])
def test_intervals_cover_what_the_panel_says(size):
    """The built-in rows: visits by age, chronic diseases and coinsurance."""
    ranges = {"xage": (0, 65), "disea": (0, 60), "coins": (0, 100), "mdvis": (0, 20)}
    found, truth = regressions(pd.read_csv(PANEL), ranges, "mdvis", size)
    told = [answer for answer in found if answer.value["xage"] is not None]
    assert len(told) > 0.9 * TIMES
    for term, value in truth.value.items():
        missed = sum(not row[term]["low"] <= value <= row[term]["high"] for row in told)
        assert missed <= stats.binom.isf(1e-6, TIMES, 0.05)
        # By noise alone they are about normal: two of its deviations miss about one in twenty.
        near = sum(abs(row[term]["value"] - value) > 2 * row[term]["noise_error"] for row in told)
        assert stats.binom.isf(1 - 1e-6, TIMES, 0.02) <= near <= stats.binom.isf(1e-6, TIMES, 0.12)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: LinearRegression("cost", {"age": (0, 90)}, rho="0.1"),
        lambda: LinearRegression("cost", {"cost": (0, 90)}, rho="0.1"),
        lambda: LinearRegression("cost", {"cost": (0, 90), "age": (90, 0)}, rho="0.1"),
        lambda: LinearRegression("cost", RANGES),
        lambda: LinearRegression("cost", RANGES, rho=1, epsilon=1),
        lambda: LinearRegression("cost", RANGES, rho=1, delta="1e-6"),
        lambda: LinearRegression("cost", RANGES, rho=1, fineness=5000),
        lambda: LinearRegression("cost", RANGES, rho=1, max_rows_per_unit=2),
        lambda: LinearRegression("cost", RANGES | {"no": (0, 1)}, rho=1),
    ],
)
def test_bad_questions_cost_nothing(ask):
    session = opened(frame(20))
    with pytest.raises((InvalidParameter, InvalidQuery)):
        session.ask(ask())
    assert session.history == []


@pytest.mark.parametrize("size", [{"rho": "0.5"}, {"epsilon": 3}])
def test_a_quote_tells_the_error_of_noise(size):
    """Of a column that nothing else explains, and a coefficient near 0."""
    data = frame(5000).assign(cost=lambda rows: rows["cost"].sample(frac=1, random_state=1).to_numpy())
    session = opened(data)
    asked = LinearRegression("cost", RANGES, **size)
    told = float(session.quote(asked).interval.split("about ")[1].split("/(n v)")[0])
    variance = (data["dose"] / 4).var()
    error = session.ask(asked)["dose"]["noise_error"] * 4 / 200
    assert error == pytest.approx(told / 5000 / variance, rel=0.2)
