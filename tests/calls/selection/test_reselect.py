"""Selections that hold what they do not publish, and their revisions: one hit for each candidate in all."""

import math
from fractions import Fraction
from itertools import product

import pytest

from chary import Algorithm, Budget, InvalidParameter, NotWithheld, count
from chary.accounting import Extendable, Targeted, hit_price_up
from chary.amounts import Amount
from chary.calls import Select, ThresholdTest, When, Widen
from tests.session.kit import hit_of, spent

SCORES = {"low": 1, "mid": 5, "high": 9}
ROOMY = {"grain": "0.01", "budget": Budget(epsilon=2, delta=1e-6)}
ANY = When("any", lambda outcome: True)


def scoring(name, score=None, epsilon="0.01", delta=0):
    runs = []
    told = SCORES.get(name) if score is None else score
    made = Algorithm(name, lambda rows, source: runs.append(1) or [told, {"runs": len(runs)}], epsilon, delta)
    return made


def three(**options):
    return [scoring(name, **options) for name in SCORES]


def test_a_lower_bar_publishes_what_was_held_and_runs_nothing_again(opened):
    session = opened(**ROOMY)
    first = session.ask(Select(three(), above=8, room=64))
    assert first.value == {"high": 9}
    before = spent(session)
    found = session.ask(Widen(first.call, above=4))
    assert (found.value, found.names, found.tested) == ({"mid": 5}, ("low", "mid", "high"), 3)
    assert found.above[0].solution == {"runs": 1}
    assert spent(session) - before == hit_of(session, Extendable("0.01"))
    assert session.ask(Widen(first.call, above=4)).value == {}
    assert session.ask(Widen(first.call, when=ANY)).value == {"low": 1}
    assert session.ask(Widen(first.call, when=ANY)).value == {}
    assert spent(session) == hit_of(session, Targeted("0.01")).times(3)


def test_any_order_of_bars_costs_the_same_in_the_end(opened):
    """Metamorphic: all at once, one by one, or by conditions."""
    totals = set()
    low = When("low", lambda outcome: outcome[0] < 3)
    for steps in ([], [{"above": 0}], [{"above": 4}, {"above": 0}], [{"when": low}, {"above": 0}], [{"when": ANY}]):
        session = opened(**ROOMY)
        first = session.ask(Select(three(), above=8 if steps else 0, room=64))
        told = set(first.value)
        for step in steps:
            told |= set(session.ask(Widen(first.call, **step)).value)
        assert told == set(SCORES)
        totals.add(spent(session))
    assert len(totals) == 1


def test_it_goes_on_after_a_restart_and_repeats_its_answer(opened, tmp_path):
    place = tmp_path / "visits.ledger"
    session = opened(**ROOMY, ledger=place)
    number = session.ask(Select(three(), above=8, room=64)).call
    session.close()
    again = opened(**ROOMY, ledger=place)
    found = again.ask(Widen(number, above=4), request="lower")
    before = spent(again)
    assert again.ask(Widen(number, above=4), request="lower") == found
    assert spent(again) == before


def test_it_halts_where_the_budget_ends_and_later_candidates_stay_held(opened):
    session = opened(grain="0.02", budget=Budget(epsilon="0.9", delta=1e-6))
    many = [Algorithm(f"of {i}", lambda rows, source: [1, None], "0.02") for i in range(60)]
    first = session.ask(Select(many, above=2, room=32))
    assert spent(session) == Amount(0)
    found = session.ask(Widen(first.call, above=0))
    assert 0 < len(found.above) == found.tested < 60
    assert found.untested == found.names[found.tested :]
    assert spent(session) == hit_of(session, Extendable("0.02")).times(len(found.above))


def test_what_was_charged_hit_or_miss_is_free_to_revise(opened):
    session = opened(budget=Budget(epsilon=2))
    first = session.ask(Select(three(), above=8, room=64))
    before = spent(session)
    assert before == hit_of(session, Targeted("0.01")).times(3)
    assert session.ask(Widen(first.call, above=0)).value == {"low": 1, "mid": 5}
    assert spent(session) == before


def test_deltas_are_paid_once(opened):
    session = opened(**ROOMY, delta_reserve="1e-7")
    first = session.ask(Select(three(delta="1e-9"), above=10, room=64))
    assert spent(session) == Amount(0, 3 * 10**9)
    session.ask(Widen(first.call, above=8))
    assert spent(session).delta == 3 * 10**9


def test_a_condition_that_raises_is_a_hit_that_failed_and_ends_what_was_held(opened):
    session = opened(**ROOMY)
    first = session.ask(Select(three(), above=99, room=64))
    raising = When("raises at five", lambda outcome: 1 / (outcome[0] - 5) > 1)
    found = session.ask(Widen(first.call, when=raising))
    assert [(chosen.name, chosen.failed) for chosen in found.above] == [("mid", True)]
    assert spent(session) == hit_of(session, Extendable("0.01"))
    assert session.ask(Widen(first.call, when=ANY)).value == {"low": 1, "high": 9}


def test_what_does_not_fit_has_failed(opened):
    session = opened(**ROOMY)
    long = Algorithm("long", lambda rows, source: [1, "x" * 100], "0.01")
    first = session.ask(Select([long, scoring("low")], above=8, room=64))
    assert session.ask(Widen(first.call, when=ANY)).value == {"low": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Select(["age > 3"], above=1, epsilon="0.01", room=9),
        lambda: Select(three(), above=1, room=0),
        lambda: Select(three(), above=1, room=2**24),
        lambda: Widen(1),
        lambda: Widen(1, above=1, when=ANY),
    ],
)
def test_what_holds_nothing_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_an_unknown_selection(opened):
    session = opened(**ROOMY)
    bare = session.ask(Select(three(), above=8)).call
    counted = session.ask(Select(["age > 30"], above=1, epsilon="0.01")).call
    tested = session.ask(ThresholdTest(count(), above=10**9, epsilon="0.01")).call
    before = spent(session)
    for number in (bare, counted, tested, 99):
        with pytest.raises(NotWithheld):
            session.ask(Widen(number, above=0))
    assert spent(session) == before


def worst_reviser(order, epsilon, candidates=2, discount=1.0):
    """The largest E[(P0/P1)^a e^(-charged)] over a first set of outcomes and adaptive extensions of it.

    Every candidate answers 0, 1 or 2, by randomized response mixed with a common part.
    """
    p = 1 / (1 + math.exp(-float(epsilon)))
    law = [(0.6 * p, 0.6 * (1 - p)), (0.6 * (1 - p), 0.6 * p), (0.4, 0.4)]
    price = discount * float(hit_price_up(Targeted(epsilon), Fraction(order)))

    def worth(left, charged):
        """`left` are the sets of outcomes that each candidate may still hold, None where it was published."""
        held = [part for part in left if part is not None]
        total = math.prod(
            sum(law[outcome][0] for outcome in part) ** order * sum(law[outcome][1] for outcome in part) ** (1 - order)
            for part in held
            if part
        )
        best = math.exp(-charged) * total if all(held) else 0.0
        for added in (0, 1, 2):
            if any(part and added in part for part in held):
                best = max(best, extended(left, added, charged))
        return best

    def extended(left, added, charged):
        places = [place for place, part in enumerate(left) if part and added in part]
        total = 0.0
        for hits in product((0, 1), repeat=len(places)):
            moved, weight = list(left), 1.0
            for place, hit in zip(places, hits, strict=True):
                moved[place] = None if hit else left[place] - {added}
                weight *= law[added][0] ** order * law[added][1] ** (1 - order) if hit else 1.0
            if all(part is None or part for part in moved):
                total += weight * worth(tuple(moved), charged + price * sum(hits))
        return total

    return worth((frozenset((0, 1, 2)),) * candidates, 0.0)


def test_no_reviser_gets_more_than_one_hit_a_candidate_pays():
    assert worst_reviser(6, Fraction(1, 10)) <= 1 + 1e-11
    assert worst_reviser(6, Fraction(1, 10), discount=0.3) > 1.01
