"""Algorithms that say their rho: what a call is charged, and where a rho is refused."""

import math

import numpy as np
import pytest

import chary
from chary import Algorithm, Budget, InvalidParameter, NotPriced, RequestConflict, count
from chary.accounting import Approximate, Pure, ZeroConcentrated
from chary.amounts import Amount
from chary.calls import Boundary, MultiTarget, OnChange, Rerun, RunAlgorithm, Select, TopK
from chary.growth import AlgorithmBox
from tests.session.kit import USUAL, spent, visits

REPLACED = {"privacy_unit": None, "neighbors": "replace"}


def told(rho="0.001", **given):
    return Algorithm("told", lambda rows, source: 7, rho=rho, **given)


@pytest.fixture
def session():
    with chary.open(visits(), **REPLACED, budget=USUAL, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize("calls", [1, 3, 10])
def test_calls_are_charged_like_as_much_noise_of_that_rho(session, calls):
    """Also in the session's books of plain composition, and with no delta set aside."""
    price = session.spine.filter.price
    for _ in range(calls):
        assert session.ask(RunAlgorithm(told())).value == 7
    assert spent(session) == Amount(calls * price(ZeroConcentrated("0.001")).hit.main, 0)
    at_once = price(ZeroConcentrated(calls * 0.001)).hit.main
    assert 0 <= spent(session).main - at_once <= calls
    mixed = spent(session)
    session.release(count(), rho="0.001")
    assert spent(session).main - mixed.main == price(ZeroConcentrated("0.001")).hit.main


def test_the_native_charge_is_far_below_that_of_its_epsilon_and_delta():
    given = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "delta_reserve": "5e-7"}
    shares = []
    for sizes in ({"rho": "0.001"}, {"epsilon": "0.24", "delta": "5e-7"}):
        with chary.open(visits(), budget=USUAL, **given) as opened:
            opened.ask(RunAlgorithm(Algorithm("told", lambda rows, source: 7, **sizes)))
            shares.append(opened.spent.share)
    assert shares[0] < 0.6 * shares[1]


def test_events_are_what_was_said():
    assert told().event == ZeroConcentrated("0.001")
    assert Algorithm("a", print, epsilon="0.1").event == Pure("0.1")
    assert Algorithm("a", print, "0.1", "1e-7").event == Approximate("0.1", "1e-7")
    assert told().body() == {"algorithm": "told", "parameters": {}, "rho": "1/1000"}
    assert Algorithm("a", print, "0.1").body() == {"algorithm": "a", "parameters": {}, "epsilon": "1/10"}
    assert Algorithm("a", print, "0.1", "0.5").body()["delta"] == "1/2"


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"epsilon": 1, "rho": 1},
        {"rho": 1, "delta": "1e-6"},
        {"rho": 0},
        {"rho": -1},
        {"rho": float("nan")},
        {"rho": "much"},
        {"delta": "1e-6"},
    ],
)
def test_what_is_no_size_is_refused(sizes):
    with pytest.raises(InvalidParameter):
        Algorithm("told", lambda rows, source: 7, **sizes)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(RunAlgorithm(told(), prior=7)),
        lambda s: s.ask(RunAlgorithm(told(outcomes=[6, 7]), target=[7])),
        lambda s: s.ask(RunAlgorithm(told(outcomes=[5, 6, 7]), target=[7], q="0.5")),
        lambda s: s.ask(Boundary(told(), runs=2, publish=True)),
        lambda s: s.ask(OnChange(told())),
        lambda s: s.ask(TopK([told()], k=1)),
        lambda s: s.ask(Select([told()], above=1)),
    ],
)
def test_a_rho_has_no_target(session, ask):
    with pytest.raises(InvalidParameter, match="rho"):
        ask(session)
    assert session.history == []


def test_a_race_refuses_a_rho(session):
    race = session.start(MultiTarget(["a", "b"]))
    with pytest.raises(InvalidParameter, match="rho"):
        race.ask(told(), priors={"a": 1, "b": 2})
    assert len(session.history) == 1


def test_a_target_of_every_outcome_is_paid_like_none(session):
    session.ask(RunAlgorithm(told(outcomes=[7]), target=[7]))
    assert spent(session) == session.spine.filter.price(ZeroConcentrated("0.001")).hit


def test_a_rho_needs_a_delta():
    with chary.open(visits(), **REPLACED, budget=Budget(epsilon=1), ledger=":memory:") as opened:
        with pytest.raises(NotPriced):
            opened.ask(RunAlgorithm(told()))
        assert opened.history == []


def test_another_rho_is_another_question(session):
    session.ask(RunAlgorithm(told()), request="monday")
    assert session.ask(RunAlgorithm(told()), request="monday").value == 7
    assert len(session.history) == 1
    with pytest.raises(RequestConflict):
        session.ask(RunAlgorithm(told("0.002")), request="monday")


def test_a_failing_run_is_charged(session):
    broken = Algorithm("broken", lambda rows, source: 1 // 0, rho="0.001")
    with pytest.raises(chary.AlgorithmFailed):
        session.ask(RunAlgorithm(broken))
    assert spent(session) == session.spine.filter.price(ZeroConcentrated("0.001")).hit


def test_a_schedule_by_rho_takes_an_algorithm_of_the_right_rho(session):
    def box(share):
        return AlgorithmBox(lambda epsilon: told(share * epsilon**2), law=(1, 2))

    schedule = session.start(Rerun(box(chary.numbers.exact("0.5", "share")), rho="0.001", beta="0.05"))
    assert schedule.ask().answer.value == 7
    for share, total in ((chary.numbers.exact("0.501", "share"), {"rho": "0.001"}), (1, {"epsilon": "0.01"})):
        with pytest.raises(InvalidParameter, match="not epsilon-DP"):
            session.start(Rerun(box(share), beta="0.05", **total))


@pytest.mark.parametrize("rho", [0.0002, 0.01, 0.3])
def test_no_price_of_a_hit_is_finite_for_a_rho(rho):
    """Two outcomes, the rarer one a target: as private as was said at every order, and dearer than any price."""

    order, prices = 5.0, []

    def excess(a, h, g):
        """The moment less 1, the mean of t^a - 1 - a (t - 1), in which nothing cancels."""
        logs = math.log(h / g), math.log1p(-h) - math.log1p(-g)
        return sum(
            chance * (math.expm1(a * log) - a * math.expm1(log)) for chance, log in zip((g, 1 - g), logs, strict=True)
        )

    for lead in (each * math.sqrt(rho) for each in (3, 8, 20, 30)):
        other = rho / (lead**2 * math.exp((lead + rho / 2) ** 2 / (2 * rho)) + math.exp(2 * lead))
        hit = math.exp(lead) * other
        for a in np.geomspace(1.001, min(600 / lead, math.sqrt(600 / rho)), 400):
            most = math.expm1(a * (a - 1) * rho) * (1 + 1e-9)
            assert max(excess(a, hit, other), excess(a, other, hit)) <= most
        free = -math.expm1(order * math.log1p(-hit) + (1 - order) * math.log1p(-other))
        prices.append(order * math.log(hit) + (1 - order) * math.log(other) - math.log(free))
        assert prices[-1] >= (order - 1) * lead - math.log(order) - 1e-6
    assert prices == sorted(prices)
    assert prices[-1] > 5 * ZeroConcentrated(str(rho)).log_moment_up(5)
