"""Several targets side by side: what is charged is the least that any of them would have cost."""

import json
import math

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter, NotPriced
from chary import upcasting as race_repair
from chary.accounting import BestOf, Targeted
from chary.amounts import Amount
from chary.calls import MultiTarget
from chary.calls import compute as racing
from chary.session import opening
from tests.adversary.races import counted_twice
from tests.conformance.samples import fixed
from tests.session.kit import spent


@pytest.fixture
def session(opened, place):
    return opened(grain="0.02", ledger=place)


def test_opening_costs_the_logarithm_once(session):
    session.start(MultiTarget(["a", "b", "c"]))
    assert spent(session) == session.spine.filter.price(BestOf(3)).hit
    unit = session.spine.filter.steps
    assert spent(session).main == pytest.approx(math.log(3) * unit)


def test_what_is_charged_is_the_least_hit_target_of_mixed_sizes(session):
    race = session.start(MultiTarget(["a", "b"]))
    opening = spent(session).main
    counters = {"a": 0, "b": 0}
    script = [(1, 2, "0.01"), (1, 1, "0.02"), (2, 1, "0.005"), (2, 2, "0.01"), (1, 2, "0.02"), (3, 3, "0.01")]
    for a, b, epsilon in script:
        price = session.spine.filter.price(Targeted(epsilon)).hit.main
        before = min(counters.values())
        found = race.ask(fixed(1, epsilon), priors={"a": a, "b": b})
        counters["a"] += price * (a != 1)
        counters["b"] += price * (b != 1)
        assert found.hits == tuple(name for name, prior in (("a", a), ("b", b)) if prior != 1)
        assert found.rose == (min(counters.values()) > before)
        assert spent(session).main == opening + min(counters.values())


@pytest.mark.parametrize("priors", [{"a": 1, "b": 2}, {"a": None, "b": None}])
def test_a_failed_run_hits_every_target(session, priors):
    """A failure is told, so it is another outcome than None."""
    race = session.start(MultiTarget(["a", "b"]))
    before = spent(session)
    with pytest.raises(AlgorithmFailed):
        race.ask(fixed(math.nan), priors=priors)
    assert spent(session) - before == session.spine.filter.price(Targeted("0.01")).hit


def test_a_call_too_large_for_a_hit_price_is_paid_in_full(opened):
    session = opened(budget=Budget(epsilon=3, delta=1e-6), grain="0.05")
    race = session.start(MultiTarget(["a", "b"]))
    before = spent(session)
    price = session.spine.filter.price(Targeted("0.4"))
    assert not price.free_miss
    race.ask(fixed(1, "0.4"), priors={"a": 1, "b": 1})
    assert spent(session) - before == price.hit


MIXED = {"budget": Budget(epsilon=4, delta=1e-6), "grain": "0.1"}
# Who is hit, and by a call of which size; the large one has no price per hit at the order of this budget.
HIT_A_THEN_B_IN_FULL_THEN_B = [("0.08", "a"), ("0.5", "b"), ("0.08", "b")]


def ask(race, script):
    for epsilon, hit in script:
        race.ask(fixed(1, epsilon), priors={name: 2 if name in hit else 1 for name in race.state.targets})


def prices(session):
    return [session.spine.filter.price(Targeted(epsilon)).hit.main for epsilon in ("0.08", "0.5")]


def test_a_call_paid_in_full_leaves_the_counters_alone(opened):
    session = opened(**MIXED)
    race = session.start(MultiTarget(["a", "b"]))
    before, (small, large) = spent(session).main, prices(session)
    ask(race, HIT_A_THEN_B_IN_FULL_THEN_B)
    assert spent(session).main - before == large + small
    assert json.loads(session.spine.ledger.secret(race.call)) == [small, small]
    told = [entry.answer["charged"] for entry in session.history[1:]]
    assert told == [0, large, small]


@pytest.fixture
def before_the_repair(opened, tmp_path, monkeypatch):
    """A ledger in which calls paid in full were counted twice, with a race that was asked so."""

    def asked(script, targets=("a", "b")):
        place = tmp_path / "visits.ledger"
        with monkeypatch.context() as patched:
            patched.setattr(racing, "risen", counted_twice)
            session = opened(**MIXED, ledger=place)
            race = session.start(MultiTarget(list(targets)))
            ask(race, script)
            session.close()
        return place, race.call

    return asked


def test_a_race_counted_twice_is_set_right_and_paid_when_it_is_opened(opened, before_the_repair):
    place, number = before_the_repair(HIT_A_THEN_B_IN_FULL_THEN_B)
    session = opened(**MIXED, ledger=place)
    small, large = prices(session)
    opening = session.spine.filter.price(BestOf(2)).hit.main
    assert spent(session).main == opening + large + small
    assert json.loads(session.spine.ledger.secret(number)) == [small, small]
    last = session.history[-1]
    assert (last.kind, last.analyst, last.question) == ("best_of_repair", "chary", {"best_of": number})
    ask(session.resume(number), [("0.08", "a"), ("0.5", "ab"), ("0.08", "b")])
    assert spent(session).main == opening + 2 * large + 2 * small
    assert session.spine.ledger.verify().ok


def test_a_race_is_set_right_once(opened, before_the_repair):
    place, _ = before_the_repair(HIT_A_THEN_B_IN_FULL_THEN_B)
    opened(**MIXED, ledger=place).close()
    again = opened(**MIXED, ledger=place)
    assert [entry.kind for entry in again.history].count("best_of_repair") == 1


def test_counters_are_set_right_where_nothing_is_missing(opened, before_the_repair):
    place, number = before_the_repair([("0.08", "a"), ("0.5", "b")])
    session = opened(**MIXED, ledger=place)
    small, _ = prices(session)
    assert json.loads(session.spine.ledger.secret(number)) == [small, 0]
    assert session.history[-1].share == 0
    before = spent(session).main
    ask(session.resume(number), [("0.08", "b")])
    assert spent(session).main - before == small


def test_a_race_in_order_is_left_alone(opened, tmp_path):
    for _ in range(2):
        session = opened(**MIXED, ledger=tmp_path / "visits.ledger")
        if not session.history:
            ask(
                session.start(MultiTarget(["a", "b", "c"])),
                [("0.08", "a"), ("0.5", "ab"), ("0.08", "bc"), ("0.08", "c")],
            )
        assert [entry.kind for entry in session.history] == ["best_of"] + 4 * ["best_of_call"]
        session.close()


def test_a_race_that_was_opened_since_the_states_were_looked_at_is_in_order(opened):
    session = opened(**MIXED)
    ask(session.start(MultiTarget(["a", "b"])), [("0.08", "a")])
    spine = session.spine
    assert race_repair._due(spine.ledger, spine.filter, spine.dataset, {}) == {}


def test_what_is_missing_is_charged_as_far_as_the_budget_goes(opened, before_the_repair):
    place, _ = before_the_repair(9 * [("0.08", "a")] + 3 * [("0.5", "b")] + 9 * [("0.08", "b")])
    session = opened(**MIXED, ledger=place)
    assert session.remaining.amount.main == 0


def test_a_race_asked_between_looking_and_repairing_is_looked_at_again(opened, before_the_repair, monkeypatch):
    place, number = before_the_repair(HIT_A_THEN_B_IN_FULL_THEN_B)
    look, late = race_repair._due, []

    def asked_meanwhile(*given):
        found = look(*given)
        if not late:
            late.append(asked_by_an_earlier_version(opened, place, monkeypatch, number))
        return found

    monkeypatch.setattr(race_repair, "_due", asked_meanwhile)
    session = opened(**MIXED, ledger=place)
    small, large = prices(session)
    assert json.loads(session.spine.ledger.secret(number)) == [2 * small, small]
    assert spent(session).main == session.spine.filter.price(BestOf(2)).hit.main + large + small
    assert [entry.state for entry in session.history if entry.kind == "best_of_repair"] == ["voided", "settled"]


def asked_by_an_earlier_version(opened, place, monkeypatch, number):
    """One more hit of the first target by a process of the earlier version."""
    with monkeypatch.context() as patched:
        patched.setattr(opening, "repair_races", lambda *given: None)
        session = opened(**MIXED, ledger=place)
        ask(session.resume(number), [("0.08", "a")])
        session.close()


def test_the_delta_of_an_algorithm_is_paid_hit_or_miss(opened):
    session = opened(grain="0.02", delta_reserve="5e-7")
    race = session.start(MultiTarget(["a", "b"]))
    algorithm = Algorithm("rough", lambda rows, source: 1, epsilon="0.01", delta="1e-9")
    price = session.spine.filter.price(Targeted("0.01", None, "1e-9"))
    before = spent(session)
    for paid, priors in enumerate(({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}), 1):
        race.ask(algorithm, priors=priors)
        assert price.hit.delta * paid == (spent(session) - before).delta > 0
    assert (spent(session) - before).main == price.hit.main


@pytest.mark.parametrize("targets", [[], ["a"], ["a", "a"], ["a", ""], ["a", 3]])
def test_at_least_two_named_targets(session, targets):
    with pytest.raises(InvalidParameter):
        session.start(MultiTarget(targets))


@pytest.mark.parametrize("priors", [{}, {"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1}])
def test_a_prior_for_each_target(session, priors):
    race = session.start(MultiTarget(["a", "b"]))
    with pytest.raises(InvalidParameter):
        race.ask(fixed(1), priors=priors)
    assert len(session.history) == 1


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=1)}, {"filter": "exact", "grain": "0.02"}])
def test_other_filters_have_no_price_for_it(opened, options):
    session = opened(**options)
    with pytest.raises(NotPriced):
        session.start(MultiTarget(["a", "b"]))
    assert spent(session) == Amount(0)
