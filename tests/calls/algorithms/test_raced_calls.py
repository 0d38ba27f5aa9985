"""A race of calls of any kind: every target counts at its own price, and the least counter is what is paid."""

import json
import math
import random
from fractions import Fraction
from functools import cache, partial
from itertools import product

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, InvalidParameter, NotPriced, count
from chary.accounting import BestOf, BoundaryCall, NarrowChoice, Pure, Targeted, TwiceCall, hit_price_up
from chary.calls import (
    Boundary,
    Choose,
    Classify,
    ExponentialMechanism,
    MultiTarget,
    PublishIf,
    RunAlgorithm,
    ThresholdTest,
    When,
)
from chary.calls import compute as racing
from chary.calls.algorithm import ScoreFunction
from chary.core.plan import Result
from chary.filters import Listing
from tests.conformance.samples import KINDS, even, fixed
from tests.session.kit import CLINICS, spent

RACED = {"test", "classify", "boundary", "call"}
ROOM = {"grain": "0.02", "budget": Budget(epsilon=3, delta=1e-6)}
FAR = 10**9


def letters(value, epsilon="0.01", **options):
    return fixed(value, epsilon, outcomes=["a", "b", "c"], **options)


def hit(session, event):
    return session.spine.filter.price(event).hit.main


def counters(session, race):
    return json.loads(session.spine.ledger.secret(race.call))


LARGE = When("large", lambda value: value > 9)
# A question, what is said of its two targets, which of them are hit, and their events.
ASKED = {
    "a test by its own target and the other way round": (
        lambda: ThresholdTest(count(), above=-FAR, epsilon="0.01"),
        ({}, {"prior": True}),
        "a",
        (Targeted("0.01"), Targeted("0.01")),
    ),
    "a zone": (
        lambda: Classify(count(), low=-FAR, high=FAR, epsilon="0.01"),
        ({}, {"prior": "between"}),
        "a",
        (None, Targeted("0.01")),
    ),
    "a decision": (
        lambda: Classify(count(), above=-FAR, epsilon="0.01"),
        ({}, {"prior": False}),
        "b",
        (BoundaryCall("0.01", 2), Targeted(BoundaryCall("0.01", 2).epsilon)),
    ),
    "q-targets of an algorithm": (
        lambda: letters("b"),
        ({"target": ["b"], "q": "0.3"}, {"target": ["a"], "q": "0.45"}),
        "a",
        (Targeted("0.01", "0.3"), Targeted("0.01", "0.45")),
    ),
    "a condition and a prior": (
        lambda: RunAlgorithm(fixed(12)),
        ({"hit": LARGE, "q": "0.2"}, {"prior": 12}),
        "a",
        (Targeted("0.01", "0.2"), Targeted("0.01")),
    ),
    "an algorithm by the target it brings": (
        lambda: RunAlgorithm(fixed(12), prior=3),
        ({}, {"prior": 12}),
        "a",
        (Targeted("0.01"), Targeted("0.01")),
    ),
    "two runs": (
        lambda: Boundary(fixed(1), runs=2, publish=True),
        ({}, {"prior": [1, 2]}),
        "b",
        (TwiceCall("0.01"), Targeted("0.02")),
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_each_target_counts_at_its_own_price(opened, name):
    make, said, hits, events = ASKED[name]
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    call, opening = make(), spent(session).main
    found = race.ask(call, targets=dict(zip("ab", said, strict=True)))
    own = call.plan(session.spine).event if events[0] is None else events[0]
    prices = [hit(session, event) for event in (own, events[1])]
    assert "".join(found.hits) == hits
    assert counters(session, race) == [price * (name in hits) for name, price in zip("ab", prices, strict=True)]
    assert spent(session).main == opening
    race.ask(fixed(1), priors={"a": 2, "b": 2})
    assert spent(session).main - opening == hit(session, Targeted("0.01"))


@pytest.mark.parametrize("seed", range(3))
def test_a_random_race_pays_the_least_counter_and_what_was_too_large_in_full(opened, tmp_path, seed):
    """A model of its own, from what was published alone; also after the ledger was opened again."""
    draw, place = random.Random(seed), tmp_path / "visits.ledger"
    options = {"budget": Budget(epsilon=8, delta=1e-6), "grain": "0.1", "ledger": place}
    session = opened(**options)
    race = session.start(MultiTarget(["a", "b", "c"]))
    held, full, opening = dict.fromkeys("abc", 0), 0, spent(session).main
    for _ in range(14):
        epsilon, value = draw.choice(["0.02", "0.08", "0.5"]), draw.choice("abc")
        targets = {name: {"prior": draw.choice("abc")} for name in "abc"}
        targets[draw.choice("abc")] = {"target": ["a"], "q": "0.3"}
        found = race.ask(letters(value, epsilon), targets=targets)
        prices = {name: session.spine.filter.price(Targeted(epsilon, said.get("q"))) for name, said in targets.items()}
        if all(price.free_miss for price in prices.values()):
            for name in found.hits:
                held[name] += prices[name].hit.main
        else:
            full += max(price.hit.main for price in prices.values() if not price.free_miss)
        assert spent(session).main == opening + full + min(held.values())
        assert counters(session, race) == list(held.values())
        assert set(found.hits) == {
            name for name, said in targets.items() if (value != said["prior"] if "prior" in said else value == "a")
        }
    before = len(session.history)
    session.close()
    again = opened(**options)
    assert len(again.history) == before
    assert counters(again, race) == list(held.values())
    assert again.spine.ledger.verify().ok


@pytest.mark.parametrize("broken", [False, True])
def test_calls_of_both_kinds_are_looked_at_when_a_ledger_is_opened(opened, tmp_path, monkeypatch, broken):
    """Counters that follow from both are left alone; those of the earlier rule are set right beside the newer calls."""
    options = {"budget": Budget(epsilon=4, delta=1e-6), "grain": "0.1", "ledger": tmp_path / "visits.ledger"}
    session = opened(**options)
    race = session.start(MultiTarget(["a", "b"]))
    race.ask(letters("b", "0.08"), targets={"a": {"prior": "a"}, "b": {"target": ["a"], "q": "0.3"}})
    with monkeypatch.context() as patched:
        if broken:
            patched.setattr(racing, "risen", lambda before, hits, full: (before | {"b": before["b"] + 5}, 0))
        race.ask(letters("b", "0.08"), priors={"a": "a", "b": "a"})
    race.ask(RunAlgorithm(letters("b", "0.5")), targets={"a": {"prior": "a"}, "b": {"prior": "a"}})
    small, large = hit(session, Targeted("0.08")), hit(session, Targeted("0.5"))
    session.close()
    again = opened(**options)
    assert counters(again, race) == [2 * small, small]
    assert spent(again).main == hit(again, BestOf(2)) + large + small
    assert [entry.kind for entry in again.history].count("best_of_repair") == broken


def test_both_ways_to_say_priors_cost_the_same(opened):
    session = opened(**ROOM)
    told = []
    for ask in (
        lambda race, value: race.ask(letters(value), priors={"a": "a", "b": "b"}),
        lambda race, value: race.ask(RunAlgorithm(letters(value)), priors={"a": "a", "b": "b"}),
        lambda race, value: race.ask(letters(value), targets={"a": {"prior": "a"}, "b": {"hit": NOT_B}}),
    ):
        race, before = session.start(MultiTarget(["a", "b"])), spent(session).main
        found = [ask(race, value).hits for value in "abbca"]
        told.append((found, counters(session, race), spent(session).main - before))
    assert told[0] == told[1] == told[2]


NOT_B = When("not b", lambda value: value != "b")


def test_the_order_of_calls_and_the_names_of_targets_do_not_matter(opened):
    session = opened(**ROOM)
    totals = set()
    for order in ("abcab", "bacba", "cabba"):
        race, before = session.start(MultiTarget(["a", "b"])), spent(session).main
        for value in order:
            said = [("a", {"prior": "a"}), ("b", {"target": ["c"], "q": "0.4"})]
            race.ask(letters(value), targets=dict(said if value == "a" else said[::-1]))
        totals.add((spent(session).main - before, *counters(session, race)))
    assert len(totals) == 1


def test_what_has_no_price_per_hit_for_one_target_is_paid_in_full(opened):
    session = opened(**ROOM)
    race, before = session.start(MultiTarget(["a", "b"])), spent(session).main
    race.ask(RunAlgorithm(fixed(1)), targets={"a": {}, "b": {"prior": 1}})
    assert spent(session).main - before == hit(session, Pure("0.01"))
    assert counters(session, race) == [0, 0]


@pytest.mark.parametrize(
    "asked",
    [
        lambda: (fixed(math.nan), {"a": {"prior": 1}, "b": {"prior": 2}}),
        lambda: (fixed(1), {"a": {"prior": 1}, "b": {"hit": When("raises", lambda value: value / 0), "q": "0.3"}}),
    ],
)
def test_what_fails_hits_all(opened, asked):
    session = opened(**ROOM)
    race, before = session.start(MultiTarget(["a", "b"])), spent(session).main
    call, targets = asked()
    with pytest.raises(AlgorithmFailed):
        race.ask(call, targets=targets)
    assert spent(session).main - before == min(counters(session, race)) > 0
    assert "value" not in json.dumps(session.history[-1].answer)


def test_a_quote_promises_no_value_where_none_is_told(opened):
    race = opened(**ROOM).start(MultiTarget(["a", "b"]))
    quote = race.quote(ThresholdTest(count(), above=9, epsilon="0.01"), targets={"a": {}, "b": {"prior": True}})
    assert quote.error_bar is None
    assert quote.wrong_call is not None


@pytest.mark.parametrize("reach", [1, 2])
def test_groups_are_raced_as_one_outcome_by_a_prior(opened, reach):
    """Where neighbours can differ in several of them, their own target has no single price."""
    session = opened(**ROOM)
    race, before = session.start(MultiTarget(["a", "b"])), spent(session)
    query = count().by("clinic", CLINICS, max_groups_per_unit=reach)
    asked = ThresholdTest(query, above=FAR, epsilon="0.01")
    if reach > 1:
        with pytest.raises(InvalidParameter, match="say a prior"):
            race.ask(asked, targets={"a": {}, "b": {"prior": []}})
        assert (len(session.history), spent(session)) == (1, before)
    found = race.ask(asked, targets={"a": {"prior": []}, "b": {"prior": [["north", None]]}})
    assert (found.value, found.hits) == ([], ("b",))
    assert counters(session, race) == [0, hit(session, Targeted(Fraction(reach, 100)))]


FORMS = {
    **{kind: (KINDS[kind],) for kind in RACED},
    "test": (KINDS["test"], lambda: ThresholdTest(count(), above=5, hits=9)),
    "classify": (
        KINDS["classify"],
        lambda: Classify(count().by("clinic", CLINICS), hits=9),
        *(partial(Classify, count(), low=5, high=9, **way) for way in ({"hits": 9}, {"epsilon": "0.01"})),
        *(partial(Classify, count(), above=5, **way) for way in ({"hits": 9}, {"epsilon": "0.01"})),
    ),
    "boundary": (
        KINDS["boundary"],
        lambda: Boundary(fixed(1), runs=3),
        lambda: Boundary(fixed(1), runs=2, publish=True),
    ),
    "call": (
        KINDS["call"],
        lambda: RunAlgorithm(fixed(1), prior=2),
        lambda: RunAlgorithm(fixed(1, None, rho="0.01")),
    ),
}


@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind in sorted(FORMS) for form in range(len(FORMS[kind]))])
def test_what_may_be_raced_prices_and_settles_as_every_call_does(opened, kind, form):
    """A call that is priced by what it holds, or by an earlier one, would be free on account of the race."""
    spine = opened(**ROOM).spine
    plan = FORMS[kind][form]().plan(spine)
    price, cost = plan.price(spine.filter), plan.cost
    assert price == spine.filter.price(plan.event)
    assert (plan.state, cost.parts, cost.most, cost.halts, cost.adds_up) == (None, 1, 1, False, True)
    assert plan.worst(price) == price.hit
    assert [cost.final(price, Result({}, hits, 1), 1) for hits in (0, 1)] == [price.miss, price.hit]


@pytest.mark.parametrize(
    "targets",
    [
        {"a": {}},
        {"a": {}, "b": {}, "c": {}},
        {"a": 1, "b": {}},
        {"a": {"prior": 1, "target": [1]}, "b": {}},
        {"a": {"else": 1}, "b": {}},
        {"a": {"q": "0.3"}, "b": {}},
        {"a": {"target": [True]}, "b": {}},
        {"a": {"prior": True, "q": "0.9"}, "b": {}},
        {"a": {"hit": LARGE}, "b": {}},
    ],
)
def test_what_is_no_target_is_refused(opened, targets):
    """Nobody but an algorithm's author may state a q."""
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    with pytest.raises(InvalidParameter):
        race.ask(ThresholdTest(count(), above=5, epsilon="0.01"), targets=targets)
    assert len(session.history) == 1


def test_one_of_priors_and_targets(opened):
    race = opened(**ROOM).start(MultiTarget(["a", "b"]))
    for said in ({}, {"priors": {"a": 1, "b": 1}, "targets": {"a": {}, "b": {}}}):
        with pytest.raises(InvalidParameter):
            race.ask(fixed(1), **said)
    with pytest.raises(InvalidParameter):
        race.ask(count(), targets={"a": {}, "b": {}})


def test_sharp_tests_are_raced_by_their_own_target_alone(opened):
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    sharp = ThresholdTest(count(), above=-FAR, hits=9)
    found = race.ask(sharp, targets={"a": {}, "b": {}})
    assert (found.value, found.hits) == (True, ("a", "b"))
    with pytest.raises(InvalidParameter):
        race.ask(sharp, targets={"a": {}, "b": {"prior": True}})


def test_a_classification_and_a_boundary_under_a_request_are_told_again(opened):
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    for call in (Classify(count().by("clinic", CLINICS), epsilon="0.01"), Boundary(even())):
        first = race.ask(call, targets={"a": {}, "b": {"prior": "north"}}, request=call.kind)
        before = spent(session)
        assert race.ask(call, targets={"a": {}, "b": {"prior": "north"}}, request=call.kind) == first
        assert spent(session) == before


def test_it_is_asked_under_the_exact_filter(opened):
    menu = [Listing(Targeted("0.02"), 1), Listing(Targeted("0.02", "0.3"), 2), Listing(BestOf(2), 3)]
    session = opened(menu=menu, budget=Budget(epsilon=2, delta=1e-6))
    race = session.start(MultiTarget(["a", "b"]))
    opening = spent(session).main
    assert opening == hit(session, BestOf(2))
    race.ask(letters("a", "0.02"), targets={"a": {"prior": "b"}, "b": {"target": ["b"], "q": "0.3"}})
    assert (spent(session).main, counters(session, race)) == (opening, [hit(session, menu[0].event), 0])
    race.ask(letters("b", "0.02"), targets={"a": {"prior": "b"}, "b": {"target": ["b"], "q": "0.3"}})
    assert spent(session).main - opening == min(hit(session, menu[0].event), hit(session, menu[1].event))
    with pytest.raises(NotPriced):
        race.ask(letters("b", "0.05"), targets={"a": {}, "b": {"prior": "b"}})


def aimed(order, epsilon, events, discount):
    """Each way to aim at a call: the price of a hit, and the chances that its two atoms hit."""
    p, found = 1 / (1 + math.exp(-float(epsilon))), []
    for event in events:
        price, q = discount * float(hit_price_up(event, Fraction(order))), float(event.target or 0)
        corner = (q / (1 - p), 0) if q <= 1 - p else ((q - 1 + p) / p, 1)
        chances = [(0, 1), (1, 0)] if event.target is None else [(q, q), corner, corner[::-1]]
        found += [(price, chance) for chance in chances]
    return found


def best_racer(order, epsilon, events, targets=2, calls=6, discount=1.0):
    """The largest E[(P0/P1)^a exp(-least counter)] over adaptive choices of how the atoms of a call hit each target."""
    p = 1 / (1 + math.exp(-float(epsilon)))
    choices = aimed(order, epsilon, events, discount)
    moments = [p0**order * p1 ** (1 - order) for p0, p1 in ((p, 1 - p), (1 - p, p))]

    @cache
    def value(counters, calls):
        if not calls:
            return math.exp(-min(counters))
        worths = [worth(counters, calls, aims) for aims in product(choices, repeat=targets)]
        return max(math.exp(-min(counters)), *worths)

    def worth(counters, calls, aims):
        total = 0.0
        for atom, hits in product((0, 1), product((0, 1), repeat=targets)):
            chance = math.prod(aim[1][atom] if h else 1 - aim[1][atom] for aim, h in zip(aims, hits, strict=True))
            if chance:
                moved = tuple(round(n + aim[0] * h, 12) for n, aim, h in zip(counters, aims, hits, strict=True))
                total += moments[atom] * chance * value(moved, calls - 1)
        return total

    return value((0.0,) * targets, calls)


MIXED = (Targeted("0.1"), Targeted("0.1", "0.3"))


def test_no_analyst_of_mixed_targets_gets_more_than_their_number():
    assert best_racer(5, Fraction(1, 10), MIXED, targets=1) <= 1 + 1e-11
    assert 1.05 < best_racer(5, Fraction(1, 10), MIXED, calls=4) <= 2


def test_at_a_tenth_less_they_would_be_too_cheap():
    assert best_racer(5, Fraction(1, 10), MIXED, targets=1, discount=0.9) > 1.005


# What is told beside the outcome of a question that a target missed


@pytest.mark.parametrize("outcome", [None, 1])
def test_an_outcome_that_is_told_like_a_withheld_one_hits_a_prior(opened, outcome):
    """Both tell None, and which it was follows from what the call's own target did: only one of the two can be free."""
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    opening = spent(session).main
    call = PublishIf(fixed(outcome), when=When("none", lambda found: found is None))
    found = race.ask(call, targets={"a": {}, "b": {"prior": None}})
    assert (found.value, found.hits) == (None, ("a", "b") if outcome is None else ())
    assert (spent(session).main > opening) == (outcome is None)


def test_a_boundary_hits_a_prior_that_is_told_like_it(opened):
    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    turns = iter(["x", "y"] * 9)
    turning = Algorithm("turning", lambda rows, source: next(turns), epsilon="0.01")
    for call, hits in ((Boundary(turning, runs=2), ("a", "b")), (Boundary(fixed("boundary"), runs=2), ())):
        found = race.ask(call, targets={"a": {}, "b": {"prior": "boundary"}})
        assert (found.value, found.hits) == ("boundary", hits)


def test_the_ledger_holds_no_more_of_a_raced_call_than_was_told(opened):
    """A lead is an outcome of its own: no target that missed has paid for it."""
    session = opened(**ROOM)
    race, query = session.start(MultiTarget(["a", "b"])), count().by("clinic", CLINICS, max_groups_per_unit=1)
    found = race.ask(Choose(query, epsilon="0.01", lead=True), priors={"a": "north", "b": "north"}, request="one")
    assert found.value in CLINICS
    stored = session.history[-1].answer
    assert stored.keys() == {"value", "raised", "hits", "charged"}
    assert stored["value"] == found.value
    assert (
        race.ask(Choose(query, epsilon="0.01", lead=True), priors=dict.fromkeys("ab", "north"), request="one") == found
    )


def test_a_score_that_raises_hits_all_targets(opened):
    def raises(rows, candidates):
        raise ValueError("secret")

    session = opened(**ROOM)
    race = session.start(MultiTarget(["a", "b"]))
    opening = spent(session).main
    call = ExponentialMechanism(CLINICS, ScoreFunction("raises", raises), sensitivity=1, epsilon="0.01")
    for _ in range(2):
        with pytest.raises(AlgorithmFailed, match="what was raced raised"):
            race.ask(call, priors={"a": "north", "b": "south"}, request="one")
    assert spent(session).main - opening == hit(session, NarrowChoice("0.01"))
