"""Local reports: exact laws by enumeration, privacy attained, unbiased estimates, intervals that keep their word."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.accounting.accuracy import (
    Channel,
    best_groups,
    category_channel,
    hashed_channel,
    local_channels,
    optimised_channel,
    people_needed,
    symmetric_channel,
)
from chary.errors import InvalidParameter
from chary.mechanisms import KRandomizedResponse, LocalHashing, MemoizedReports, UnaryEncoding
from chary.mechanisms.local_reports import Remembered
from chary.noise import Enclosure, Seeded

ABC = ("a", "b", "c")


def chance(enclosure):
    low, high = enclosure.bounds(100)
    assert high - low <= 1
    return low / 2**100


def bits_law(place, values, lost, gained):
    """The law of a report of bits, by going through all of them."""
    ones = [1 - lost if k == place else gained for k in range(values)]
    return {
        bits: math.prod(p if bit else 1 - p for bit, p in zip(bits, ones, strict=True))
        for bits in product((0, 1), repeat=values)
    }


def category_law(place, values, epsilon):
    lie = chance(Enclosure.any_of(values - 1, Fraction(epsilon)))
    return {k: 1 - lie if k == place else lie / (values - 1) for k in range(values)}


def hashed_law(place, survey):
    """All maps of the digits, each as likely, and the group that is told."""
    digits, groups = survey._digits, survey.groups
    lie = chance(Enclosure.any_of(groups - 1, Fraction(survey.epsilon)))
    law = {}
    for drawn in product(range(groups), repeat=digits.shape[1]):
        own = int(np.dot(drawn, digits[place])) % groups
        for told in range(groups):
            mass = 1 - lie if told == own else lie / (groups - 1)
            law[drawn, told] = mass / groups ** digits.shape[1]
    return law


def laws(form, epsilon, values=3):
    """The law of a report for every value that can be held."""
    if form == "category":
        return [category_law(place, values, epsilon) for place in range(values)]
    if form == "hashed":
        return [hashed_law(place, LocalHashing(range(values), epsilon)) for place in range(values)]
    survey = UnaryEncoding(range(values), epsilon, optimised=form == "optimised")
    return [bits_law(place, values, *map(chance, survey.chances)) for place in range(values)]


@pytest.mark.parametrize("form", ["category", "symmetric", "optimised", "hashed"])
@pytest.mark.parametrize("epsilon", ["0.25", "1", "3"])
def test_epsilon_is_attained_and_not_passed(form, epsilon):
    every = laws(form, epsilon)
    worst = max(math.log(p[told] / q[told]) for p in every for q in every for told in p)
    assert worst == pytest.approx(float(epsilon), rel=1e-10)
    for law in every:
        assert math.fsum(law.values()) == pytest.approx(1)


SPEAKS = {
    "category": lambda survey, told, place: told == place,
    "symmetric": lambda survey, told, place: bool(told[place]),
    "optimised": lambda survey, told, place: bool(told[place]),
    "hashed": lambda survey, told, place: int(np.dot(told[0], survey._digits[place])) % survey.groups == told[1],
}


@pytest.mark.parametrize("form", SPEAKS)
@pytest.mark.parametrize("values", [3, 4])
def test_channels_are_the_laws_of_reports(form, values):
    survey = LocalHashing(range(values), "1.5") if form == "hashed" else None
    channel, every = local_channels(values, "1.5")[form], laws(form, "1.5", values)
    for place, other in product(range(values), repeat=2):
        speaks = math.fsum(mass for told, mass in every[other].items() if SPEAKS[form](survey, told, place))
        assert speaks == pytest.approx(channel.held if place == other else channel.other, rel=1e-12)


def test_two_values_are_warners_response():
    assert category_channel(2, "0.7").other == pytest.approx(chance(Enclosure.logistic("0.7")))
    assert Enclosure.any_of(1, "0.7").bounds(90) == Enclosure.logistic("0.7").bounds(90)
    assert Enclosure.any_of(3, "0.7") == Enclosure.any_of(3, Fraction(7, 10)) != Enclosure.any_of(4, "0.7")


@pytest.mark.parametrize(("others", "exponent"), [(1, "0.1"), (5, 2), (1000, "0.001"), (2**20, 30), (3, 200)])
def test_the_chance_of_any_other_outcome(others, exponent):
    for bits in (1, 20, 64, 300):
        low, high = Enclosure.any_of(others, exponent).bounds(bits)
        assert 0 <= low <= high <= low + 1
        wide = Enclosure.exponential(exponent).bounds(bits + 80)
        ends = [Fraction(others * end, 2 ** (bits + 80) + others * end) * 2**bits for end in wide]
        assert low <= ends[1]
        assert ends[0] <= high


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_the_crossing_of_forms_is_where_it_is_said_to_be(epsilon):
    """The variance for a rare value, from the enumerated channels; and that of all together is that of any shares."""
    crossing = 3 * math.exp(float(epsilon)) + 2
    for values in (2, 5, 8, 20, 100, 1000):
        category, optimised = category_channel(values, epsilon), optimised_channel(epsilon)
        assert (category.variance(0) < optimised.variance(0)) == (values < crossing)
        shares = np.random.default_rng(values).dirichlet(np.ones(values))
        for channel in (category, optimised, symmetric_channel(epsilon)):
            together = math.fsum(channel.variance(share) for share in shares)
            assert together == pytest.approx(channel.squared_error(values))
    assert optimised_channel(epsilon).variance(0) < symmetric_channel(epsilon).variance(0)


def test_groups_are_the_best_prime():
    for epsilon in ("0.3", "1", "2.5"):
        best = best_groups(epsilon)
        found = {groups: hashed_channel(groups, epsilon).variance(0) for groups in (2, 3, 5, 7, 11, 13, 17, 19, 23)}
        assert found[best] == min(found.values())
        assert found[best] == pytest.approx(optimised_channel(epsilon).variance(0), rel=0.25)


@pytest.mark.parametrize("channel", [category_channel(4, 1), optimised_channel(1), hashed_channel(3, 1)])
@pytest.mark.parametrize("people", [1, 4, 9])
def test_intervals_hold_for_every_number_of_people(channel, people):
    beta = 0.2
    ends = {about: [getattr(channel, about)(n, people, beta) for n in range(people + 1)] for about in ABOUT}
    for own in range(people + 1):
        ones = stats.binom.pmf(np.arange(own + 1), own, channel.held)
        law = np.convolve(ones, stats.binom.pmf(np.arange(people - own + 1), people - own, channel.other))
        mean = math.fsum(mass * channel.share(n, people) for n, mass in enumerate(law))
        spread = math.fsum(mass * (channel.share(n, people) - mean) ** 2 for n, mass in enumerate(law))
        assert mean == pytest.approx(own / people)
        assert spread == pytest.approx(channel.variance(own / people) / people)
        assert covered(law, ends["respondents"], own / people) >= 1 - beta
    for share in np.linspace(0, 1, 41):
        law = stats.binom.pmf(np.arange(people + 1), people, channel.chance(share))
        assert covered(law, ends["population"], share) >= 1 - beta


ABOUT = ("population", "respondents")


def covered(law, ends, truth):
    slack = 1e-9
    return math.fsum(m for m, (low, high) in zip(law, ends, strict=True) if low - slack <= truth <= high + slack)


SURVEYS = [
    KRandomizedResponse(ABC, "1.2"),
    UnaryEncoding(ABC, "1.2"),
    UnaryEncoding(ABC, "1.2", optimised=False),
    LocalHashing(ABC, "1.2"),
    MemoizedReports(ABC, "1.2", instant=3),
]


@pytest.mark.statistical
@pytest.mark.parametrize("survey", SURVEYS, ids=lambda survey: f"{type(survey).__name__}")
def test_reports_follow_their_channel(survey):
    people = 60_000
    reports = survey.reports(["b"] * people, source=Seeded(3))
    counts, channel = survey.counts(reports), survey.channel
    for place, count in enumerate(counts):
        right = channel.held if place == 1 else channel.other
        assert stats.binomtest(int(count), people, right).pvalue > 1e-6
    for factor in (2 / 3, 1.5):
        wrong = type(survey)(ABC, float(survey.epsilon) * factor, **extra(survey)).channel.held
        if channel.held != wrong:  # the optimised form tells a one by a fair coin, whatever epsilon is
            assert stats.binomtest(int(counts[1]), people, wrong).pvalue < 1e-6
        if channel.other != (other := type(survey)(ABC, float(survey.epsilon) * factor, **extra(survey)).channel.other):
            assert stats.binomtest(int(counts[0]), people, other).pvalue < 1e-6


def extra(survey):
    if isinstance(survey, MemoizedReports):
        return {"instant": survey.instant}
    return {"optimised": survey.optimised} if isinstance(survey, UnaryEncoding) else {}


@pytest.mark.statistical
@pytest.mark.parametrize("survey", SURVEYS[:2])
def test_simultaneous_intervals_about_the_population(survey):
    source, draw, missed, times = Seeded(5), np.random.default_rng(6), 0, 200
    for _ in range(times):
        held = draw.choice(3, size=300, p=[0.6, 0.3, 0.1])
        found = survey.estimate(survey.reports([ABC[k] for k in held], source=source), "0.8")
        missed += any(not it.low <= truth <= it.high for it, truth in zip(found, (0.6, 0.3, 0.1), strict=True))
    assert stats.binomtest(missed, times, 0.2, alternative="greater").pvalue > 1e-6
    assert missed > 5


def repeated_law(survey, reports, own):
    """The law of the numbers of ones of the own bit and of one other bit, by all permanent bits."""
    permanent, instant = survey._flips
    law = {}
    for first, second in product((0, 1), repeat=2):
        mass = math.prod(
            permanent if bit != truth else 1 - permanent for bit, truth in ((first, own), (second, 1 - own))
        )
        ones = [stats.binom(reports, 1 - instant if bit else instant) for bit in (first, second)]
        for s, t in product(range(reports + 1), repeat=2):
            law[s, t] = law.get((s, t), 0) + mass * ones[0].pmf(s) * ones[1].pmf(t)
    return law


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_repeated_reports_tell_exactly_what_is_said(reports):
    survey = MemoizedReports(ABC, 2, instant="1.5")
    one, other = repeated_law(survey, reports, 1), repeated_law(survey, reports, 0)
    worst = max(math.log(one[seen] / other[seen]) for seen in one)
    assert survey.epsilon_after(reports) == pytest.approx(worst, rel=1e-9)
    assert worst <= survey.epsilon_after(reports) <= 2
    single = math.tanh(survey.epsilon_after(1) / 4)
    assert single == pytest.approx(math.tanh(0.5) * math.tanh(1.5 / 4))


def test_repeated_reports_rise_to_what_is_permanent():
    survey = MemoizedReports(ABC, "2", instant="0.3")
    told = [survey.epsilon_after(reports) for reports in (1, 10, 100, 10**6)]
    assert told == sorted(told)
    assert told[0] < 0.15
    assert told[-1] <= 2
    near = MemoizedReports.for_report(ABC, epsilon=2, report="0.4")
    assert 0.399 < near.epsilon_after(1) <= 0.4
    for wrong in (2, 3, 0, "x"):
        with pytest.raises(InvalidParameter):
            MemoizedReports.for_report(ABC, epsilon=2, report=wrong)
    with pytest.raises(InvalidParameter, match="report must be less than epsilon 2, got 3"):
        MemoizedReports.for_report(ABC, epsilon=2, report=3)


def test_what_is_remembered_stays():
    survey = MemoizedReports(ABC, 1000, instant=1000)
    kept = survey.remember("b")
    assert kept == Remembered((False, True, False))
    assert survey.repeat(kept) == [False, True, False]
    assert "True" not in f"{kept!r} {kept}"


@pytest.mark.parametrize("make", [KRandomizedResponse, UnaryEncoding, LocalHashing])
def test_practically_without_noise(make):
    survey = make(list("abcdefg"), 40)
    reports = survey.reports(["c", "c", "a", "g"])
    if make is UnaryEncoding:  # a one is told by a fair coin, zeros are sure
        assert not reports[:, 1].any()
        return
    assert survey.counts(reports)[0] >= 1
    assert survey.estimate(survey.reports(["c"] * 500)).found[2].low > 0.9


def test_malformed_reports_are_refused_and_values_are_not_shown():
    for survey, reports in [
        (KRandomizedResponse(ABC, 1), [0, 3]),
        (KRandomizedResponse(ABC, 1), [0.5]),
        (KRandomizedResponse(ABC, 1), [-1]),
        (UnaryEncoding(ABC, 1), [[True, False]]),
        (UnaryEncoding(ABC, 1), [[1, 0, 0]]),
        (UnaryEncoding(ABC, 1), [[True], [True, False]]),
        (LocalHashing(ABC, 1), [[0, 9]]),
        (LocalHashing(ABC, 1), []),
    ]:
        with pytest.raises(InvalidParameter):
            survey.counts(reports)
    with pytest.raises(InvalidParameter) as caught:
        KRandomizedResponse(ABC, 1).report("secret value")
    assert "secret" not in str(caught.value)
    for counts, people in (([1, 1, 9], 3), ([1, 1], 3), ([0, 0, 0], 0)):
        with pytest.raises(InvalidParameter):
            KRandomizedResponse(ABC, 1).estimate_counts(counts, people)
    with pytest.raises(InvalidParameter):
        KRandomizedResponse(ABC, 1).estimate([0], about="everybody")


@pytest.mark.parametrize("values", [["a"], "abc", ["a", "a"], [], None, [["a"], ["b"]]])
def test_values_are_a_list_of_different_ones(values):
    with pytest.raises(InvalidParameter):
        KRandomizedResponse(values, 1)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, "x", None, 2.0**-41])
def test_epsilon_is_checked(epsilon):
    for make in (KRandomizedResponse, UnaryEncoding, LocalHashing):
        with pytest.raises(InvalidParameter):
            make(ABC, epsilon)


def test_people_are_as_many_as_the_width_asks():
    for channel in local_channels(5, 1).values():
        people = people_needed(channel, values=5, within="0.05", beta="0.05")
        widest = max(0.0, min(1.0, (0.5 - channel.other) / (channel.held - channel.other)))
        assert channel.width(widest, people, 0.01) <= 0.05 < channel.width(widest, int(people * 0.98), 0.01)
        count = round(people * channel.chance(widest))
        low, high = channel.population(count, people, "0.01")
        if 0 < low < high < 1:
            assert (high - low) / 2 == pytest.approx(0.05, rel=0.01)
        rare = people_needed(channel, values=5, within="0.05", beta="0.05", share="0.01")
        assert rare <= people
    with pytest.raises(InvalidParameter):
        people_needed(Channel(0.5, 0.4999999999), values=2, within="1e-6", beta="0.05")
    for share in (0, 2):
        with pytest.raises(InvalidParameter):
            people_needed(Channel(0.5, 0.1), values=2, within="0.1", beta="0.05", share=share)


def test_what_many_reports_tell_is_rounded_up_and_never_fails():
    for parts in range(1, 200):
        daily = MemoizedReports(["a", "b"], Fraction(parts, 91), instant=5)
        assert Fraction(daily.epsilon_after(10**6)) >= Fraction(parts, 91)
    assert MemoizedReports(["a", "b"], 3000, instant=3000).epsilon_after(1) == 3000
