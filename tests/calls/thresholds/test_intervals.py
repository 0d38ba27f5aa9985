"""Intervals of what is published because of its value: true 95 times in 100, given that it was published."""

from functools import partial

import numpy as np
import pytest

from chary import Budget, InvalidParameter, count
from chary.calls import Alert, IndividualTests, OnChange, ReleaseIf, Widen
from chary.calls.thresholds import rounded
from chary.core.plan import Data, laplace_for
from chary.noise import Seeded
from tests.session.kit import CLINICS, PAID, PUBLIC, USUAL

BUDGET = Budget(epsilon=50, delta=1e-6)
EPSILON = "0.05"
EVERY = count().by("clinic", CLINICS)
RUNS = 800
# Five standard deviations of a share of misses of 5 %.
TOLERATED = 0.05 + 5 * (0.05 * 0.95 / RUNS) ** 0.5


def told(interaction, truths, source):
    """The answer to so many exact values, as the analyst sees it."""
    ran = interaction.run(Data([np.array(truths)], source, None, None, PAID))
    return interaction.present(ran.answer, 1)


def missed(interval, truth):
    low, high = interval
    return (low is not None and truth < low) or (high is not None and truth > high)


@pytest.mark.parametrize("truth", [60, 100, 140])
def test_hits_of_a_watch_and_conditional_releases_whatever_the_truth(opened, truth):
    session, source = opened(budget=BUDGET), Seeded(3)
    watch = ReleaseIf(EVERY, above=100, epsilon=EPSILON).plan(session.spine)
    single = ReleaseIf(count(), above=100, epsilon=EPSILON).plan(session.spine)
    usual, found, bar = [], [], watch.forecast().error_bar
    while len(found) < RUNS:
        many = told(watch, [truth] * 3, source)
        found += [missed((row["low"], row["high"]), truth) for row in many if row["hit"]]
        usual += [abs(value - truth) > bar for value in many.above.values()]
        one = told(single, truth, source)
        found += [missed(one.interval, truth)] if one.hit else []
    assert np.mean(found) < TOLERATED
    if truth <= 60:
        assert np.mean(usual) > 0.2


def test_a_value_near_its_bar_has_no_lower_end(opened):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(2))
    interaction = ReleaseIf(EVERY, above=100, epsilon=EPSILON).plan(session.spine)
    answer = {"tested": 3, "positions": [0, 1], "noisy": [150, 400]}
    rows = interaction.present(answer, 1).rows()
    assert [(row["low"], row["high"]) for row in rows] == [(0, 208), (340, 460), (None, None)]
    assert [row["caution"] for row in rows] == ["may be a false alarm: no lower end", None, None]
    assert interaction.present(answer, 1).error_bar is None


def test_a_revision_knows_that_the_value_lay_below_the_last_bar(opened):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(4))
    missing = []
    for _ in range(120):
        held = session.release_if(count(), above=90, epsilon=EPSILON)
        if held.hit:
            continue
        again = session.ask(Widen(held.call, above=20))
        if again.hit:
            missing.append(missed(again.interval, 50))
            assert again.publication.support.highest == 89
    assert len(missing) > 25
    assert np.mean(missing) < 0.05 + 5 * (0.05 * 0.95 / len(missing)) ** 0.5


def test_an_interval_is_two_ends_in_json_whoever_worked_it_out(opened):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(2))
    interaction = ReleaseIf(count(), above=100, epsilon=EPSILON).plan(session.spine)
    ends = [interaction.present({"value": value}, 1).to_dict()["interval"] for value in (150, 400)]
    assert ends == [[0, 208], [340, 460]]
    assert session.release(count(), epsilon=EPSILON).to_dict()["interval"][0] < 100


def noise_of(session):
    return laplace_for(count(), session.spine.rows.neighbor_relation, EPSILON)


def since_zero(asked, session):
    """The question after an answer of 0."""
    return rounded(asked, count(), session.spine.rows.neighbor_relation, noise_of(session), 0)


@pytest.mark.parametrize("truth", [35, 240])
def test_a_change_of_a_tracked_answer(opened, truth):
    """The last answer was 0, so most changes of a truth of 0 are noise."""
    session, source = opened(budget=BUDGET), Seeded(9)
    asked = OnChange(count(), step=80, epsilon=EPSILON)
    interaction = since_zero(asked, session)
    found = []
    for _ in range(6_000):
        answer = told(interaction, truth, source)
        found += [missed(answer.interval, truth)] if answer.changed else []
        if len(found) == RUNS:
            break
    assert len(found) > 100
    assert np.mean(found) < 0.05 + 5 * (0.05 * 0.95 / len(found)) ** 0.5


def test_an_answer_that_did_not_change_misses_at_most_one_side_of_all_askings(opened):
    """Given that nothing changed it can miss always, so that is not what it says."""
    session = opened(budget=BUDGET)
    asked = OnChange(count(), step=80, epsilon=EPSILON)
    interaction = since_zero(asked, session)
    low, high = interaction.present({"value": 0, "hit": False, "prior": 0}, 1).interval
    law, first, last = noise_of(session).law(), -40, 39
    unchanged_above, unchanged_below = (law.at_least_up(int(end)) for end in (high + 1 - last, first - (low - 1)))
    assert 0.015 < float(unchanged_above) < 0.025
    assert 0.015 < float(unchanged_below) < 0.025


def test_streams_tell_the_same(opened):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(1))
    stream = session.start(IndividualTests(epsilon=EPSILON, hits=3))
    ask = partial(stream.ask, above=-1000)
    assert ask(count()).interval[0] is None or ask(count()).interval[0] > -1100
    rows = [row for row in ask(EVERY) if row["hit"]]
    assert all(row["low"] is not None for row in rows)


def test_a_miss_does_not_pass_for_a_hit(opened):
    session = opened(budget=USUAL, **PUBLIC)
    for asked in (
        session.release_if(count(), above=10**6, hits=20),
        session.release_if(count().by("clinic", ["north", "south"]), above=10**6, hits=20),
        session.start(Alert(count(), above=10**6, hits=20)).ask(),
    ):
        with pytest.raises(InvalidParameter, match=r"if answer\.hit"):
            bool(asked)
        assert not asked.hit
    assert session.release(count(), epsilon="0.1")
    assert session.release(count().by("clinic", ["north"]), epsilon="0.1")
    assert not session.test(count(), above=10**6, hits=20)
