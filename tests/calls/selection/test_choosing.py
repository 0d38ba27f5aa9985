"""Choices of keys, most common values and majorities asked of a session."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, InvalidParameter, InvalidQuery, count, mean
from chary.accounting import Pure, ZeroConcentrated
from chary.calls import Choose, Majority, MostCommon, Release
from chary.calls.call import named, of_record
from chary.calls.choices import bounded_range, chooser, majority_vote
from chary.calls.history import History
from chary.calls.run import titled
from chary.data import NeighborRelation
from chary.filters import PureFilter, RenyiFilter
from chary.mechanisms import Exponential, MajorityVote, PermuteAndFlip, ReportNoisyMax
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, error_texts, shows_data, spent, visits

WAYS = ["permute_and_flip", "exponential", "laplace"]
BY_CLINIC = count().by("clinic", CLINICS)


def truth():
    rows = visits()
    return [rows[rows.clinic == clinic].patient.nunique() for clinic in CLINICS]


@pytest.mark.parametrize("by", [*WAYS, None])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_choices_without_noise(opened, by, neighbors):
    session = opened(budget=NO_NOISE, neighbors=neighbors)
    best = CLINICS[int(np.argmax(truth()))]
    assert session.ask(Choose(BY_CLINIC, epsilon=PLENTY, mechanism=by)).value == best
    assert session.ask(MostCommon("clinic", among=CLINICS, epsilon=PLENTY, mechanism=by)).value == best
    assert session.ask(
        MostCommon("clinic", among=["south", "nowhere"], where="age < 0 OR age = 44", epsilon=PLENTY)
    ).value in (
        "south",
        "nowhere",
    )
    assert session.ask(Choose(count().by("age", [10**6, 44]), epsilon=PLENTY, mechanism=by)).value == 44
    assert session.ask(
        Choose(count().by(["clinic", "age"], [("east", -1), ("north", 44)]), epsilon=PLENTY, mechanism=by)
    ).value == (
        "north",
        44,
    )
    costs = chary.sum("cost", bounds=(-5, 5), max_rows_per_unit=2).by("clinic", ["north", "nowhere"])
    assert session.ask(Choose(costs, epsilon=PLENTY, mechanism=by)).value == "north"


def test_the_position_of_a_series():
    days = pd.DataFrame({"cnt": [5, 900, 7]})
    with chary.open_counts(days, column="cnt", sensitivity=3, budget=NO_NOISE, ledger=":memory:") as session:
        assert session.ask(Choose(session.series(), epsilon=PLENTY)).value == 1
        with pytest.raises(InvalidQuery):
            session.ask(Majority("cnt > 6", epsilon="0.1"))
        made = chooser(session.series(), session.spine.rows.neighbor_relation, "0.1", "exponential")
        assert (made.sensitivity, made.monotone) == (3, False)


# By the kind that a ledger has for it, what a choice says, and what its record says beside the query.
KEPT = {
    "choose": ({"epsilon": "0.1", "mechanism": "laplace"}, {"by": "laplace", "epsilon": "1/10"}),
    "choose_with_lead": ({"epsilon": "0.1", "mechanism": "laplace", "lead": True}, {"epsilon": "1/10"}),
    "mode": ({"epsilon": "0.1", "mechanism": "inverse"}, {"epsilon": "1/10"}),
    "noisy_max_gaussian": (
        {"noise": 40, "mechanism": "gaussian", "low": 0, "high": 100},
        {"noise": "40", "low": "0", "high": "100"},
    ),
}


@pytest.mark.parametrize("kind", KEPT)
def test_ledgers_hold_a_choice_by_the_kind_of_its_mechanism(opened, kind):
    session, (said, kept) = opened(), KEPT[kind]
    call = Choose(BY_CLINIC, **said)
    answer = session.ask(call)
    [stored] = session.history
    assert (stored.kind, stored.question) == (kind, {"query": BY_CLINIC.body()} | kept)
    assert of_record(kind, stored.question) == call
    assert (session.quote(call).kind, named(kind), titled(kind)) == ("choose", "choose", "Choose")
    assert History(session.spine).rebuilt(session.spine.ledger.call(stored.call)).answer == answer
    assert replace(call, mechanism=None).plan(session.spine).body == call.text() if call.lead else True


@pytest.mark.statistical
@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_law_of_a_choice(opened, by, neighbors):
    """Counts move together under add/remove and take half of the noise; the wrong size is rejected."""
    session = opened(budget=Budget(epsilon=4000), unsafe_noise=Seeded(9), neighbors=neighbors, ledger=":memory:")
    size = 500
    found = [session.ask(Choose(BY_CLINIC, epsilon="0.12", mechanism=by)).value for _ in range(size)]
    counts = [found.count(clinic) for clinic in CLINICS]
    unit = 0.12 if neighbors == "add_remove" else 0.06
    for used, follows in ((unit, True), (2 * unit, False), (unit / 2, False)):
        law = expected(by, truth(), used)
        assert (stats.chisquare(counts, law / law.sum() * size).pvalue > 1e-6) == follows


def expected(by, utilities, unit):
    if by == "laplace":
        rng = np.random.default_rng(2)
        scale = 1 - math.exp(-unit)
        drawn = rng.geometric(scale, (2, 100_000, 3))
        noisy = np.array(utilities) + drawn[0] - drawn[1] + rng.random((100_000, 3))
        return np.bincount(noisy.argmax(axis=1), minlength=3) / 100_000
    kind = {"permute_and_flip": PermuteAndFlip, "exponential": Exponential}[by]
    return np.array(kind(str(unit), 1, monotone=True).law(utilities).probabilities())


def test_what_moves_in_one_direction(opened):
    coming, replaced = (opened(neighbors=r).spine.rows.neighbor_relation for r in ("add_remove", "replace"))
    for low, high, one_way in ((0, 5, True), (-5, 0, True), (-5, 5, False), (2, 5, True)):
        query = chary.sum("cost", bounds=(low, high), max_rows_per_unit=2).by("clinic", CLINICS)
        assert query.one_direction(coming) is one_way
        assert not query.one_direction(replaced)
    assert BY_CLINIC.one_direction(coming)
    assert not BY_CLINIC.one_direction(replaced)
    assert count("age > 3", without="age > 60").by("clinic", CLINICS).one_direction(coming)


def test_one_direction_is_what_neighbours_do():
    """Take each patient away: no key's count rises. Replace one by another: some rise and some fall."""
    rows = visits()

    def counts(of):
        return np.array([of[of.clinic == clinic].patient.nunique() for clinic in CLINICS])

    moves = [counts(rows[rows.patient != patient]) - counts(rows) for patient in rows.patient.unique()]
    assert all((move <= 0).all() for move in moves)
    swapped = [one - other for one in moves for other in moves]
    assert any(move.min() < 0 < move.max() for move in swapped)


def test_the_mechanism_has_the_sensitivity_of_the_query(opened):
    session = opened()
    query = chary.sum("cost", bounds=(0, 7), max_rows_per_unit=3).by("clinic", CLINICS)
    kinds = {"permute_and_flip": PermuteAndFlip, "exponential": Exponential, "laplace": ReportNoisyMax}
    for by, kind in kinds.items():
        made = chooser(query, session.spine.rows.neighbor_relation, "0.1", by)
        assert type(made) is kind
        assert (made.sensitivity, made.monotone) == (21, True)
        assert Choose(query, epsilon="0.1", mechanism=by).plan(session.spine).event == Pure("0.1")


def test_the_exponential_mechanism_costs_a_quarter_under_a_renyi_filter(opened):
    session = opened(grain="0.02")
    prices = {}
    for by in WAYS:
        before = spent(session).main
        session.ask(Choose(BY_CLINIC, epsilon="0.02", mechanism=by))
        prices[by] = spent(session).main - before
    filter_ = session.spine.filter
    assert prices["laplace"] == prices["permute_and_flip"] == filter_.price(Pure("0.02")).hit.main
    assert prices["exponential"] == filter_.price(ZeroConcentrated(Fraction("0.02") ** 2 / 8)).hit.main
    assert prices["exponential"] < 0.26 * prices["laplace"]


def test_the_default_is_the_best_for_its_price(opened):
    renyi, pure = opened(), opened(budget=Budget(epsilon=1))
    for session, by in ((renyi, "exponential"), (pure, "permute_and_flip")):
        session.ask(Choose(BY_CLINIC, epsilon="0.01"))
        assert session.history[-1].question["by"] == by
    loss = {
        (by, size): renyi.quote(Choose(BY_CLINIC, epsilon=size, mechanism=by)).shortfall
        for by in WAYS
        for size in ("0.01", "0.02")
    }
    assert loss["permute_and_flip", "0.01"] <= min(loss["exponential", "0.01"], loss["laplace", "0.01"])
    assert loss["exponential", "0.02"] < loss["permute_and_flip", "0.01"]


def test_prices_of_filters_that_know_no_zcdp():
    pure = PureFilter(Budget(epsilon=1))
    assert pure.cheapest(*bounded_range("0.1")) == pure.price(Pure("0.1"))
    renyi = RenyiFilter.best(Budget(epsilon=1, delta=1e-6))
    large = renyi.cheapest(*bounded_range(3))
    assert large.hit.main <= renyi.price(Pure(3)).hit.main


def test_quotes_tell_how_much_may_be_lost(opened):
    session = opened()
    quoted = session.quote(Choose(BY_CLINIC, epsilon="0.1"))
    assert quoted.shortfall == math.ceil(math.log(2 * 0.95 / 0.05) / 0.1) - 1
    assert (quoted.error_bar, quoted.wrong_call, quoted.kind) == (None, None, "choose")
    assert "of the best" in str(quoted)
    assert session.history == []
    in_halves = chary.sum("cost", bounds=(0, 1), grid="0.5", max_rows_per_unit=1).by("clinic", CLINICS)
    steps = math.ceil(2 * math.log(2 * 0.95 / 0.05) / 0.1) - 1
    assert session.quote(Choose(in_halves, epsilon="0.1", mechanism="exponential")).shortfall == steps / 2
    assert session.quote(Release(BY_CLINIC, epsilon="0.1")).shortfall is None


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("rule", ["noise", "inverse", "exponential"])
def test_majorities_without_noise(opened, neighbors, rule):
    session = opened(budget=NO_NOISE, neighbors=neighbors)
    rows = visits()
    units = rows.patient.nunique()
    for bar in (0, 30, 44, 50, 60, 100):
        yes = rows[rows.age >= bar].patient.nunique()
        assert session.ask(Majority(f"age >= {bar}", epsilon=PLENTY, mechanism=rule)).value == (2 * yes > units)
    assert spent(session).main > 0


@pytest.mark.parametrize(("neighbors", "moved"), [("add_remove", 1), ("replace", 2)])
def test_a_unit_that_is_replaced_moves_the_lead_by_two(neighbors, moved):
    assert majority_vote(Majority("age > 3", epsilon="0.1"), NeighborRelation(neighbors, "patient")).moved == moved


@pytest.mark.statistical
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_law_of_a_majority(opened, neighbors):
    session = opened(budget=Budget(epsilon=4000), unsafe_noise=Seeded(5), neighbors=neighbors, ledger=":memory:")
    rows = visits()
    lead = 2 * rows[rows.age >= 47].patient.nunique() - rows.patient.nunique()
    assert lead
    size, moved = 500, 1 if neighbors == "add_remove" else 2
    yes = sum(session.ask(Majority("age >= 47", epsilon="0.3")).value for _ in range(size))
    assert stats.binomtest(yes, size, MajorityVote("0.3", moved).chance(lead)).pvalue > 1e-6
    assert stats.binomtest(yes, size, MajorityVote("0.3", moved).chance(-lead)).pvalue < 1e-6


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(Choose(count(), epsilon="0.1")),
        lambda s: s.ask(Choose(count().by("clinic", ["north"]), epsilon="0.1")),
        lambda s: s.ask(Choose(mean("cost", bounds=(0, 9), max_rows_per_unit=1), epsilon="0.1")),
        lambda s: s.ask(Choose("clinic", epsilon="0.1")),
        lambda s: s.ask(Choose(BY_CLINIC, epsilon=0)),
        lambda s: s.ask(Choose(BY_CLINIC, epsilon=math.nan)),
        lambda s: s.ask(Choose(BY_CLINIC, epsilon="0.1", mechanism="best")),
        lambda s: s.ask(Choose(count().by("nothere", ["a", "b"]), epsilon="0.1")),
        lambda s: s.ask(Choose(BY_CLINIC, epsilon=1e-14, mechanism="laplace")),
        lambda s: s.ask(MostCommon("clinic", among=[], epsilon="0.1")),
        lambda s: s.ask(MostCommon("clinic", among=["a", None], epsilon="0.1")),
        lambda s: s.ask(MostCommon("age", among=[1, math.nan], epsilon="0.1")),
        lambda s: s.ask(MostCommon("clinic", among=["a", "a"], epsilon="0.1")),
        lambda s: s.ask(MostCommon("clinic", among="north", epsilon="0.1")),
        lambda s: s.ask(Majority("nothere > 3", epsilon="0.1")),
        lambda s: s.ask(Majority("age >", epsilon="0.1")),
        lambda s: s.ask(Majority(None, epsilon="0.1")),
        lambda s: s.ask(Majority("age > 3", epsilon=-1)),
        lambda s: s.ask(Majority("age > 3", epsilon="0.1", mechanism="best")),
        lambda s: s.quote(Choose(count(), epsilon="0.1")),
    ],
)
def test_bad_questions_cost_nothing(opened, ask):
    session = opened()
    with pytest.raises((InvalidParameter, InvalidQuery)) as caught:
        ask(session)
    assert session.history == []
    assert not shows_data(error_texts(caught.value))
