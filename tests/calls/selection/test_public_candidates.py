"""Selections of keys and of conditions, tested as those of a watch and told with their values; sharp coverage."""

from dataclasses import replace

import pytest

from chary import Algorithm, Budget, InvalidParameter, InvalidQuery, NotPriced, NotWithheld, count
from chary.calls import Greedy, ReleaseIf, Select, Widen
from tests.session.kit import CLINICS, spent

DELTA = Budget(epsilon=1, delta=1e-6)
FINE = Budget(epsilon=10**4, delta=1e-6)
EVERY = count().by("clinic", CLINICS)
CONDITIONS = ["age >= 0", "age > 1000", "clinic = 'north'"]
FAR = 10**6


def test_what_reaches_the_bar_is_told_with_a_fresh_value(opened):
    session = opened(budget=FINE)
    truth = [session.release(count(condition), epsilon=2000).value for condition in CONDITIONS]
    found = session.ask(Select(CONDITIONS, above=9, hits=10))
    assert list(found.value) == [CONDITIONS[0], CONDITIONS[2]]
    assert found.value[CONDITIONS[0]] == pytest.approx(truth[0], abs=9)
    assert (found[CONDITIONS[1]]["hit"], found[CONDITIONS[1]]["score"], found[CONDITIONS[1]]["high"]) == (
        False,
        None,
        None,
    )
    row, value = found[CONDITIONS[0]], found.value[CONDITIONS[0]]
    assert row["low"] <= value <= row["high"]
    assert [finding.key for finding in found.findings] == list(found.value)


@pytest.mark.parametrize("how", [{"hits": 20}, {"price": "0.01"}, {"within": 300, "tests": 9}, {"epsilon": "0.01"}])
def test_keys_are_priced_and_noisy_as_in_a_watch(opened, how):
    session = opened(budget=DELTA, grain="0.01")
    selecting, watching = (session.quote(kind(EVERY, above=5, **how)) for kind in (Select, ReleaseIf))
    assert replace(selecting, kind="release_if") == watching


def test_each_condition_that_hits_is_charged_and_a_selection_halts(opened):
    session = opened(budget=DELTA)
    call = Select(CONDITIONS, above=-FAR, hits=5)
    once = session.quote(call).price_if_hit
    assert session.ask(call).charged.share == pytest.approx(3 * once)
    second = session.ask(call)
    assert (second.tested, second.untested) == (2, (CONDITIONS[2],))


def test_a_coverage_by_sharp_tests_has_fresh_values_and_holds_nothing(opened):
    session = opened(budget=FINE)
    by_laplace = session.ask(Greedy(CONDITIONS, above=9, epsilon=500))
    found = session.ask(Greedy(CONDITIONS, above=9, hits=10, value="0.4"))
    assert [chosen.name for chosen in found.chosen] == [chosen.name for chosen in by_laplace.chosen]
    assert found.covered == pytest.approx(by_laplace.covered, abs=20)
    missed = found.calls[1]
    with pytest.raises(NotWithheld):
        session.ask(Widen(missed, above=0))


@pytest.mark.parametrize("kind", [Select, Greedy])
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"hits": 5, "epsilon": 1}, "exclude one another"),
        ({"epsilon": 1, "value": "0.1"}, "belongs"),
    ],
)
def test_what_says_nothing_or_too_much_is_refused(kind, how, told):
    with pytest.raises(InvalidParameter, match=told):
        kind(CONDITIONS, above=5, **how)


def test_what_is_neither_counted_nor_an_algorithm_is_refused(opened):
    session = opened(budget=DELTA)
    five = Algorithm("five", lambda rows, source: [5, 5], epsilon="0.1")
    with pytest.raises(InvalidParameter, match="bring their own epsilon"):
        Select([five], above=5, hits=5)
    for asked in ([five, "age > 3"], ["age > 3", "age > 3"], count()):
        with pytest.raises(InvalidQuery):
            session.ask(Select(asked, above=5, hits=5))
    assert session.history == []


@pytest.mark.parametrize("kind", [Select, Greedy])
def test_other_filters_name_the_alternative(opened, kind):
    session = opened(budget=Budget(epsilon=1))
    with pytest.raises(NotPriced, match="ask with epsilon="):
        session.ask(kind(CONDITIONS, above=5, hits=5))
    assert spent(session) == spent(opened(budget=Budget(epsilon=1)))


@pytest.mark.parametrize("kind", [Greedy, Select])
def test_more_than_a_thousand_conditions_are_refused(opened, kind):
    with pytest.raises(InvalidQuery, match="at most 1,000 candidates, not 1,001"):
        opened(budget=FINE).quote(kind([f"age > {age}" for age in range(1001)], above=5, epsilon="0.01"))


@pytest.mark.parametrize("candidates", [7, (each for each in CONDITIONS)])
def test_what_is_no_list_of_candidates_is_refused_in_words(opened, candidates):
    with pytest.raises(InvalidParameter, match="candidates are"):
        opened(budget=FINE).quote(Greedy(candidates, above=5))
