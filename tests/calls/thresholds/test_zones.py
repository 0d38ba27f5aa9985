"""Classes that are free while they are clear: of one threshold, of two, and of groups."""

import math

import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, count, histogram, mean
from chary.accounting import BoundaryCall, Targeted, between_q_down
from chary.amounts import Amount
from chary.calls import Classified, Classify
from chary.calls.boundaries import classifier
from chary.calls.call import of_record
from chary.calls.choices import chooser
from chary.calls.history import History
from chary.calls.run import titled
from chary.data import NeighborRelation
from chary.mechanisms import BOUNDARY
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, answers, spent

UNITS = 51


@pytest.mark.parametrize(
    ("low", "high", "zone"),
    [(51, 52, "between"), (52, 60, "low"), (40, 51, "high"), (50.5, 51.5, "between"), (0, 100, "between")],
)
def test_zones_without_noise(opened, low, high, zone):
    session = opened(budget=NO_NOISE)
    assert session.ask(Classify(count(), low=low, high=high, epsilon=1000)).value == zone
    assert (spent(session) == Amount(0)) is False  # so large a call has no price per hit


def test_only_between_is_paid(opened):
    session = opened(grain="0.02")
    assert session.ask(Classify(count(), low=10**6, high=2 * 10**6, epsilon="0.02")).value == "low"
    assert session.ask(Classify(count(), low=-(10**7), high=-(10**6), epsilon="0.02")).value == "high"
    assert spent(session) == Amount(0)
    assert session.ask(Classify(count(), low=-(10**6), high=10**6, epsilon="0.02")).value == "between"
    q = between_q_down("0.02", width=2 * 10**6, sensitivity=1)
    assert spent(session) == session.spine.filter.price(Targeted("0.02", q)).hit


def test_a_narrow_zone_costs_more(opened):
    session = opened(grain="0.005")
    prices = []
    for half in (50, 300, 10**6):
        made = Classify(count(), low=-half, high=half, epsilon="0.005").plan(session.spine)
        prices.append(session.spine.filter.price(made.event).hit.main)
    assert prices == sorted(prices, reverse=True)
    assert prices[0] > 2 * prices[1]


def test_the_law_of_the_zones(opened):
    session = opened(unsafe_noise=Seeded(7))
    asked = Classify(count(), low=UNITS - 5, high=UNITS + 5, epsilon="0.1").plan(session.spine)
    zones = [answer["zone"] for answer in answers(session, asked, UNITS, 4000)]
    r = math.exp(-0.1)
    expected = {"low": r**6 / (1 + r), "high": r**5 / (1 + r)}
    for zone, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / 4000)
        assert abs(zones.count(zone) / 4000 - chance) < 4.9 * spread


def test_both_clear_answers_are_free_and_the_boundary_is_paid(opened):
    session = opened(grain="0.02", unsafe_noise=Seeded(3))
    assert session.ask(Classify(count(), above=10**6, epsilon="0.02")).value is False
    assert session.ask(Classify(count(), above=-(10**6), epsilon="0.02")).value is True
    assert spent(session) == Amount(0)
    found = [session.ask(Classify(count(), above=UNITS, epsilon="0.02")).value for _ in range(12)]
    assert 0 < found.count(BOUNDARY) < 12
    paid = session.spine.filter.price(BoundaryCall("0.02", 2)).hit
    assert spent(session) == paid.times(found.count(BOUNDARY))


def test_the_law_of_a_decision(opened):
    """At the bar the boundary has chance x/(1+x) or 1/3, x the chance of the rarer outcome."""
    session = opened(unsafe_noise=Seeded(17))
    asked = Classify(count(), above=UNITS + 10, epsilon="0.1").plan(session.spine)
    found = [asked.present(answer, 0).value for answer in answers(session, asked, UNITS, 4000)]
    x = math.exp(-1) / (1 + math.exp(-0.1))
    expected = {BOUNDARY: x / (1 + x), True: x / (1 + x), False: (1 - x) / (1 + x)}
    for outcome, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / 4000)
        assert abs(found.count(outcome) / 4000 - chance) < 4.9 * spread


def test_the_largest_key_is_named(opened):
    session = opened(grain="0.02")
    ages = count().by("age", [44, 10**6])
    clinics = count("age < 0").by("clinic", CLINICS)
    assert session.ask(Classify(ages, epsilon="0.02")).value in (44, 10**6, BOUNDARY)
    assert session.ask(Classify(clinics, epsilon="0.02")).value in (*CLINICS, BOUNDARY)
    golden = opened(budget=NO_NOISE)
    assert golden.ask(Classify(ages, epsilon=20)).value == 44
    pairs = count().by(["clinic", "age"], [("north", 44), ("east", -1)])
    assert golden.ask(Classify(pairs, epsilon=20)).value == ("north", 44)


def test_counts_under_add_remove_need_half_the_noise(opened):
    made = {}
    for neighbors in ("add_remove", "replace"):
        session = opened(neighbors=neighbors, ledger=":memory:")
        asked = classifier(count().by("clinic", CLINICS), session.spine.rows.neighbor_relation, "0.1")
        assert Classify(count().by("clinic", CLINICS), epsilon="0.1").plan(session.spine).event == asked.event()
        made[neighbors] = asked.chooser.unit
    assert made["add_remove"] == 2 * made["replace"]


def test_a_total_of_both_signs_is_not_monotone_where_a_unit_may_be_in_two_keys(opened):
    for rows, monotone in ((2, False), (1, True)):
        question = chary.sum("cost", bounds=(-5, 5), max_rows_per_unit=rows).by("clinic", CLINICS)
        asked = classifier(question, opened().spine.rows.neighbor_relation, "0.1")
        assert asked.chooser.monotone is monotone


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize(
    "query",
    [
        count().by("clinic", CLINICS),
        histogram("age", bins=list(range(0, 100, 10)), max_groups_per_unit=2),
        chary.sum("cost", bounds=(0, 5), max_rows_per_unit=2).by("clinic", CLINICS),
        chary.sum("cost", bounds=(-5, 0), max_rows_per_unit=2).by("clinic", CLINICS),
        chary.sum("cost", bounds=(-5, 5), max_rows_per_unit=2).by("clinic", CLINICS),
    ],
)
def test_a_classification_takes_the_noise_of_a_choice(opened, neighbors, query):
    spine = opened(neighbors=neighbors).spine
    classified = classifier(query, spine.rows.neighbor_relation, "0.1").chooser
    chosen = chooser(query, spine.rows.neighbor_relation, "0.1", "exponential")
    assert (classified.unit, classified.monotone) == (chosen.unit, chosen.monotone)
    unit = query.contribution(spine.rows.neighbor_relation)
    assert chosen.monotone == (neighbors == "add_remove" and not unit.low < 0 < unit.high)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.ask(Classify(count(), low=5, high=5, epsilon="0.02")),
        lambda s: s.ask(Classify(count(), low=5.1, high=5.2, epsilon="0.02")),
        lambda s: s.ask(Classify(count(), low=5, high=math.nan, epsilon="0.02")),
        lambda s: s.ask(Classify(count(), low=5, high=9, epsilon=0)),
        lambda s: s.ask(Classify(count().by("clinic", CLINICS), low=5, high=9, epsilon="0.02")),
        lambda s: s.ask(Classify(mean("cost", bounds=(0, 9), max_rows_per_unit=1), low=5, high=9, epsilon="0.02")),
        lambda s: s.ask(Classify(count(), above=math.inf, epsilon="0.02")),
        lambda s: s.ask(Classify(count().by("clinic", CLINICS), above=5, epsilon="0.02")),
        lambda s: s.ask(Classify(count("nothere > 3"), above=5, epsilon="0.02")),
        lambda s: s.ask(Classify(count(), epsilon="0.02")),
        lambda s: s.ask(Classify(count().by("clinic", ["north"]), epsilon="0.02")),
        lambda s: s.ask(Classify(count().by("clinic", CLINICS), epsilon=-1)),
    ],
)
def test_bad_questions_cost_nothing(opened, ask):
    session = opened()
    with pytest.raises((InvalidParameter, InvalidQuery)):
        ask(session)
    assert session.history == []


@pytest.mark.parametrize(("neighbors", "monotone"), [("add_remove", True), ("replace", False)])
def test_a_classification_is_for_what_one_unit_moves(neighbors, monotone):
    near = NeighborRelation(neighbors, "patient")
    costs = chary.sum("cost", bounds=(0, 5), max_rows_per_unit=2).by("clinic", CLINICS)
    counted, summed = (classifier(query, near, "0.1").chooser for query in (count().by("clinic", CLINICS), costs))
    assert (counted.sensitivity, counted.monotone) == (1, monotone)
    assert (summed.sensitivity, summed.monotone) == (10, monotone)


def test_what_is_not_clear_is_no_condition():
    clear, unclear = Classified(1, True, clear=True), Classified(1, BOUNDARY, clear=False)
    assert clear
    assert not Classified(1, False, clear=True)
    assert (clear.hit, clear.clear, unclear.hit, unclear.clear) == (False, True, True, False)
    with pytest.raises(InvalidParameter, match="neither true nor false"):
        bool(unclear)


def test_a_key_may_have_the_name_of_the_boundary(opened):
    named = count().by("clinic", [BOUNDARY, "nowhere"])
    asked = Classify(named, epsilon="0.1").plan(opened().spine)
    key, unclear = asked.present({"outcome": 0}, 1), asked.present({"outcome": BOUNDARY}, 1)
    assert key.value == unclear.value == BOUNDARY
    assert (key.clear, key.hit, unclear.clear, unclear.hit) == (True, False, False, True)


@pytest.mark.parametrize(
    ("kind", "said", "value", "stored"),
    [
        ("decide", {"above": -(10**6)}, True, [{"outcome": 1}, {"outcome": 1}]),
        ("between", {"low": 10**6, "high": 10**7}, "low", [{"zone": "low"}, {"outcome": 0}]),
    ],
)
def test_ledgers_hold_classes_by_thresholds_under_kinds_of_their_own(opened, kind, said, value, stored):
    session = opened(budget=Budget(1, 1e-6))
    for how, answer in zip(({"epsilon": "1/100"}, {"hits": 9}), stored, strict=True):
        call = Classify(count(), **said, **how)
        found = session.ask(call)
        record = session.spine.ledger.call(found.call)
        assert (found.value, record.kind, record.outcome) == (value, kind, answer)
        assert record.question == {"query": count().body(), **how} | {name: str(term) for name, term in said.items()}
        assert (session.quote(call).kind, titled(kind)) == ("classify", "Classify")
        assert of_record(kind, record.question) == call
        assert History(session.spine).rebuilt(record).answer == found
