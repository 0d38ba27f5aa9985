"""The kinds of calls on growing tables in one session and one ledger, as an office runs them."""

import math
import warnings
from fractions import Fraction

import pytest

import chary
from chary import Algorithm, count
from chary.accounting import Targeted
from chary.calls import MWEM, PMW, ContinualCount, GrowingTests, Rerun, RunAlgorithm, SmallDatabase
from chary.errors import BudgetExceeded, InvalidParameter, NotWithheld
from chary.growth import AlgorithmBox, CountsBox
from chary.session import plain_composition
from tests.session.growing_office import (
    BETA,
    BUDGET,
    EPSILON,
    FILTERS,
    QUERIES,
    UNIVERSE,
    calls,
    exhaust,
    opening,
    people,
    told,
)
from tests.session.kit import PUBLIC

pytestmark = pytest.mark.usefixtures("any_threshold")


@pytest.fixture
def office(opened):
    """Sessions on 900 people."""
    return lambda rows=None, **options: opened(
        people(0, 900) if rows is None else rows, **({"dataset": "people", "budget": BUDGET} | PUBLIC | options)
    )


@pytest.mark.parametrize("options", FILTERS.values(), ids=FILTERS)
def test_what_was_paid_goes_on_when_the_budget_is_spent(office, options):
    session = office(**options)
    made = opening(session, {})
    made["above"].ask()
    exhaust(session)
    spent, plain = session.spent, plain_composition(session)
    session.append(people(900, 2700))
    assert told(made) == {"counts": 2, "quantiles": 2, "small": 2, "mwem": 2, "count": 2}
    assert made["rounds"].ask("ill").verified
    assert not made["weights"].ask("ward = 2").verified
    assert made["above"].ask(count(), above=-10).above
    for refused in (made["above"].ask, lambda: made["weights"].ask("ill", must_verify=True)):
        with pytest.raises(BudgetExceeded):
            refused()
    made["count"].ask()
    assert (session.spent, plain_composition(session)) == (spent, plain)
    assert session.spine.ledger.verify().ok


def test_all_go_on_after_a_restart_and_one_append(office, tmp_path):
    where = {"ledger": tmp_path / "people.ledger"}
    with office(**where) as session:
        made = opening(session, {})
        numbers, hard = calls(made), made["weights"].ask("ill").hard
        made["above"].ask()
        spent = session.spent
    again = office(people(0, 1800), budget=None, **where)
    reopened = opening(again, numbers)
    again.append(people(1800, 3600))
    assert calls(reopened) == numbers
    assert again.spent == spent
    assert told(reopened)["count"] == 3
    assert told(reopened)["counts"] >= 2
    assert reopened["above"].state.rounds == 1
    assert len(reopened["weights"].state.changes) == hard


def test_a_number_opens_nothing_of_another_kind_or_dataset(office, tmp_path):
    ledger = tmp_path / "two.ledger"
    numbers = calls(opening(office(ledger=ledger), {}))
    with pytest.raises(NotWithheld):
        opening(office(ledger=ledger, dataset="another"), numbers)
    session = office(ledger=ledger, budget=None)
    for name, other in (("counts", "weights"), ("counts", "quantiles"), ("small", "above"), ("count", "counts")):
        with pytest.raises(InvalidParameter):
            opening(session, numbers | {name: numbers[other]})
    kinds = {"weights": "multiplicative_weights", "rounds": "sparse_weights", "above": "growing_sparse_vector"}
    assert {name: session.resume(numbers[name]).kind for name in kinds} == kinds


def test_a_share_that_is_spent_leaves_the_other_analysts_alone(office, tmp_path):
    alice, bob = (office(ledger=tmp_path / "shared.ledger", analyst=name) for name in ("alice", "bob"))
    made = opening(alice, {})
    alice.set_quota("alice", Fraction(alice.spent.amount.main, alice.spine.filter.capacity.main))
    before = bob.spent
    with pytest.raises(BudgetExceeded):
        made["above"].ask(count("ill"))
    assert not made["weights"].ask("ill").verified
    assert (bob.spent, alice.remaining.share < 1e-9) == (before, True)
    theirs = bob.resume(made["above"].call)
    assert not theirs.ask(count("ill"), above=10).above
    assert not made["above"].ask(count("ill"), above=10).above
    assert bob.resume(made["weights"].call).ask("ill").verified
    assert bob.spent.share > before.share


@pytest.mark.parametrize("options", [FILTERS["renyi"], FILTERS["approximate"], FILTERS["pure"]])
def test_entry_budgets_hold_all_kinds(opened, options):
    """The statement names the budget of an entry and that of a household, whose two entries are two steps."""
    limited = {"privacy_unit": "household", "neighbors": "replace", "entries_per_unit": 2, "ledger": ":memory:"}
    with chary.open(people(0, 900), **limited, **options) as session:
        made = opening(session, {})
        made["above"].ask(count("ill"))
        session.append(people(900, 1800))
        assert told(made)["count"] == 2
        epsilon, delta = options["budget"].exact
        assert f"together ({epsilon / 2}," in session.statement()
        assert session.statement().endswith(f"({epsilon}, {float(delta):g})-differential privacy.")


def test_a_quote_makes_nothing(office):
    session = office()
    before = session.history
    paid = {"rho": "0.002", "beta": BETA}
    histogram = {"universe": UNIVERSE, "alpha": "0.3"}
    asked = {"universe": UNIVERSE, "queries": QUERIES}
    charged = [
        session.quote(Rerun(CountsBox(count(), gaussian=True), **paid)),
        session.quote(ContinualCount("ill", steps=4, rho="0.002")),
        session.quote(PMW(prepaid=True, **histogram, rho="0.002")),
        session.quote(MWEM(**asked, rounds=2, rho="0.002")),
        session.quote(SmallDatabase(**asked, epsilon=EPSILON)),
        session.quote(RunAlgorithm(Algorithm("one", lambda rows, source: 1, rho="0.002"))),
    ]
    assert all(0 < quote.most_charged < 0.02 and "remaining budget pays for" in str(quote) for quote in charged)
    free = [
        session.quote(PMW(**histogram, epsilon=EPSILON)),
        session.quote(GrowingTests(above="0.5", epsilon=EPSILON)),
    ]
    assert all(str(quote).startswith("Cost: free") for quote in free)
    assert (session.history, session._followers, session.spent.share) == (before, [], 0)


@pytest.mark.parametrize("rho", [None, "0.002"])
def test_plain_composition_counts_what_an_opening_paid_for_once(office, rho):
    session = office()
    size = {"epsilon": EPSILON} if rho is None else {"rho": rho}
    schedule = session.start(Rerun(CountsBox(count()), **size, beta=BETA))
    weights = session.start(PMW(prepaid=True, universe=UNIVERSE, alpha="0.3", **size, rounds=2))
    before = plain_composition(session)
    assert before.calls == 2
    schedule.ask()
    weights.ask("ill")
    assert plain_composition(session) == before


def test_what_remains_is_the_scarcer_of_epsilon_and_the_delta_set_aside(office):
    session = office(budget=BUDGET, delta_reserve="1e-8")
    assert session.remaining.share == 1
    session.release(count(), epsilon=2)
    assert session.remaining.share == pytest.approx(1 - session.spent.share)
    session.ask(RunAlgorithm(Algorithm("fails", lambda rows, source: 1, epsilon="0.01", delta="9e-9")))
    assert session.remaining.share == pytest.approx(0.1)
    with pytest.raises(BudgetExceeded, match=r"a delta of 9e-09, and 1e-09 is left of delta_reserve="):
        session.ask(RunAlgorithm(Algorithm("fails", lambda rows, source: 2, epsilon="0.01", delta="9e-9")))


def test_a_histogram_without_hard_answers_promises_nothing(office):
    session = office()
    weights = session.start(PMW(universe=UNIVERSE, alpha="0.3", epsilon=EPSILON))
    assert weights.state.standing().reached < math.inf
    exhaust(session)
    quote = weights.state.standing()
    assert (quote.hard_left, quote.reached) == (0, math.inf)
    assert str(quote).endswith("the histogram answers alone, unverified")


def test_a_histogram_goes_on_under_the_exact_filter_with_smaller_calls_as_the_data_grow(office):
    session = office(**FILTERS["exact"])
    weights = session.start(PMW(universe=UNIVERSE, alpha="0.3", epsilon=EPSILON))
    session.append(people(900, 1800))
    price = session.spine.filter.price(Targeted(EPSILON)).hit.main
    before = session.spent.amount.main
    weights.ask("ill")
    assert session.spent.amount.main - before in (0, price)
    assert 0 <= weights.state.estimate("ill") <= 1
    gaussian = CountsBox(count(), gaussian=True)
    with pytest.raises(InvalidParameter, match="Gaussian noise is for schedules with rho="):
        session.start(Rerun(gaussian, epsilon=EPSILON, beta=BETA))


def test_one_follower_that_fails_leaves_the_others_their_turn(office):
    session = office()
    fails = []

    def make(epsilon):
        if fails:
            raise ValueError("people of ward 7")
        return Algorithm("one", lambda rows, source: 1, rho=epsilon**2 / 2)

    broken = session.start(Rerun(AlgorithmBox(make, law=(1, 1)), rho="0.002", beta=BETA, exponent="0.1"), follow=True)
    made = opening(session, {})
    fails.append(True)
    with pytest.warns(RuntimeWarning, match="of the 6 that follow, 1 failed: ValueError") as seen:
        session.append(people(900, 2700))
    assert "ward 7" not in str(seen[0].message)
    assert told(made)["counts"] == told(made)["count"] == 2
    fails.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.append(people(2700, 2701))
    assert [run.size for run in broken.state.results] == [900, 2701]


def test_a_tiny_price_is_never_told_as_nothing(office):
    session = office()
    session.start(Rerun(CountsBox(count(), gaussian=True), rho="1e-9", beta=BETA)).ask()
    session.ask(MWEM(universe=UNIVERSE, queries=QUERIES, rounds=2, epsilon="1e-6"))
    assert session.spent.share > 0
    told = [
        str(session.spent),
        session.statement(),
        str(session.quote(ContinualCount("ill", steps=2, rho="1e-9"))),
    ]
    for zero in (" 0 %", "0.0 ", "0.00 ", "0.000", "(0, ", "delta 0,"):
        assert zero not in " ".join(["", *told])
    assert session.history[0].question["rho"] == "1/1000000000"


def test_the_delta_set_aside_is_that_of_one_entry():
    limited = {"privacy_unit": "household", "neighbors": "replace", "entries_per_unit": 2, "ledger": ":memory:"}
    with pytest.raises(InvalidParameter, match=r"greater than delta_reserve: 1\.\d*e-07 is not more than 5e-07"):
        chary.open(people(0, 9), **limited, budget=BUDGET, delta_reserve="5e-7")
