"""What a ledger tells of all that was published: the same as the answers did, together, also after a restart."""

from fractions import Fraction

import numpy as np
import pytest

import chary
from chary import Budget, count, mean
from chary.calls import Choose, IndividualTests, OnChange, PrepaidTests, ReleaseIf, SparseVector, TopK, Widen
from chary.core.plan import Data
from chary.errors import InvalidParameter, NotWithheld
from chary.noise import Seeded
from chary.session import findings
from tests.session.kit import CLINICS, PAID

BUDGET = Budget(epsilon=60, delta=1e-6)
EVERY = count().by("clinic", CLINICS)
EPSILON = "0.2"
COSTS = chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=2)


def asked(session):
    """A call of each kind that publishes values with known noise, and some that do not."""
    held = session.release_if(count(), above=100, epsilon=EPSILON)
    sparse = session.start(SparseVector(above=20, hits=4, epsilon=5, values=True))
    agreed = session.start(PrepaidTests(tests=9, hits=9, part="0.05", misses="0.2", value="0.3"))
    stream = session.start(IndividualTests(epsilon=EPSILON, hits=3))
    session.ask(Choose(EVERY, epsilon=EPSILON))
    session.test(count(), above=20, epsilon=EPSILON)
    session.test(EVERY, above=20, epsilon=EPSILON)
    session.ask(OnChange(COSTS, step=300, epsilon=EPSILON))
    answers = [
        session.release_if(EVERY, above=10, epsilon=EPSILON),
        session.release_if(EVERY, above=10, hits=20),
        session.ask(Widen(held.call, above=5)),
        session.ask(TopK(EVERY, k=2, epsilon=EPSILON, gap=100)),
        session.release(COSTS, epsilon=EPSILON),
        session.release(EVERY, rho="0.1"),
        session.ask(OnChange(COSTS, step=30, epsilon=EPSILON)),
        sparse.ask(EVERY),
        sparse.ask(count(), above=30),
        agreed.ask(EVERY, above=20),
        agreed.ask(count(), above=20),
        stream.ask(EVERY, above=10),
        stream.ask(count(), above=10),
        session.release(mean("cost", bounds=(0, 20), max_rows_per_unit=1), epsilon=1),
    ]
    assert len(answers[-1].findings) == 1
    return answers, (sparse.call, agreed.call, stream.call)


@pytest.fixture
def told(opened):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(4))
    return session, *asked(session)


def test_a_ledger_retells_every_finding_in_order(told):
    session, answers, _ = told
    expected = sorted((found for answer in answers for found in answer.findings), key=lambda found: found.call)
    assert len(expected) > 12
    assert list(findings(session)) == expected
    told_rows = sorted((row for answer in answers for row in answer.findings.rows()), key=lambda row: row["call"])
    assert findings(session).rows() == told_rows


def test_a_run_has_its_own_and_knows_how_many_there_can_be(told):
    session, answers, (sparse, agreed, stream) = told
    for run, own, most in ((sparse, answers[7:9], 4), (agreed, answers[9:11], 9), (stream, answers[11:13], None)):
        found = findings(session, run=run)
        assert list(found) == [finding for answer in own for finding in answer.findings]
        assert (found.most, found.settled) == (most, False)


def test_the_ledger_knows_how_many_tests_were_made(told):
    session, _, _ = told
    made = sum(entry.tests for entry in session.history)
    found = findings(session)
    assert len(found) < found.made <= made
    with pytest.raises(InvalidParameter, match="were made already"):
        found.intervals(simultaneous=True, tests=found.made - 1)
    wide = found.intervals(simultaneous=True, tests=found.made)
    each = found.intervals()
    assert all(low <= low_alone for (low, _), (low_alone, _) in zip(wide, each, strict=True))
    assert all(high >= high_alone for (_, high), (_, high_alone) in zip(wide, each, strict=True))


def test_it_is_the_same_after_a_restart(opened, tmp_path):
    place = tmp_path / "visits.ledger"
    first = opened(ledger=place, budget=BUDGET, unsafe_noise=Seeded(4))
    asked(first)
    before = findings(first).rows(simultaneous=True)
    first.close()
    assert findings(opened(ledger=place, budget=BUDGET)).rows(simultaneous=True) == before


def test_a_call_that_opened_no_such_run(told):
    session, answers, _ = told
    for number in (answers[0].call, 10**6, 0):
        with pytest.raises(NotWithheld):
            findings(session, run=number)


def test_an_empty_ledger(opened):
    found = findings(opened())
    assert (len(found), list(found.intervals(simultaneous=True)), len(found.list(fdr="0.1"))) == (0, [], 0)


def test_known_ranges_cut_what_is_told(opened):
    """Counts are never below 0; a total of both signs may be anything, one of negative values is at most 0."""
    session = opened(budget=BUDGET, unsafe_noise=Seeded(3))
    empty = count("age > 1000")
    debts = chary.sum("cost", bounds=(-20, 0), max_rows_per_unit=1)
    both = chary.sum("cost", bounds=(-20, 20), max_rows_per_unit=1)
    for _ in range(20):
        assert session.release(empty, epsilon=EPSILON).interval[0] >= 0
        assert session.release_if(empty, above=-100, epsilon=EPSILON).interval[0] == 0
        assert session.release(debts, epsilon="0.001").interval[1] <= 0
    assert session.release_if(both, above=-(10**6), epsilon="0.001").interval[0] < 0
    assert all(row["low"] >= 0 for row in session.release(EVERY, epsilon="0.01"))


@pytest.mark.parametrize("truths", [(0, 0, 0), (60, 60, 60), (0, 130, 300)])
def test_all_keys_of_a_watch_at_once_published_or_not(opened, truths):
    """At alpha 1e-6; the intervals of hits alone, each by itself, fail more often where there are several."""
    session, source, runs = opened(budget=BUDGET), Seeded(8), 500
    watch = ReleaseIf(EVERY, above=100, epsilon="0.05").plan(session.spine)
    missed = 0
    for _ in range(runs):
        ran = watch.run(Data([np.array(truths)], source, None, None, PAID))
        ends = watch.present(ran.answer, 1).together("0.8").values()
        assert len(ends) == 3
        missed += not all(
            (low is None or low <= x) and (high is None or x <= high)
            for (low, high), x in zip(ends, truths, strict=True)
        )
    assert missed / runs <= 0.2 + 5 * (0.2 * 0.8 / runs) ** 0.5


def test_what_was_not_published_is_not_far_above_the_bar(opened):
    session = opened(budget=BUDGET)
    found = ReleaseIf(EVERY, above=100, epsilon="0.05").plan(session.spine)
    answer = found.present({"tested": 3, "positions": [1], "noisy": [400]}, 1)
    assert (answer.others_at_most, answer.together()["north"]) == (167, (0, 181))
    everything = found.present({"tested": 3, "positions": [0, 1, 2], "noisy": [400] * 3}, 1)
    assert everything.others_at_most is None


def test_what_sharp_and_sparse_tests_do_not_report_is_not_far_above_the_bar(told):
    """At the bound each test is missed at most so often that all keys together are right 95 times in 100."""
    _, answers, _ = told
    each = Fraction(1, 20) / len(CLINICS)
    sharp, sparse, agreed = answers[1], answers[7], answers[9]
    for answer, bar in ((sharp, 10), (sparse, 20), (agreed, 20)):
        silence = answer.silence
        [most] = {silence.truths(1 - each).high}
        assert most == max(0, bar - 1 + silence.tails.miss_reach_up(each))
        assert answer.others_at_most == (most if answer.hits < answer.tested else None)
        silent = [key for key in answer.together() if key not in answer.value]
        assert all(answer.together()[key][1] >= most for key in silent)


@pytest.mark.parametrize("values", [False, True])
def test_nothing_published_of_a_key_says_something_without_values_too(opened, values):
    session = opened(budget=BUDGET, unsafe_noise=Seeded(5))
    agreed = session.start(PrepaidTests(tests=9, hits=9, part="0.5", misses="0.2", value="0.3" if values else None))
    sparse = session.start(SparseVector(above=900, hits=4, epsilon=5, values=values))
    published = session.start(SparseVector(above=900, hits=4, epsilon=5, mechanism="published"))
    for answer in (agreed.ask(EVERY, above=900), sparse.ask(EVERY), published.ask(EVERY)):
        assert not answer.above
        assert 899 <= answer.others_at_most < 1100
        assert set(answer.together().values()) == {(0, answer.silence.truths(1 - Fraction(1, 40) / len(CLINICS)).high)}
    assert published.ask(EVERY).silence.thresholds == 4


def test_error_bars_are_gone_where_they_would_be_false(told):
    _, answers, _ = told
    watched, sharp, revised = answers[:3]
    assert (watched.error_bar, revised.error_bar, answers[11].error_bar, answers[12].error_bar) == (None,) * 4
    assert sharp.error_bar > 0
    assert not hasattr(answers[3], "error_bar")
    assert all(answers[place].error_bar > 0 for place in (4, 5, 7, 9))


def test_a_conditional_release_says_that_it_may_be_false(opened):
    asked = ReleaseIf(count(), above=100, epsilon="0.05").plan(opened(budget=BUDGET).spine)
    near, far = (asked.present({"value": value}, 1).to_dict() for value in (110, 400))
    assert (near["caution"], far["caution"]) == ("may be a false alarm: no lower end", None)
