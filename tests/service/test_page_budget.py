"""The page of the budget: what is left and for how long, by kind and analyst, without what others asked."""

from datetime import UTC, datetime, timedelta

import pytest

from chary import Budget, count
from chary.amounts import Accounts, Amount
from chary.calls import Release, ThresholdTest
from chary.service.core.datasets import Charge
from chary.service.http.admission import Asking
from chary.service.pages.timelines import OTHERS, BudgetSoFar, budget_so_far, budget_spec
from tests.service.kit import serve_visits, token_of

PLACE = "/page/datasets/{}/budget"
FIRST = datetime(2026, 3, 2, 8, tzinfo=UTC)


@pytest.fixture(scope="module")
def asked(service):
    """Two analysts who asked: a release and a miss of alice's, a release of bob's."""
    serve_visits(service, "spent", budget=Budget(epsilon=1, delta=1e-6))
    served = service.datasets["spent"]
    for analyst, epsilon in (("alice", "0.1"), ("bob", "0.2")):
        served.asked_by(analyst).ask(Release(count(), epsilon=epsilon))
    served.asked_by("alice").ask(ThresholdTest(count(), above=10**6, hits=20))
    return served


def so_far(service, served, analyst="alice", roles=("analyst",)):
    return budget_so_far(Asking(service.tokens.recognise(token_of(service, analyst, roles)), served))


def charged(days, share=0.1, kind="Release"):
    return Charge((FIRST + timedelta(days=days)).isoformat(), "alice", kind, 0, 0, Amount(round(share * 10**9)), 0)


def held(spent, charges):
    return BudgetSoFar(spent, 1 - spent, charges, Accounts(Amount(10**9), Amount(0)))


def test_portions_add_up_to_what_is_spent(service, asked):
    found = so_far(service, asked, "carol", ["custodian"])
    assert {(each.name, each.calls) for each in found.by_kind} == {("Release", 2), ("Threshold test", 1)}
    assert [(each.name, each.calls) for each in found.by_analyst] == [("bob", 1), ("alice", 2)]
    for portions in (found.by_kind, found.by_analyst):
        assert sum(each.share for each in portions) == pytest.approx(found.spent)
    assert found.spent == pytest.approx(asked.session.spent.share)


def test_of_others_only_what_they_took_is_shown(service, asked):
    found = so_far(service, asked)
    assert [(each.name, each.calls, each.tests) for each in found.by_analyst] == [(OTHERS, 1, 0), ("alice", 2, 1)]
    assert OTHERS in {each.name for each in found.by_kind}
    assert sum(each.share for each in found.by_kind) == pytest.approx(found.spent)


def test_what_a_kind_took_of_the_delta_counts(service):
    budget = Budget(epsilon=1, delta="1e-6")
    serve_visits(service, "aside", budget=budget, filter="pure", delta_reserve="4e-7")
    served = service.datasets["aside"]
    served.asked_by("alice").ask(Release(count(), epsilon="0.01", delta="1e-7"))
    found = so_far(service, served)
    assert (found.spent, found.left) == (0.25, 0.75)
    assert [(each.name, each.share) for each in found.by_kind] == [("Release", 0.25)]
    assert [row["taken"] for row in found.steps(FIRST)] == [25.0, 25.0]


def test_the_page_tells_it_to_each_role(service, asked, arriving):
    alice, carol = (arriving(*who).get(PLACE.format("spent")).text for who in (("alice",), ("carol", ["custodian"])))
    assert "bob" in carol
    assert "bob" not in alice
    assert "too early to tell" in alice
    assert "picture.svg" in alice
    reader = arriving("rae", ["reader"])
    assert reader.get(PLACE.format("spent")).status_code == 200
    drawn = reader.get(f"{PLACE.format('spent')}/picture.svg", params={"dark": True})
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "alice" not in drawn.text


def test_an_untouched_budget_lasts_for_ever(service, arriving):
    serve_visits(service, "untouched")
    text = arriving("ann").get(PLACE.format("untouched")).text
    assert "forever" in text
    assert "Nothing was charged yet" in text
    assert "picture.svg" not in text


def test_how_long_it_lasts_is_told_from_the_third_charge_on():
    charges = tuple(charged(day) for day in (0, 5, 10))
    found = held(0.3, charges)
    assert found.days_left(FIRST + timedelta(days=10)) == pytest.approx(0.7 / 0.03)
    assert held(0.2, charges[:2]).days_left(FIRST + timedelta(days=10)) is None
    assert found.days_left(FIRST + timedelta(minutes=5)) is None
    assert held(0.0, (charged(0, 0.0),)).days_left(FIRST + timedelta(days=9)) is None


def test_steps_only_rise_and_end_now_at_what_is_spent():
    charges = tuple(charged(day, 1 / 2_000, ("Release", "ThresholdTest")[day % 2]) for day in range(1_000))
    until = FIRST + timedelta(days=1_200)
    rows = held(0.5, charges).steps(until)
    assert len(rows) < 1_000
    for kind in ("Release", "ThresholdTest"):
        taken = [row["taken"] for row in rows if row["kind"] == kind]
        assert taken == sorted(taken)
        assert taken[-1] == pytest.approx(25)
    assert rows[-1]["time"] == until.isoformat()
    assert budget_spec(held(0.5, charges), until)["data"]["values"] == rows
