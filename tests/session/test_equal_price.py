"""The alternative that a quote names cheapest is the cheapest in a simulation at equal price."""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import chary
from chary import Budget, calls, count, noise
from chary.calls import Choose, PrepaidTests, Release, ReleaseIf, SparseVector, ThresholdTest
from chary.calls.releases import noises
from chary.mechanisms.threshold_tests import SharpTests
from chary.numbers import percent
from tests.session.kit import USUAL, spent

ROUNDS = 100
BAR = 1000
RENYI = {"ledger": ":memory:", "budget": USUAL, "filter": "renyi", "grain": "0.02"}
KINDS = {name: getattr(calls, name) for name in ("PrepaidTests", "SparseVector")}


class Written:
    """What an alternative writes, as a call."""

    release, release_if, test = staticmethod(Release), staticmethod(ReleaseIf), staticmethod(ThresholdTest)

    @staticmethod
    def start(call):
        return call


def fails(session, call, query, truths, width, source):
    """Whether a test is wrong, or the value of a hit is off by more than the width, in one run on exact truths."""
    neighbor_relation = session.spine.rows.neighbor_relation
    if isinstance(call, Release):
        told = noises(query, neighbor_relation, epsilon=call.epsilon, rho=call.rho)[0].apply(truths, source)
        above = np.flatnonzero(told >= BAR)
        values = told[above]
    elif isinstance(call, SparseVector):
        machine = call.law(neighbor_relation).machine
        _, found = machine.step(machine.start(source), truths, BAR, source)
        above, values = found.positions, found.values
    else:
        found = machine_of(session, call, query).step(truths, source)
        above, values = found.positions, found.noisy
    if list(above) != list(np.flatnonzero(truths >= BAR)):
        return True
    return any(abs(value - truths[place]) > width for place, value in zip(above, values, strict=True))


def machine_of(session, call, query):
    """The tests of a watch, or of an agreed number."""
    if isinstance(call, ReleaseIf):
        return call.law(session.spine, query).machine(BAR, None)
    terms = call.terms(session.spine.filter)
    test = terms.sharpness(1, Fraction(1))
    return SharpTests(test.sampler, BAR - test.bar, terms.noise(1), None)


def failures(session, query, quote, hits, width):
    """How often each alternative fails, by its call, where all truths lie so far from the bar, `hits` of them above."""
    written = [each.code for each in quote.alternatives if each.code is not None]
    truths = np.full(len(query.keys), BAR - width, dtype=np.int64)
    truths[np.random.default_rng(7).permutation(len(truths))[:hits]] = BAR + width
    made = {code: eval(code, KINDS | {"session": Written, "query": query, "above": BAR}) for code in written}
    source = noise.Seeded(11)
    return {
        code: sum(fails(session, call, query, truths, width, source) for _ in range(ROUNDS)) / ROUNDS
        for code, call in made.items()
    }


def check_cheapest(session, query, quote, hits):
    """At the error that is told of the best, it fails as rarely as is told, and all others fail more often."""
    best = quote.alternatives[0]
    found = failures(session, query, quote, hits, int(best.error))
    assert len(found) > 6
    # Binomial with 5 % in 100 rounds: more than 19 happen once in a million.
    assert found[best.code] <= 0.19
    assert all(share > found[best.code] for code, share in found.items() if code != best.code)


@pytest.mark.parametrize("hits", [1, 15])
def test_disjoint_groups_are_cheapest_released_all_together(hits):
    rows = pd.DataFrame({"p": range(400), "city": [f"c{place % 40}" for place in range(400)]})
    with chary.open(rows, privacy_unit="p", **RENYI) as session:
        query = count().by("city", [f"c{place}" for place in range(40)], max_groups_per_unit=1)
        quote = session.quote(ReleaseIf(query, above=BAR, epsilon="0.02"))
        rho = re.fullmatch(r"session.release\(query, rho=([0-9.]+)\)", quote.alternatives[0].code)[1]
        check_cheapest(session, query, quote, hits)
        # The watch itself is dearer and worse: it costs as much as soon as one of 40 keys hits.
        own = next(each.error for each in quote.alternatives if each.code is None)
        assert own > 2 * quote.alternatives[0].error
        assert len(session.release(query, rho=rho).keys) == 40
        assert spent(session).main <= quote.price_if_hit * session.spine.filter.capacity.main * (1 + 1e-12)


@pytest.mark.parametrize(("hits", "best"), [(1, "SparseVector"), (12, "PrepaidTests")])
def test_where_one_unit_may_move_all_tests_a_run_is_cheapest(hits, best):
    rows = pl.DataFrame({"x": [0] * 300})
    with chary.open_counts(rows, column="x", sensitivity=1, **RENYI) as session:
        query = session.series()
        quote = session.quote(ReleaseIf(query, above=BAR, hits=hits, tests=300))
        assert best in quote.alternatives[0].code
        check_cheapest(session, query, quote, hits)


def test_the_call_itself_is_among_them_where_it_fits(opened):
    session = opened(budget=Budget(epsilon=1, delta=1e-6), filter="renyi", grain="0.02")
    query = count().by("clinic", ["north", "south"], max_groups_per_unit=1)
    for call in (
        ReleaseIf(query, above=BAR, epsilon="0.02"),
        ReleaseIf(query, above=BAR, hits=20),
        ThresholdTest(count(), above=BAR, hits=5, tests=30),
        SparseVector(above=BAR, hits=2, epsilon="0.1"),
        PrepaidTests(tests=40, hits=4, value="0.2"),
    ):
        quote = session.quote(call)
        assert [each.error for each in quote.alternatives] == sorted(each.error for each in quote.alternatives)
        assert [each.code for each in quote.alternatives].count(None) == 1
    assert None not in [each.code for each in session.quote(ThresholdTest(count(), above=BAR, epsilon=40)).alternatives]
    assert session.quote(Choose(query, epsilon="0.1")).alternatives == ()
    more = session.quote(ThresholdTest(count(), above=BAR, epsilon="0.02"), tests=100, hits=5).alternatives
    assert any("hits=5" in each.code for each in more if each.code is not None)


@pytest.mark.parametrize("query", [count(), count().by("ward", ["a", "b", "c"])])
@pytest.mark.parametrize("epsilon", ["0.02", "0.1"])
def test_a_release_by_gaussian_noise_is_the_most_accurate_of_its_cost(query, epsilon):
    rows = pd.DataFrame({"unit": range(40), "ward": ["a"] * 40})
    with chary.open(rows, privacy_unit="unit", **RENYI) as session:
        quoted = session.quote(Release(query, epsilon=epsilon))
        (other, own), pays = quoted.alternatives, quoted.price_if_hit
        assert (own.code, own.error) == (None, quoted.error_bar)
        assert own.mechanism == f"Laplace noise, as quoted: {percent(pays)} of the budget"
        rho = re.fullmatch(r"session\.release\(query, rho=([0-9.]+)\)", other.code)[1]
        gaussian = session.quote(Release(query, rho=rho))
        assert other.error == gaussian.error_bar < own.error
        assert gaussian.price_if_hit <= pays
        # One more in its last digit is beyond the cost.
        more = Fraction(rho) + Fraction(1, 10 ** len(rho.partition(".")[2]))
        assert session.quote(Release(query, rho=more)).price_if_hit > pays
        assert quoted.compared_lines()[0] == "Error of each published value at the same cost:"


@pytest.mark.parametrize(
    "release",
    [
        Release(chary.mean("age", bounds=(0, 9), max_rows_per_unit=1), epsilon="0.1"),
        Release(count(), rho="0.01"),
        Release(count(), epsilon="0.1", delta="1e-9"),
        Release(count(), epsilon=3),
    ],
)
def test_other_releases_have_no_alternatives(release):
    rows = pd.DataFrame({"unit": range(40), "age": 1.0})
    with chary.open(rows, privacy_unit="unit", **RENYI) as session:
        assert session.quote(release).alternatives == ()
