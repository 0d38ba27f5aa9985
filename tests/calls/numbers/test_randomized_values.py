"""Randomized response with several values on behalf of every unit."""

import math

import numpy as np
import pytest
from scipy import stats

from chary import Budget, InvalidParameter, InvalidQuery
from chary.accounting import Pure
from chary.accounting.accuracy import category_channel, optimised_channel
from chary.calls import RandomizedTable, RandomizedValues
from chary.mechanisms import KRandomizedResponse, UnaryEncoding
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent, visits

ASKED = {"among": CLINICS, "epsilon": "0.7"}


def truth():
    """Each unit's first value in the order of the list, and how many units there are."""
    rows = visits()
    first = rows[rows.clinic.isin(CLINICS)].groupby("patient").clinic.apply(lambda own: min(map(CLINICS.index, own)))
    units = rows.patient.nunique()
    held = np.bincount(first, minlength=len(CLINICS))
    return np.append(held, units - held.sum()), units


def test_reports_without_noise(replaced):
    session = replaced(budget=NO_NOISE)
    found = session.ask(RandomizedValues("clinic", among=CLINICS, epsilon=PLENTY, mechanism="category"))
    held, units = truth()
    assert found.counts == tuple(held)
    assert found.units == units == sum(found.counts)
    assert found.value == pytest.approx({**dict(zip(CLINICS, held / units, strict=False)), None: held[-1] / units})
    assert found[CLINICS[0]]["count"] == held[0]
    assert session.ask(RandomizedValues("clinic", among=CLINICS[:1], epsilon=PLENTY, where="age < 0")).counts[0] == 0


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["category", "optimised", "symmetric"])
def test_the_law_of_the_counts(replaced, form):
    session = replaced(budget=Budget(epsilon=4000), unsafe_noise=Seeded(2))
    (held, units), size = truth(), 300
    call = RandomizedValues("clinic", **ASKED, mechanism=form)
    counts = np.array([session.ask(call, request=str(k)).counts for k in range(size)])
    for factor, follows in ((1, True), (2, False), (0.5, False)):
        channel = RandomizedValues("clinic", among=CLINICS, epsilon=0.7 * factor, mechanism=form).of_reports().channel
        scores = []
        for place in range(len(held)):
            mean = held[place] * channel.held + (units - held[place]) * channel.other
            spread = channel.variance(held[place] / units) * units * (channel.held - channel.other) ** 2
            scores += [(counts[:, place].mean() - mean) / math.sqrt(spread / size)]
            ratio = counts[:, place].var() * size / spread
            assert stats.chi2.sf(ratio, size - 1) > 1e-6 or not follows
        assert (max(map(abs, scores)) < stats.norm.isf(5e-7 / len(held))) == follows


def test_the_form_is_the_better_one_and_is_kept(replaced):
    for values in (2, 3, 9, 30):
        made = RandomizedValues("age", among=list(range(values)), epsilon=1).of_reports()
        one, other = category_channel(values + 1, 1), optimised_channel(1)
        best = KRandomizedResponse if one.variance(0) <= other.variance(0) else UnaryEncoding
        assert type(made) is best
    session = replaced()
    session.ask(RandomizedValues("clinic", among=CLINICS, epsilon="0.02"))
    assert session.history[-1].answer["form"] in ("category", "optimised")
    assert spent(session) == session.spine.filter.price(Pure("0.02")).hit


def test_the_number_of_units_is_secret_under_add_remove(opened):
    session = opened()
    with pytest.raises(InvalidQuery, match=r"neighbors='replace', or ask Marginal\("):
        session.ask(RandomizedValues("clinic", **ASKED))
    assert session.history == []


def test_intervals_are_those_of_a_survey():
    reports = KRandomizedResponse(range(3), "0.7")
    told = RandomizedTable(1, ("clinic",), (("a",), ("b",), (None,)), (50, 30, 20), 100, reports)
    for about in ("population", "respondents"):
        same = reports.estimate_counts((50, 30, 20), 100, 0.9, about=about)
        found = told.estimate(0.9, about=about)
        assert [it.low for it in found] == [it.low for it in same]
        assert [it.value for it in found] == ["a", "b", None]
    assert told["b"]["low"] == reports.estimate_counts((50, 30, 20), 100, about="respondents")[1].low
    empty = RandomizedTable(1, ("clinic",), (("a",), (None,)), (0, 0), 0, KRandomizedResponse(range(2), 1))
    assert empty.value == {}
    assert empty["a"]["value"] is None
    with pytest.raises(InvalidParameter):
        empty.estimate()


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(RandomizedValues("nothere", **ASKED)),
        lambda s: s.ask(RandomizedValues("clinic", among=[], epsilon=1)),
        lambda s: s.ask(RandomizedValues("clinic", among=["a", "a"], epsilon=1)),
        lambda s: s.ask(RandomizedValues("clinic", among=CLINICS, epsilon=0)),
        lambda s: s.ask(RandomizedValues("clinic", **ASKED, mechanism="hashed")),
        lambda s: s.ask(RandomizedValues("age", among=CLINICS, epsilon=1)),
    ],
)
def test_bad_questions_cost_nothing(replaced, ask):
    session = replaced()
    with pytest.raises((InvalidParameter, InvalidQuery)):
        ask(session)
    assert session.history == []
