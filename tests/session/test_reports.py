"""Balances, history, statement and what plain composition would have cost."""

import json
import math

import pytest

import chary
from chary import Budget, count
from chary.calls import Release, ThresholdTest
from chary.session import plain_composition
from tests.session.kit import CLINICS, spent

NEVER, SURE = 10**9, -(10**9)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", ["patient", None])
def test_a_statement_names_unit_relation_and_budget(opened, unit, neighbors):
    session = opened(privacy_unit=unit, neighbors=neighbors)
    session.release(count(), epsilon="0.1")
    session.test(count(), above=SURE, epsilon="0.02")
    said = session.statement()
    for told in (f"one {unit or 'row'}", "'data'", "(1, 1e-06)-differentially private", "a Renyi filter", "2 calls"):
        assert told in said
    assert {"add_remove": "added or removed", "replace": "replaced"}[neighbors] in said
    assert f"{session.spent} of this budget" in said


def test_a_miss_is_charged_nothing_but_no_guarantee_is_claimed_for_it(opened):
    """A filter is no odometer: 99 people or 100, a test for 100 that misses is likelier under one of them."""
    session = opened()
    session.test(count(), above=NEVER, epsilon="0.02")
    assert session.spent.share == 0
    assert "(0, " not in session.statement()
    assert "e^0 " not in session.statement()


@pytest.mark.parametrize(
    "budget", [Budget(epsilon="1e-5", delta="1e-12"), Budget(epsilon=1, delta="1e-30"), Budget(epsilon=1)]
)
def test_a_small_number_is_never_shown_as_zero(opened, budget):
    session = opened(budget=budget, filter="pure")
    session.release(count(), epsilon="1e-9")
    shown = (
        session.statement() + str(session.spent) + str(session.quote(Release(count(), epsilon="1e-9"))) + repr(session)
    )
    for zero in ("0.0 ", "0.00", "0.000", "(0, ", "delta 0,"):
        assert zero not in shown
    assert str(session.spent) not in ("0 %", "0.0 %")


def test_what_is_spent_is_told_in_the_unit_of_the_filter(opened):
    session = opened()
    session.release(count(), epsilon="0.1")
    assert session.spent.share == spent(session).main / session.spine.filter.capacity.main
    assert session.spent.charged == pytest.approx(spent(session).main * 10**-15)
    assert session.spent.unit.startswith("log-moment at order")
    assert session.remaining.share == pytest.approx(1 - session.spent.share)
    assert session.spent.as_dict()["charged"] == session.spent.charged


def test_spending_everything_is_the_whole_budget_and_no_more(opened):
    for options in ({"filter": "renyi"}, {"filter": "exact"}, {"filter": "pure"}):
        session = opened(grain="0.02", **options)
        while session.quote(ThresholdTest(count(), above=SURE, epsilon="0.02")).fits:
            session.test(count(), above=SURE, epsilon="0.02")
        assert 0.9 < session.spent.share <= 1


def ask_a_little(session):
    session.release(count(), epsilon="0.1")
    session.release(count(), rho="0.0005")
    session.test(count(), above=NEVER, epsilon="0.02")
    session.test(count(), above=SURE, epsilon="0.02")
    held = session.release_if(count(), above=NEVER, epsilon="0.01")
    held.widen(above=NEVER - 1)
    held.widen(above=SURE)
    session.release_if(count().by("clinic", CLINICS, max_groups_per_unit=2), above=NEVER, epsilon="0.02")
    session.release_if(count().by("clinic", CLINICS), above=SURE, epsilon="0.02")


def test_history_tells_everything_in_order(opened, place):
    session = opened(ledger=place)
    ask_a_little(session)
    kinds = [entry.kind for entry in session.history]
    assert kinds == ["release", "release", "test", "test", "release_if", "revise", "revise", "watch", "watch"]
    assert [entry.hits for entry in session.history] == [0, 0, 0, 1, 0, 0, 1, 0, 3]
    assert [entry.tests for entry in session.history] == [0, 0, 1, 1, 1, 1, 1, 3, 3]
    assert {(entry.state, entry.analyst) for entry in session.history} == {("settled", "analyst")}
    assert math.fsum(entry.share for entry in session.history) == pytest.approx(session.spent.share, rel=1e-12)
    calls = [entry.call for entry in session.history]
    assert calls == sorted(set(calls))
    assert json.dumps([entry.question for entry in session.history])
    assert session.history[3].answer == {"hit": True}
    assert session.history[2].question["above"] == str(NEVER)


def test_plain_composition_charges_every_test(opened):
    session = opened()
    assert (plain_composition(session).epsilon, plain_composition(session).calls) == (0, 0)
    ask_a_little(session)
    sizes = [0.1, 0.02, 0.02, 0.01, *[0.02] * 2, *[0.02] * 3]
    rho = 0.0005 + sum(size**2 / 2 for size in sizes)
    plain = plain_composition(session)
    assert plain.calls == 1 + len(sizes)
    assert plain.epsilon == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)), rel=1e-12)


def test_plain_composition_takes_the_better_way(opened):
    session = opened()
    for _ in range(3):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert plain_composition(session).epsilon == pytest.approx(0.06)
    pure = opened(budget=Budget(epsilon=1))
    pure.test(count(), above=NEVER, epsilon="0.2")
    pure.release(chary.sum("cost", bounds=(0, 5), max_rows_per_unit=1), epsilon="0.3")
    assert plain_composition(pure).epsilon == pytest.approx(0.5)
    assert plain_composition(pure).calls == 2


def test_plain_composition_leaves_out_what_was_voided(opened):
    stop = []

    def on_step(step):
        if step == "reserved" and stop:
            raise RuntimeError("stopped")

    session = opened(on_step=on_step)
    session.test(count(), above=NEVER, epsilon="0.02")
    stop.append(True)
    with pytest.raises(RuntimeError):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert plain_composition(session).calls == 1


def test_the_ledger_verifies_after_everything(opened, place):
    session = opened(ledger=place)
    ask_a_little(session)
    verdict = session.spine.ledger.verify()
    assert verdict.ok, verdict.problems
