"""What is caught where noise is half as large as it should be, exactly, and the parts that this rests on."""

from dataclasses import replace
from fractions import Fraction
from math import isclose

import pyarrow as pa
import pytest

from chary.accounting import SharpTest
from chary.accounting.sharp_widths import draw_table
from chary.audit.auditor import audit_case, worst_cases
from chary.audit.enumeration import LOST, Enumeration, TooMany
from chary.audit.exact_audits import _hit_law, by_own_law, of_run
from chary.audit.transcripts import ReadOnce, kept, renyi
from chary.data import NeighborRelation, count
from chary.data.rows import Rooms
from chary.data.table import living
from chary.mechanisms import Distinct
from chary.mechanisms.boundaries import LabelDraws

# Of how much of its claim each audit is sure. A race pays for the best of its targets, which is not known before.
TIGHT = {
    "classify by two by draws: a hit": 0.99,
    "classify by draws: a hit": 0.99,
    "select by draws: a hit": 0.74,
    "agreed_test": 0.999,
    "agreed_watch": 0.999,
    "optimal threshold test of keys": 0.999,
    "best_of_call": 0.7,
}


@pytest.mark.parametrize("kind", TIGHT)
def test_half_the_noise_is_caught_exactly(kind):
    found = audit_case(worst_cases()[kind])
    assert found.exact
    assert found.passed
    assert found.caught
    assert found.measured > TIGHT[kind] * found.claimed


@pytest.mark.parametrize("depth", [0, 3])
def test_two_draws_of_a_label_are_enumerated(depth):
    draws = LabelDraws(draw_table(SharpTest(4, "0.5"), labels=2, steps=1), labels=2)
    law = Enumeration(lambda source: draws.step(1, depth, source)).law()
    lost = law.pop(LOST)
    assert 0 < lost < 1e-5
    assert isclose(law["1"], draws.clear_chance(depth), abs_tol=lost)
    assert isclose(law["0"], draws.other_chance(depth), abs_tol=lost)


def test_small_words_that_only_seem_alike_are_not_enumerated():
    """None of the runs that are tried sees the difference, and the last law is not the first."""

    def seldom(source):
        [small], [large] = source.words(1, 8), source.words(1, 64)
        return int(int(large) < int(small) << 48)

    with pytest.raises(TooMany, match="8 bits"):
        Enumeration(seldom).law()


def test_the_law_of_hits_must_follow_from_the_first_draw():
    def drawn(place):
        def publishing(source):
            words = [int(source.words(1, 64)[0]) for _ in range(9)]
            return [words, int(words[place] < 2**63)]

        return publishing

    law = _hit_law(drawn(0))
    assert isclose(law["[null,1]"], 0.5, abs_tol=law[LOST])
    with pytest.raises(TooMany):
        _hit_law(drawn(1))


def test_runs_that_keep_a_drawn_state_have_no_exact_audit():
    case = replace(worst_cases()["sparse_test"], priced=True, terms=renyi(4))
    with case.opened() as pair, pytest.raises(TooMany):
        of_run(case, pair, 1)


@pytest.mark.parametrize("part", ["phantoms", "least"])
def test_a_sketch_that_hides_an_element_half_as_well_is_caught(part, monkeypatch):
    case = worst_cases()["sketch_release_if"]
    with case.opened() as pair:
        honest = by_own_law(case, pair, 1)
        weaker = Distinct(2 * Fraction("0.0668"), 16)
        assert (weaker.phantoms, weaker.least) == (7, 3)
        monkeypatch.setattr(Distinct, part, getattr(weaker, part))
        broken = by_own_law(case, pair, 1)
    assert 0.96 * honest.claimed < honest.measured <= honest.claimed == 0.0668
    assert broken.measured > 1.9 * honest.measured


def test_a_round_is_held_against_what_it_says_of_itself():
    """Of 18 that are paid, the rest is kept for rounds of later rows."""
    found = audit_case(worst_cases()["sparse_weights_ask"], transcripts=8, power=False)
    assert isclose(found.claimed, 3.101, rel_tol=1e-3)
    assert found.passed


def test_living_units_are_kept_as_they_are_read():
    rows = ReadOnce.open(pa.table({"unit": [1, 2, 3]}), neighbor_relation=NeighborRelation("add_remove", "unit"))
    plan = living(rows, count())
    one = kept(plan)
    for spent in ([], [2]):
        rooms = Rooms(pa.table({"unit": pa.array(spent, pa.int64()), "room": [0] * len(spent)}), 1)
        for _ in range(2):
            with plan.at(rooms) as units, one.at(rooms) as again:
                assert units.answers().tolist() == again.answers().tolist() == [3 - len(spent)]
                assert units.of([0]).equals(again.of([0]))
    rows.end()
    assert kept(Fraction(1)) == 1
