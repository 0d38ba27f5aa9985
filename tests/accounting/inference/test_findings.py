"""Findings together: intervals that all hold at once, by enumeration; lists with a stated share of false ones."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from chary.accounting import Finding, Findings, GaussianLaw, LaplaceLaw, LargestOf, Publication, Silence, Support
from chary.accounting.accuracy import gaussian_loss_up
from chary.accounting.intervals import share_at_down
from chary.errors import InvalidParameter
from chary.mechanisms import Laplace
from tests.accounting.inference.laws import conditional, gaussian_table, laplace_table

BAR, SCALE, REACH = 6, 2, 26
HIT = Publication(LaplaceLaw(SCALE), Support.at_least(BAR))
TABLE = laplace_table(SCALE, REACH)
TAIL = 1e-4


def found(values, *, open=False, told=HIT, calls=None):
    """Findings of these values, all of one call unless each has its own."""
    numbers = calls or [1] * len(values)
    parts = [Finding(call, place, value, told) for place, (call, value) in enumerate(zip(numbers, values, strict=True))]
    return Findings.of(parts, open=open)


def holds(interval, truth):
    low, high = interval
    return (low is None or low <= truth) and (high is None or truth <= high)


def published(truth):
    """The law of what is published of this truth, as far as it counts."""
    return {value: p for value, p in conditional(TABLE, ((BAR, None),), truth).items() if p > 1e-9}


@pytest.mark.parametrize("truths", [(0, 0), (0, 12), (5, 6), (20, 6), (2, 2)])
def test_all_hits_of_a_call_are_covered_at_once_given_which_were_published(truths):
    """Over the whole joint law, given that both were published."""
    ends = {value: found([value, BAR]).intervals("0.8", simultaneous=True)[0] for value in range(BAR, 20 + 2 * REACH)}
    laws = [published(truth) for truth in truths]
    both = sum(
        laws[0][v] * laws[1][w] for v, w in product(*laws) if holds(ends[v], truths[0]) and holds(ends[w], truths[1])
    )
    assert both >= 0.8 - TAIL
    alone = [
        sum(p for v, p in law.items() if holds(HIT.interval(v, "0.8"), x)) for law, x in zip(laws, truths, strict=True)
    ]
    assert min(alone) >= 0.8 - TAIL
    assert min(alone) ** 3 < 0.8


def test_shares_of_an_open_ledger_add_up_and_a_settled_call_has_all():
    values = [60] * 5
    calls = [3, 3, 7, 9, 9]
    shares = [1 - sure for sure in found(values, calls=calls)._sure("0.9", True, None)]
    tenth = Fraction(1, 10)
    expected = [share_at_down(1) / 2] * 2 + [share_at_down(2)] + [share_at_down(3) / 2] * 2
    assert shares == [tenth * share for share in expected]
    assert found(values).intervals("0.9", simultaneous=True) == [HIT.interval(60, Fraction(98, 100))] * 5
    wide = found(values, open=True).intervals("0.9", simultaneous=True)
    assert wide == [HIT.interval(60, 1 - tenth * share_at_down(1) / 5)] * 5


def test_an_agreed_number_of_tests_is_split_evenly():
    some = found([60, 60], calls=[1, 2])
    assert some.intervals("0.9", simultaneous=True, tests=50) == [HIT.interval(60, Fraction(499, 500))] * 2
    assert Findings(some.calls, 50).intervals("0.9", simultaneous=True) == some.intervals(
        "0.9", simultaneous=True, tests=50
    )


def test_calls_that_published_nothing_take_no_place():
    assert Findings(((), found([60]).calls[0], ())) == found([60])


def test_an_adaptive_analyst_who_stops_at_the_first_miss_gains_nothing():
    """Truth 0 is asked again and again, by single hits: the chance of a miss at any time, by the exact law."""
    law = published(0)
    missed = Fraction(0)
    for place in range(1, 40):
        sure = 1 - Fraction(1, 5) * share_at_down(place)
        chance = sum(p for value, p in law.items() if not holds(HIT.interval(value, sure), 0))
        missed = missed + (1 - missed) * Fraction(chance)
    assert missed <= 0.2
    each = sum(p for value, p in law.items() if not holds(HIT.interval(value, "0.8"), 0))
    assert 1 - (1 - each) ** 39 > 0.9


@pytest.mark.parametrize("confidence", ["0.5", "0.95"])
@pytest.mark.parametrize("noise", [LaplaceLaw(SCALE), GaussianLaw(9)])
def test_silence_rules_out_what_would_hardly_be_silent(noise, confidence):
    table = TABLE if isinstance(noise, LaplaceLaw) else gaussian_table(9, REACH)
    most = Silence(noise, BAR).truths(confidence).high
    reach = len(table) // 2

    def silent(truth):
        return sum(table[k + reach] for k in range(-reach, reach + 1) if truth + k < BAR)

    assert silent(most + 1) <= 1 - float(confidence) + 1e-12 < silent(most) + 1e-12


@pytest.mark.parametrize(
    "told", [HIT, Publication(GaussianLaw(9), Support.at_least(BAR)), Publication(LaplaceLaw(3), bar=BAR)]
)
@pytest.mark.parametrize("value", range(BAR, BAR + 20, 3))
def test_a_hit_is_cautioned_exactly_where_it_could_be_false(told, value):
    """The p-value is the chance at the edge of the bar, so the interval reaches below it where that is not small."""
    assert (told.caution(value) is not None) == (told.p_value(value) > 0.025)
    low = told.interval(value).low
    assert (told.caution(value) is not None) == (low is None or low < BAR)


def test_words_of_caution():
    assert HIT.caution(BAR) == "may be a false alarm: no lower end"
    assert Publication(LaplaceLaw(3), bar=BAR).caution(BAR) == (
        "may be a false alarm: the interval reaches what is withheld"
    )
    change = Publication(LaplaceLaw(3), Support.outside(0, 9))
    assert (change.caution(10) is None, change.caution(40)) == (False, None)
    capped = Publication(LaplaceLaw(3), Support(((None, 9),)))
    assert (capped.caution(9) is None, capped.caution(-40), Publication(LaplaceLaw(3)).caution(4)) == (
        False,
        None,
        None,
    )


@pytest.mark.parametrize("truth", [0, BAR - 1])
def test_a_fresh_value_has_a_valid_p_value_given_the_hit(truth):
    """Its noise is its own, so the law given the hit is that of an ordinary release."""
    fresh, reach = Publication(LaplaceLaw(SCALE), bar=BAR), len(TABLE) // 2
    chances = {k: fresh.p_value(truth + k) for k in range(-reach, reach + 1)}
    for level in (0.001, 0.05, 0.5, 0.9):
        assert sum(TABLE[k + reach] for k, p in chances.items() if p <= level) <= level
    assert chances[0] > 0.05 if truth == BAR - 1 else chances[0] > 0.9


@pytest.mark.parametrize("truths", [(0, 0, 0), (0, 3, 9), (5, 5, 30)])
@pytest.mark.parametrize("most", [1, 2])
def test_the_largest_of_three_are_covered_at_once(truths, most):
    """Over the joint law of three candidates, ties to the earlier one; the usual bar fails where all are alike."""
    told, reach = LargestOf(LaplaceLaw(1), candidates=3, most=most), 14
    table, usual = laplace_table(1, reach), Laplace(Fraction(1), 1).error_bar(0.8)
    noise = np.array(list(product(range(-reach, reach + 1), repeat=3)))
    chance = np.prod(table[noise + reach], axis=1)
    values = noise + np.array(truths)
    best = np.argsort(-values, axis=1, kind="stable")[:, :most]
    off = np.take_along_axis(noise, best, axis=1)
    low, high = told.interval(100, "0.8")
    covered = ((off <= 100 - low) & (off >= 100 - high)).all(axis=1)
    assert chance[covered].sum() >= 0.8
    if truths == (0, 0, 0):
        assert chance[(np.abs(off) <= usual).all(axis=1)].sum() < 0.8


def test_values_chosen_for_their_size_hold_together_as_they_are():
    told = LargestOf(LaplaceLaw(SCALE), candidates=9, most=3, floor=0)
    some = found([30, 20, 3], told=told)
    assert some.intervals("0.9", simultaneous=True) == some.intervals("0.9")
    assert some.p_values == [None] * 3
    assert len(some.list(fdr="0.1")) == 0
    assert some[2].interval.low == 0


@pytest.mark.parametrize(("keys", "beta"), [(2, 0.05), (2, 0.3), (60, 0.05)])
def test_the_shortfall_of_a_gaussian_maximum(keys, beta):
    """Against the chance by quadrature, where all others lie so far below the best: never exceeded, nearly reached."""
    scipy = pytest.importorskip("scipy")
    normal = scipy.stats.norm

    def chance(short):
        def wins(z):
            return normal.pdf(z) * normal.cdf(z + short) ** (keys - 1)

        return 1 - scipy.integrate.quad(wins, -9, 9)[0]

    short = gaussian_loss_up(1, keys, beta)
    assert chance(short) <= beta + 1e-9
    assert chance(0.85 * short) > beta


@pytest.mark.parametrize("procedure", ["online", "spending", "e-values", "benjamini-hochberg"])
def test_alarms_say_by_what_they_were_chosen(procedure):
    alarms = found([BAR + 40, BAR, BAR + 30]).list(fdr="0.1", procedure=procedure)
    assert (alarms.procedure, alarms.level) == (procedure, 0.1)
    assert "10 %" in alarms.guarantee
    assert [finding.key for finding in alarms][:1] == [0]
    assert (found([BAR]).list(fdr="0.1").procedure, found([BAR], open=True).list(fdr="0.1").procedure) == (
        "benjamini-hochberg",
        "online",
    )


RUNS, TESTS, TRUE = 20, 10_000, 300


def hits(source, rounds):
    """So many rounds of 10,000 tests, most of them of empty groups: p-values of the hits and which are false."""
    scale, bar = 20, 100
    r = np.exp(-1 / scale)
    truths = np.where(np.arange(TESTS) % (TESTS // TRUE) == 0, 180, 0)
    for _ in range(rounds):
        values = truths + source.geometric(1 - r, TESTS) - source.geometric(1 - r, TESTS)
        above = values >= bar
        yield values[above], truths[above] < bar


def test_false_discoveries_of_ten_thousand_tests_are_as_few_as_stated():
    """At alpha 1e-6 by Hoeffding for shares in [0, 1]; acting on every hit is far above."""
    source, told = np.random.default_rng(5), Publication(LaplaceLaw(20), Support.at_least(100))
    shares, naive, kept = [], [], []
    for values, false in hits(source, RUNS):
        alarms = found(values.tolist(), told=told).list(fdr="0.1")
        places = [finding.key for finding in alarms]
        shares.append(np.mean(false[places]) if places else 0.0)
        naive.append(np.mean(false))
        kept.append(len(places))
    assert np.mean(shares) <= 0.1 + 5 * np.std(shares) / RUNS**0.5 + 1e-9
    assert np.mean(naive) > 0.1
    assert np.mean(kept) > 50


def test_bad_terms():
    some = Findings.of(found([60, 60]), made=7)
    for wrong in (0, 1, "nan", -1):
        with pytest.raises(InvalidParameter):
            some.intervals(wrong)
        with pytest.raises(InvalidParameter):
            some.list(fdr=wrong)
    with pytest.raises(InvalidParameter, match="7 were made already: say at least tests=7"):
        some.intervals(simultaneous=True, tests=6)
    with pytest.raises(InvalidParameter, match="simultaneous=True"):
        some.intervals(tests=7)
    with pytest.raises(InvalidParameter, match="procedure is one of"):
        some.list(fdr="0.1", procedure="hope")
    with pytest.raises(InvalidParameter):
        Findings(some.calls, 1)
    assert len(Findings(()).intervals(simultaneous=True)) == len(Findings(()).list(fdr="0.1")) == 0
