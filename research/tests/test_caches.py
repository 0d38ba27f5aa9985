"""Caches of answers: workloads, what published caches are charged, and that each keeps what it promises."""

import csv
import gzip
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy
from tests.paths import beside

from chary.accounting import DiscreteLaplace, Pure, ZeroConcentrated
from chary.data.predicates.predicate import Predicate
from chary.data.universe.regions import located
from chary.filters import Budget, RenyiFilter
from chary_research import workloads
from chary_research.caches import (
    BYPASSES,
    AfterReleases,
    AfterVisits,
    Bypass,
    CellsOnce,
    ExactMatches,
    FreeTests,
    Marginals,
    Opening,
    OwnWeights,
    PlainPMW,
    PMWBypass,
    Wanted,
    laplace,
    pure_total,
    renyi_total,
    vector,
)
from chary_research.workloads import bike_rides, covid_tests

ALPHA = 1e-6
MADE = [covid_tests, bike_rides]


@pytest.fixture(scope="module")
def asked():
    """A workload, how near answers are to be, its rows and a stream."""
    known = covid_tests(50_000)
    return known, Wanted(known.rows), known.counts(1), known.stream(600, 1, 2)


@pytest.mark.parametrize("made", MADE)
def test_conditions_pick_the_cells_of_their_queries(made):
    known = made(2_000)
    counts, draw = known.counts(3), np.random.default_rng(4)
    table = known.table(counts)
    assert counts.sum() == table.num_rows == known.rows
    columns = {name: table[name].to_numpy() for name in known.attributes}
    for number in draw.integers(0, len(known.pool), 40).tolist():
        query = known.pool[number]
        held = np.ones(known.rows, bool)
        for name, values in zip(known.attributes, query, strict=True):
            held &= np.isin(columns[name], range(99) if values is None else values)
        assert counts[known.place(query)].sum() == held.sum()
        held_cells = np.zeros(known.sizes, bool)
        held_cells[known.place(query)] = True
        assert np.array_equal(known.region(query).flags(), held_cells.ravel())
        asked = known.condition(query)
        read, _ = located(known.universe, known.schema, asked and Predicate.parse(asked))
        assert np.array_equal(read.flags(), held_cells.ravel())
        named = asked or ""
        assert named.count(" IN ") == sum(values is not None for values in query)


def test_pools_are_as_large_as_published():
    tests, rides = covid_tests(), bike_rides()
    assert (tests.cells, len(tests.pool), len(set(tests.pool))) == (128, 34_425, 34_425)
    assert (rides.cells, len(rides.pool), len(set(rides.pool))) == (604_800, 2_485, 2_485)


def test_streams_are_zipf():
    known, many = covid_tests(), 200_000
    flat, steep = (Counter(known.stream(many, zipf, 5)) for zipf in (0, 1))
    harmonic = sum(1 / rank for rank in range(1, len(known.pool) + 1))
    most = steep.most_common(1)[0][1]
    low, high = scipy.stats.binom.interval(1 - ALPHA, many, 1 / harmonic)
    assert low <= most <= high
    assert scipy.stats.binom.sf(flat.most_common(1)[0][1] - 1, many, 1 / len(known.pool)) * len(known.pool) > ALPHA
    assert flat.keys() != steep.keys()


@pytest.mark.parametrize(
    ("file", "column", "left_out", "shares"),
    [
        ("covidage.csv.gz", "Age Group", ("missing", "Missing", "Total"), workloads.CASES_BY_AGE),
        ("covidethnicity.csv.gz", "Ethnicity", ("Total",), workloads.CASES_BY_ETHNICITY),
        ("covidgender.csv.gz", "Gender", ("Unknown", "Total"), workloads.CASES_BY_SEX),
    ],
)
def test_shares_of_cases_are_the_published_totals(file, column, left_out, shares):
    with gzip.open(beside(file), "rt") as lines:
        rows = [row for row in csv.DictReader(lines) if row[column] not in left_out]
    last = [row for row in rows if row["date"] == max(row["date"] for row in rows)]
    [counted] = [name for name in last[0] if name.startswith("total_cases")]
    total = sum(float(row[counted]) for row in last)
    assert sorted(round(float(row[counted]) / total, 3) for row in last) == sorted(shares)


def test_calibration_is_exact():
    known, draw, many = Wanted(10_000), np.random.default_rng(6), 2_000_000
    far = known.alpha * known.rows

    def missed(epsilon):
        noises = draw.laplace(0, 1 / epsilon, (2, many))
        return int(np.sum(far + noises[0] < far / 2 + noises[1]))

    low, high = scipy.stats.binom.interval(1 - ALPHA, many, known.beta)
    assert low <= missed(known.vector) <= high
    assert not low <= missed(known.vector * 2 / 3) <= high
    assert low <= int(np.sum(np.abs(draw.laplace(0, 1 / known.laplace, many)) > far)) <= high
    assert low <= int(np.sum(np.abs(draw.normal(0, 1 / math.sqrt(2 * known.gaussian), many)) > far - 1)) <= high
    assert known.laplace < known.vector < known.weights < known.loose


def test_totals_are_those_of_the_events():
    charged = {laplace(0.01): 30, vector(0.002): 4}
    assert pure_total(charged) == pytest.approx(30 * 0.01 + 4 * 3 * 0.002)
    orders = [1 + Fraction(place, 10) for place in range(1, 2_000, 7)]
    least = min(
        float(sum(times * event.log_moment_up(order) for event, times in charged.items()) - _converted(order))
        / float(order - 1)
        for order in orders
    )
    assert renyi_total(charged) == pytest.approx(least, rel=5e-3)
    assert renyi_total(charged) < pure_total(charged) + 0.1


def _converted(order):
    a = float(order)
    return Fraction(math.log(1e-6) + math.log(a) - (a - 1) * math.log1p(-1 / a))


@pytest.fixture
def given(asked):
    """What every cache is made from."""
    known, wanted, counts, _ = asked
    return known, counts, wanted, 7


def test_exact_matches_pay_once_for_each_query(given, asked):
    cache, stream = ExactMatches(*given), asked[-1]
    first = [cache.ask(number) for number in stream]
    assert [cache.ask(number) for number in stream] == first
    assert cache.charged == {laplace(cache.wanted.laplace): len(set(stream))}
    near = ExactMatches(*given, gaussian=True)
    for number in stream:
        near.ask(number)
    assert near.charged == {ZeroConcentrated(Fraction(cache.wanted.gaussian)): len(set(stream))}
    assert renyi_total(near.charged) < renyi_total(cache.charged) / 2


def test_plain_weights_pay_for_hard_queries_and_new_vectors(given, asked):
    cache, hard = PlainPMW(*given), 0
    for number in asked[-1]:
        before, told = cache.charged.total(), cache.told(number)
        fresh = math.isnan(cache._bar)
        answer = cache.ask(number)
        hard += answer != told
        assert cache.charged.total() - before == fresh + (answer != told)
    epsilon = cache.wanted.weights
    assert cache.charged[laplace(epsilon)] == hard > 10
    assert cache.charged[vector(epsilon)] in (hard, hard + 1)
    assert pure_total(cache.charged) == pytest.approx((hard + 3 * cache.resets) * epsilon)
    assert cache.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("bypass", [BYPASSES["tests"], Bypass(2, 1, ((0, 2.0), (3, 0.5)), 0.05)])
def test_bypass_counts_until_its_thresholds_are_reached(given, asked, bypass):
    """Against bookkeeping bin by bin, in plain Python."""
    cache, known = PMWBypass(*given, bypass=bypass), given[0]
    updates, thresholds, tested, held = Counter(), Counter(), 0, set()
    for number in asked[-1]:
        cells = np.arange(known.cells).reshape(known.sizes)[known.place(known.pool[number])].ravel().tolist()
        trusted = all(updates[cell] >= bypass.first + thresholds[cell] for cell in cells)
        counts, told, resets = cache.charged[laplace(cache.wanted.laplace)], cache.told(number), cache.resets
        answer = cache.ask(number)
        counted = cache.charged[laplace(cache.wanted.laplace)] - counts
        if number in held:
            assert (counted, cache.resets) == (0, resets)
            continue
        assert counted == (not trusted or answer != told)
        assert trusted or cache.resets == resets
        tested += trusted
        least = min(updates[cell] for cell in cells)
        if counted:
            held.add(number)
            thresholds |= dict.fromkeys(cells, 0)
            if trusted:
                thresholds.update({cell: least + bypass.step - bypass.first - thresholds[cell] for cell in cells})
            moved = abs(answer - told) > (0 if trusted else bypass.margin * cache.wanted.alpha)
            updates.update(cells if moved else [])
            assert (cache.told(number) != told) == moved
            if moved:
                rate = max(pair for pair in bypass.rates if pair[0] <= least)[1]
                tilted = told * math.exp(math.copysign(rate / 8, answer - told))
                assert cache.told(number) == pytest.approx(tilted / (tilted + 1 - told))
    assert cache.charged[vector(cache.wanted.vector)] == cache.resets
    assert bypass.first == 100 or (tested > 50 and cache.resets > 1)


def test_all_cells_once_cost_what_the_worst_query_takes():
    known, queries = covid_tests(20_000), covid_tests().pool
    wanted, worst = (
        Wanted(known.rows),
        next(
            place
            for place, query in enumerate(queries)
            if query[:3] == ((0,), (0, 1, 2, 3), (0, 1)) and len(query[3]) == 8
        ),
    )
    counts, off = known.counts(0), []
    for trial in range(3000):
        made = CellsOnce(known, counts, wanted, trial)
        off.append(made.ask(worst) - made.truth(worst))
    [(event, times)] = made.charged.items()
    assert (times, made.ask(len(queries) - 1)) == (1, pytest.approx(1))
    assert float(event.rho) == pytest.approx(128 * wanted.gaussian)
    spread = np.std(off) * known.rows * math.sqrt(2 * wanted.gaussian)
    low, high = np.sqrt(np.array(scipy.stats.chi2.interval(1 - ALPHA, len(off))) / len(off))
    assert low < spread < high
    assert not low < spread * 3 / 2 < high


def marginal(known, **values):
    """The place in the pool of the query that restricts these attributes alone."""
    wanted = tuple(
        values.get(name, tuple(range(size))) for name, size in zip(known.attributes, known.sizes, strict=True)
    )
    return known.pool.index(wanted)


def test_marginals_charge_what_is_missing_and_reuse_what_is_kept(given):
    cache, one = Marginals(*given), given[2].gaussian
    cache.ask(marginal(given[0], age=(0,)))
    assert dict(cache.charged) == {ZeroConcentrated(Fraction(2 * one)): 1}
    cache.ask(marginal(given[0], age=(3,)))
    cache.ask(marginal(given[0], age=(0, 1, 2)))
    assert cache.charged.total() == 1
    cache.ask(marginal(given[0], age=(1, 2)))
    assert float(sum(event.rho for event in cache.charged.elements())) == pytest.approx(4 * one)
    cache.ask(marginal(given[0], age=(0,), sex=(1,)))
    assert float(sum(event.rho for event in cache.charged.elements())) == pytest.approx(6 * one)
    # One age of both sexes is two cells of the finer marginal, and one of its own, which is exact enough.
    cache.ask(marginal(given[0], age=(1,)))
    assert cache.charged.total() == 3
    assert cache.ask(marginal(given[0])) == pytest.approx(1)


def test_marginals_that_were_made_more_exact_have_the_noise_of_all_that_was_charged():
    known, off = covid_tests(20_000), []
    wanted, counts = Wanted(known.rows), known.counts(0)
    one, two = (marginal(known, age=age) for age in ((0,), (1, 2)))
    for trial in range(3000):
        made = Marginals(known, counts, wanted, trial)
        made.ask(one)
        off.append(made.ask(two) - made.truth(two))
    spread = np.std(off) * known.rows * math.sqrt(2 * wanted.gaussian)
    low, high = np.sqrt(np.array(scipy.stats.chi2.interval(1 - ALPHA, len(off))) / len(off))
    assert low < spread < high
    assert not low < spread * 3 / 2 < high


def test_free_tests_pay_for_hard_answers_alone(given, asked):
    cache, hard = FreeTests(*given), set()
    for number in asked[-1]:
        easy = abs(cache.told(number) - cache.truth(number)) <= cache.wanted.alpha
        before = cache.charged.total()
        answer = cache.ask(number)
        if number in hard or easy:
            assert cache.charged.total() == before
        else:
            hard.add(number)
            assert cache.charged.total() == before + 1
            assert abs(answer - cache.truth(number)) < 2 * cache.wanted.alpha
    assert 5 < len(hard) < 60
    assert cache.weights.sum() == pytest.approx(1)


def test_trust_follows_what_was_published():
    known = covid_tests(1000)
    cell, row = (0, 0, 0, 0), (0, slice(None), 0, 0)
    after = AfterReleases(2, known)
    for tested, trusted in ((True, False), (False, False), (False, True)):
        after.learned(cell, hard=True, tested=tested)
        assert after.trusted(cell) == trusted
    visits = AfterVisits(2, 3, known)
    visits.learned(row, hard=False, tested=False)
    visits.learned(cell, hard=False, tested=False)
    assert visits.trusted(cell)
    assert not visits.trusted(row)
    visits.learned(row, hard=False, tested=False)
    assert visits.trusted(row)
    # The least visited of its cells was there twice: three more are needed, of which the hard answer is one.
    visits.learned(row, hard=True, tested=True)
    for needed in (False, False, True):
        assert visits.trusted(row) == needed
        visits.learned(row, hard=False, tested=False)


@pytest.mark.parametrize(
    "cache", [ExactMatches, partial(ExactMatches, gaussian=True), PlainPMW, PMWBypass, Marginals, FreeTests]
)
def test_published_caches_keep_their_accuracy(cache):
    known = covid_tests(20_000)
    wanted, outside, asked = Wanted(known.rows, beta=0.02), 0, 0
    for trial in range(6):
        made = cache(known, known.counts(trial), wanted, trial)
        fresh = dict.fromkeys(known.stream(800, 0, trial))
        outside += sum(abs(made.ask(number) - made.truth(number)) > wanted.alpha for number in fresh)
        asked += len(fresh)
    assert scipy.stats.binom.sf(outside - 1, asked, wanted.beta) > ALPHA


@pytest.fixture(scope="module")
def opened(asked):
    """How ours is opened."""
    return Opening.found(asked[0], asked[1], Budget(epsilon="0.15", delta="1e-6"), 80)


def test_ours_is_opened_as_near_as_wanted(asked, opened):
    known, wanted, *_ = asked
    hits, rows = opened.law(known, wanted.rows).hits, wanted.rows
    beyond = float(opened.alpha) * 2 / 3 * rows + hits.tails.miss_reach_up(Fraction(wanted.beta))
    assert beyond <= wanted.alpha * rows < beyond + 0.001 * rows
    assert hits.noise.error_bar(1 - wanted.beta) <= wanted.alpha * rows


def test_calls_with_laplace_noise_are_opened_as_near_and_as_many(asked):
    known, wanted, *_ = asked
    opening = Opening.found(known, wanted, Budget(epsilon="0.3", delta="1e-6"), 60, laplace=True)
    law, rows = opening.law(known, wanted.rows), wanted.rows
    beyond = float(opening.alpha) * 2 / 3 * rows + law.hits.tails.miss_reach_up(Fraction(wanted.beta))
    assert beyond <= wanted.alpha * rows < beyond + 0.001 * rows
    filter_ = RenyiFilter.best(opening.budget)
    assert filter_.price(law.event).hit.copies_in(filter_.capacity) in (60, 61)


@pytest.mark.parametrize("ways", [{}, {"update": "refitted", "trust": partial(AfterReleases, 12)}])
def test_plans_answer_as_the_session_does(given, asked, opened, ways):
    how = replace(opened, **ways)
    plans, whole = (OwnWeights(*given, opening=how, whole=whole) for whole in (False, True))
    for number in asked[-1][:60]:
        assert plans.ask(number) == whole.ask(number)
    assert plans.hits == whole.hits > 5
    assert plans.released == whole.released == (12 if ways else 0)
    assert plans.share == pytest.approx(whole.share)
    assert plans.promised == pytest.approx(whole.promised)
    assert plans.promised < plans.budget
    assert plans.unverified == 0


def test_what_no_longer_fits_is_not_verified(given, asked):
    few = OwnWeights(*given, opening=Opening.found(*asked[:2], Budget(epsilon="0.04", delta="1e-6"), 3))
    for number in asked[-1][:60]:
        few.ask(number)
    assert few.hits == 3
    assert few.unverified > 0
    assert few.promised == pytest.approx(float(few.budget))


def test_events_are_those_of_the_noise():
    assert laplace(0.125) == DiscreteLaplace(8, 1)
    assert vector(0.125) == Pure("0.375")


def test_the_experiment_is_listed_under_turbo(call):
    _, told, _ = call("reproduce --list --json")
    entries = [each for each in json.loads(told)["experiments"] if "Turbo" in json.dumps(each)]
    assert [entry["name"] for entry in entries] == ["turbo-caches", "turbo-blocks"]
