"""Several targets side by side: what is charged is the least that any of them would have cost."""

import json
import math

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter, NoPrice, UnknownHeld
from chary.accounting import BestOf, Targeted
from chary.amounts import Amount
from tests.session.kit import spent


def fixed(value, epsilon="0.01"):
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon)


@pytest.fixture
def session(opened, place):
    return opened(grain="0.02", ledger=place)


def test_opening_costs_the_logarithm_once(session):
    session.best_of(["a", "b", "c"])
    assert spent(session) == session.spine.filter.price(BestOf(3)).hit
    unit = session.spine.filter.steps
    assert spent(session).main == pytest.approx(math.log(3) * unit)


def test_what_is_charged_is_the_least_hit_target_of_mixed_sizes(session):
    race = session.best_of(["a", "b"])
    opening = spent(session).main
    counters = {"a": 0, "b": 0}
    script = [(1, 2, "0.01"), (1, 1, "0.02"), (2, 1, "0.005"), (2, 2, "0.01"), (1, 2, "0.02"), (3, 3, "0.01")]
    for a, b, epsilon in script:
        price = session.spine.filter.price(Targeted(epsilon)).hit.main
        before = min(counters.values())
        found = race.call(fixed(1, epsilon), priors={"a": a, "b": b})
        counters["a"] += price * (a != 1)
        counters["b"] += price * (b != 1)
        assert found.hits == tuple(name for name, prior in (("a", a), ("b", b)) if prior != 1)
        assert found.charged == (min(counters.values()) > before)
        assert spent(session).main == opening + min(counters.values())


def test_it_goes_on_after_a_restart(opened, tmp_path):
    place = tmp_path / "visits.ledger"
    first = opened(grain="0.02", ledger=place)
    race = first.best_of(["a", "b"])
    race.call(fixed(1), priors={"a": 2, "b": 1})
    first.close()
    again = opened(grain="0.02", ledger=place)
    same = again.best_of(call=race.number)
    assert same.targets == ("a", "b")
    before = spent(again)
    assert same.call(fixed(1), priors={"a": 1, "b": 2}).charged
    assert spent(again) - before == again.spine.filter.price(Targeted("0.01")).hit


def test_calls_at_the_same_time_do_not_count_from_the_same_counters(opened, place):
    """Between the run and the settlement of one call another settles; the first is run again on the new counters."""
    armed = []

    def on_step(step):
        if step == "ran" and armed:
            armed.pop()
            race.call(fixed(1), priors={"a": 2, "b": 1})

    session = opened(grain="0.02", ledger=place, on_step=on_step)
    race = session.best_of(["a", "b"])
    opening = spent(session)
    runs = []
    counted = Algorithm("counted", lambda rows, source: runs.append(1) or 1, epsilon="0.01")
    armed.append(1)
    assert race.call(counted, priors={"a": 1, "b": 2}).charged
    assert len(runs) == 2
    assert spent(session) - opening == session.spine.filter.price(Targeted("0.01")).hit
    assert (
        json.loads(session.spine.ledger.secret(race.number))
        == [session.spine.filter.price(Targeted("0.01")).hit.main] * 2
    )


def test_a_failed_run_hits_every_target(session):
    race = session.best_of(["a", "b"])
    before = spent(session)
    with pytest.raises(AlgorithmFailed):
        race.call(fixed(math.nan), priors={"a": 1, "b": 2})
    assert spent(session) - before == session.spine.filter.price(Targeted("0.01")).hit


def test_a_call_too_large_for_a_hit_price_is_paid_in_full(opened):
    session = opened(budget=Budget(epsilon=3, delta=1e-6), grain="0.05")
    race = session.best_of(["a", "b"])
    before = spent(session)
    price = session.spine.filter.price(Targeted("0.4"))
    assert not price.free_miss
    race.call(fixed(1, "0.4"), priors={"a": 1, "b": 1})
    assert spent(session) - before == price.hit


@pytest.mark.parametrize("targets", [[], ["a"], ["a", "a"], ["a", ""], ["a", 3]])
def test_at_least_two_named_targets(session, targets):
    with pytest.raises(InvalidParameter):
        session.best_of(targets)


@pytest.mark.parametrize("priors", [{}, {"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1}])
def test_a_prior_for_each_target(session, priors):
    race = session.best_of(["a", "b"])
    with pytest.raises(InvalidParameter):
        race.call(fixed(1), priors=priors)
    assert len(session.history) == 1


def test_an_unknown_opening(session):
    session.call(fixed(1))
    for number in (1, session.history[0].call, 99, "x"):
        with pytest.raises(UnknownHeld):
            session.best_of(call=number)


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=1)}, {"filter": "exact", "grain": "0.02"}])
def test_other_filters_have_no_price_for_it(opened, options):
    session = opened(**options)
    with pytest.raises(NoPrice):
        session.best_of(["a", "b"])
    assert spent(session) == Amount(0)


def test_an_interrupted_opening_holds_nothing(opened):
    def stop(step):
        if step == "ran":
            raise KeyboardInterrupt

    session = opened(grain="0.02", on_step=stop)
    with pytest.raises(KeyboardInterrupt):
        session.best_of(["a", "b"])
    number = session.history[0].call
    with pytest.raises(UnknownHeld):
        session.best_of(call=number).call(fixed(1), priors={"a": 1, "b": 1})
