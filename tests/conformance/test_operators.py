"""Operators on every kind of call: each cell works, or is refused for a stated reason before anything is charged."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from chary import Algorithm, Budget, InvalidParameter, count, mean
from chary.accounting import BoundaryCall, Extendable, NarrowChoice, Targeted
from chary.calls import (
    Boundary,
    Choose,
    Classify,
    Greedy,
    Label,
    MostCommon,
    MultiTarget,
    OnChange,
    PublishIf,
    Quantile,
    Release,
    RunAlgorithm,
    Select,
    ThresholdTest,
    TopK,
    When,
    Widen,
)
from chary.calls.choices import chooser
from chary.calls.compute import CalledOnce
from chary.calls.run import Opening
from chary.data import Votes
from chary.data.queries.ordered import Occurring
from chary.data.table import RowTable
from chary.errors import CharyError, RequestConflict
from chary.learning import PrivateLogisticRegression
from chary.mechanisms import Laplace, Order, PermuteAndFlip
from chary.mechanisms.quantiles import RankDistance
from chary.mechanisms.threshold_tests import AdditiveTest
from chary.session import open_votes
from tests.conformance import samples
from tests.conformance.samples import ANY, NONE, answering
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent

FAR = samples.EXTREME
ROOM = {"grain": "0.02", "budget": Budget(epsilon=40, delta=1e-6), "delta_reserve": "5e-7"}


def race(session, call, request):
    run, prior = session.start(MultiTarget(["a", "b"]), request=f"{request} of"), known(call)
    return run.ask(call, targets={"a": {"prior": prior}, "b": {"prior": prior}}, request=request)


def known(call):
    """A prior: what can come out of a choice, a test and a quantile is declared."""
    if isinstance(call, Quantile):
        return 30 if call.alone else None
    if isinstance(call, ThresholdTest):
        return False if call.query.keys is None else None
    return "north" if isinstance(call, (Choose, MostCommon)) else None


def widen(session, call, request):
    held = session.ask(PublishIf(call, when=NONE), request=f"{request} held")
    return session.ask(Widen(held.held, when=ANY), request=request)


def twice(session, call, request):
    session.ask(OnChange(call), request=f"{request} first")
    return session.ask(OnChange(call), request=request)


def asking(operator):
    return lambda session, call, request: session.ask(operator(call), request=request)


# What is applied to one call, and what two of them side by side take, which must tell numbers.
ALONE = {
    "run": asking(lambda call: RunAlgorithm(call, prior=known(call))),
    "publish if": asking(lambda call: PublishIf(call, when=ANY)),
    "widen": widen,
    "on change": twice,
    "two runs": asking(lambda call: Boundary(call, runs=2, publish=True)),
    "three runs": asking(lambda call: Boundary(call, runs=3)),
    "race": race,
}
BESIDE = {
    "top": asking(lambda call: TopK({"one": call, "two": call}, k=1)),
    "select": asking(lambda call: Select({"one": call, "two": call}, above=-FAR)),
    "select, held": asking(lambda call: Select({"one": call, "two": call}, above=FAR, room=64)),
    "greedy": asking(lambda call: Greedy({"one": call, "two": call}, above=-FAR)),
    "greedy by rounds": asking(lambda call: Greedy({"one": call, "two": call}, above=-FAR, mechanism="best")),
}
# Widening needs an earlier call, and is told of below.
CALLS = {name: call for name, call in samples.CALLS.items() if not name.startswith("widen")}
OPENINGS = {name for name, sample in CALLS.items() if isinstance(sample(), Opening)}
# What comes in between a target and its price.
WHY = dict.fromkeys(OPENINGS, "stays open") | {
    "greedy": "asks several questions",
    "greedy of algorithms": "asks several questions",
    "greedy of keys": "asks several questions",
    "greedy by rounds": "asks several questions",
    "call of a rho": "has a rho",
    "linear_regression": "has a rho",
    "principal_components": "has a rho",
    "release of keys": "has a rho",
    "matrix_mechanism of marginals": "has a rho",
    "track by sharp tests": "has a rho",
    "decide by draws": "has no epsilon",
    "between by draws": "has no epsilon",
    "classify by draws": "has no epsilon",
    "select of conditions": "has no epsilon",
    "test of keys by sharp tests": "has no epsilon",
    "watch by sharp tests": "has no epsilon",
}
NUMBERS = {
    "release",
    "release by delta",
    "release of a mean",
    "release_if",
    "track",
    "fraction",
    "quantile",
    "randomized",
    "inverse_sensitivity",
}
# Whether these tell a number is known when they have told it, and the samples of them tell none.
UNKNOWN = {
    "call",
    "publish_if",
    "boundary",
    "boundary of runs",
    "label",
    "label of a guess",
    "label_clear",
    "release_if withheld",
}


def test_what_tells_a_number_is_known_before():
    told = {name for name, sample in CALLS.items() if sample().numeric and name not in WHY}
    assert told - UNKNOWN == NUMBERS


@pytest.fixture
def session(request, opened):
    name = request.node.callspec.params["name"]
    with answering(name, opened=opened, **ROOM) as made:
        yield made


# Side by side all that tells no number is refused by one rule, so that one operator stands for the others.
CELLS = [(name, operator) for name in CALLS for operator in ALONE]
CELLS += [(name, operator) for name in sorted(NUMBERS) for operator in BESIDE]
CELLS += [(name, "top") for name in CALLS if name not in NUMBERS]


@pytest.mark.parametrize(("name", "operator"), CELLS)
def test_a_call_is_an_algorithm_or_is_refused_before_anything_is_charged(name, operator, session):
    ask, call = (ALONE | BESIDE)[operator], CALLS[name]()
    if operator in BESIDE and not call.numeric:
        with pytest.raises(InvalidParameter, match="has none here"):
            ask(session, call, "one")
        assert session.history == []
        return
    if name in WHY:
        with pytest.raises(CharyError, match=WHY[name]):
            ask(session, call, "one")
        assert {entry.kind for entry in session.history} <= {"best_of"}
        return
    if operator in BESIDE and name in UNKNOWN:
        with pytest.raises(CharyError, match="every candidate"):
            ask(session, call, "one")
        return
    answer = ask(session, call, "one")
    before, calls = spent(session), len(session.history)
    assert ask(session, call, "one") == answer
    assert (spent(session), len(session.history)) == (before, calls)
    assert all(json.loads(json.dumps(entry.question)) == entry.question for entry in session.history)
    for number in session.spine.ledger.calls("data"):
        assert number.price.fits_into(number.worst)
    assert session.spine.ledger.verify().ok


def test_what_goes_on_from_an_earlier_call_is_no_algorithm(opened):
    session = opened(**ROOM)
    held = session.release_if(count(), above=FAR, epsilon="0.01").held
    for ask in (ALONE | BESIDE).values():
        with pytest.raises(InvalidParameter, match="goes on from an earlier call"):
            ask(session, Widen(held, above=5), None)


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
def test_a_choice_brings_its_law_to_the_boundary(opened, mechanism):
    """It is the boundary wrapper of the same law, at the same price, as of an algorithm that states it."""
    session, query = opened(**ROOM), count().by("clinic", CLINICS, max_groups_per_unit=1)
    plan = Boundary(Choose(query, epsilon="0.1", mechanism=mechanism)).plan(session.spine)
    assert plan.event == BoundaryCall("0.1", 3)
    values = [[40, 31, 30]]
    law = CalledOnce.of(Choose(query, epsilon="0.1", mechanism=mechanism), session.spine)
    made = chooser(query, session.spine.rows.neighbor_relation, "0.1", mechanism)
    assert law.law(values).probabilities() == made.law(values[0]).probabilities()
    assert opened(budget=NO_NOISE).ask(Boundary(Choose(query, epsilon=PLENTY, mechanism=mechanism))).clear
    for call in (Choose(query, epsilon="0.1", mechanism="laplace"), CALLS["release"]()):
        with pytest.raises(InvalidParameter, match="how likely"):
            session.ask(Boundary(call))


@pytest.mark.parametrize(("mechanism", "narrow"), [("exponential", True), ("permute_and_flip", False)])
def test_a_target_of_the_exponential_mechanism_is_paid_by_its_bounded_range(opened, mechanism, narrow):
    """Half of what a target of any call of its epsilon costs, and no less would do for a prior that is nearly sure."""
    session, query = opened(grain="0.02"), count().by("clinic", CLINICS, max_groups_per_unit=1)
    call = Choose(query, epsilon="0.02", mechanism=mechanism)
    event = NarrowChoice("0.02") if narrow else Targeted("0.02")
    race = session.start(MultiTarget(["a", "b"]))
    asked = race.plan(call, targets={"a": {"prior": "north"}, "b": {"prior": "east"}})
    price = session.spine.filter.price(event)
    assert RunAlgorithm(call, prior="north").plan(session.spine).event == event
    assert asked.price(session.spine.filter).hit == price.hit
    # Always charged, it is the release that it was.
    released = RunAlgorithm(call).plan(session.spine).price(session.spine.filter)
    assert released.hit == released.miss
    if not narrow:
        return
    assert 2 * price.hit.main < session.spine.filter.price(Targeted("0.02")).hit.main
    session.ask(OnChange(call))
    before = spent(session).main
    while session.ask(OnChange(call)).changed is False:
        pass
    assert spent(session).main - before == price.hit.main
    order, psi = float(session.spine.filter.order), price.hit.main / session.spine.filter.steps
    found = []
    for first, second in itertools.permutations(([300, 5, 0], [301, 5, 0], [300, 6, 0], [300, 5, 1], [40, 31, 30]), 2):
        if sum(abs(x - y) for x, y in zip(first, second, strict=True)) != 1:
            continue
        laws = [CalledOnce.of(call, session.spine).law([values]).probabilities() for values in (first, second)]
        parts = [p**order * q ** (1 - order) for p, q in zip(*laws, strict=True)]
        found.append([parts[0] + math.exp(-share * psi) * (parts[1] + parts[2]) for share in (1, 0.8)])
    assert max(full for full, _ in found) <= 1 + 1e-12
    assert max(less for _, less in found) > 1 + 1e-6


def test_a_test_brings_its_law_to_the_boundary(opened):
    """It is what `Classify` says of the same threshold, at the same price."""
    session = opened(**ROOM)
    call = ThresholdTest(count("age >= 44"), above=51, epsilon="0.1")
    made, known = Boundary(call).plan(session.spine), Classify(count("age >= 44"), above=51, epsilon="0.1")
    assert made.event == known.plan(session.spine).event == BoundaryCall("0.1", 2)
    noise = Laplace.for_epsilon("0.1", sensitivity=1)
    for value in (40, 51, 70):
        law = CalledOnce.of(call, session.spine).law([np.array([value])])
        assert law.probabilities() == AdditiveTest(noise, 51).law(value).probabilities()
    assert opened(budget=NO_NOISE).ask(Boundary(replace(call, epsilon=PLENTY))).value in (True, False)


@pytest.mark.parametrize(("filter_", "points"), [("renyi", 121), ("renyi", 13), ("pure", 13)])
def test_a_quantile_brings_its_law_to_the_boundary(opened, filter_, points):
    """The law of the mechanism of its distances, which is what the call itself draws from."""
    options = {"budget": Budget(epsilon=40)} if filter_ == "pure" else ROOM
    session = opened(filter=filter_, **options)
    call = Quantile("age", 0.5, bounds=(0, 120), step=120 // (points - 1), max_rows_per_unit=1, epsilon="0.1")
    assert Boundary(call).plan(session.spine).event == BoundaryCall("0.1", points)
    order = Order(np.array([2, 5, 6]), np.array([3, 1, 4]), points)
    algorithm = CalledOnce.of(call, session.spine)
    law = algorithm.law([Occurring(order.places, order.counts)])
    stretches = RankDistance("0.5", replace=False).stretches(order)
    distances = np.repeat(stretches.distances, stretches.widths)
    if filter_ == "pure":
        expected = PermuteAndFlip("0.1", 1).law(-distances).probabilities()
    else:
        weights = np.exp(-0.05 * distances)
        expected = (weights / weights.sum()).tolist()
    assert law.probabilities() == pytest.approx(expected)
    assert algorithm.outcomes[1] == 120 // (points - 1)
    assert session.ask(Boundary(call)).value in (*algorithm.outcomes, "boundary")


@pytest.mark.parametrize(
    "call",
    [
        Quantile("age", [0.25, 0.5], bounds=(0, 120), max_rows_per_unit=1, epsilon="0.1"),
        Quantile("age", 0.5, bounds=(0, 1200), max_rows_per_unit=1, epsilon="0.1"),
        Quantile("age", 0.5, bounds=(0, 120), max_rows_per_unit=1, epsilon="0.1", of_unit="random"),
        Quantile("age", 0.5, bounds=(0, 120), max_rows_per_unit=1, epsilon="0.1", interval="0.9"),
        ThresholdTest(count().by("clinic", CLINICS), above=51, epsilon="0.1"),
    ],
)
def test_what_has_no_law_is_refused_by_the_boundary(opened, call):
    with pytest.raises(InvalidParameter, match="how likely"):
        opened(**ROOM).ask(Boundary(call))


def test_candidates_have_names(opened):
    session, call = opened(**ROOM), CALLS["release"]
    with pytest.raises(InvalidParameter, match="different names"):
        session.ask(TopK([call(), call()], k=1))
    assert session.history == []
    found = session.ask(TopK({"north": call(), "south": call()}, k=2))
    assert {chosen.name for chosen in found.best} == {"north", "south"}


def test_an_algorithm_that_checks_its_rows_does_so_beside_others(opened):
    """Training on a number of rows that is no public one is no algorithm of its epsilon."""
    model = PrivateLogisticRegression(epsilon=1, classes=["north", "south"], lam="0.1", radius=1)
    trained = model.algorithm(features=["age"], label="clinic", unit="patient")
    session = opened(**ROOM)
    for ask in ALONE.values():
        with pytest.raises(InvalidParameter, match="declare size="):
            ask(session, trained, None)
    for operator in (TopK([trained], k=1), Select([trained], above=0), Greedy([trained], above=0)):
        with pytest.raises(InvalidParameter, match="declare size="):
            session.ask(operator)


@pytest.mark.parametrize("epsilon", ["0.02", "0.033", "0.06"])
def test_what_a_choice_withheld_is_never_published_free(epsilon):
    """The hit of a `NarrowChoice` has a price where one of `Extendable` has none and is paid hit or miss."""
    ballots = Votes(lambda question: [60, 40], ["yes", "no"], voter="teacher")
    budget = Budget(epsilon=1, delta=1e-6)
    with open_votes(ballots, dataset="votes", ledger=":memory:", budget=budget, filter="renyi") as session:
        held = session.ask(PublishIf(Label(0, guess="yes", epsilon=epsilon), when=NONE))
        assert session.ask(Widen(held.held, when=ANY)).published
        price = session.spine.filter.price(Extendable(epsilon))
        assert spent(session) == price.hit
        assert price.free_miss == (epsilon == "0.02") == (held.charged.share == 0)


def test_laws_pay_for_what_is_withheld_where_the_condition_holds_for_no_outcome(opened):
    laws = [(["11/20", "9/20"], ["9/20", "11/20"])]
    stated = Algorithm("stated", lambda rows, source: "odd", "0.21", outcomes=["odd", "even"], laws=laws)
    session = opened(**ROOM)
    assert session.ask(PublishIf(stated, when=NONE)).value is None


def test_all_that_a_call_reads_is_of_one_state_of_the_rows(opened, monkeypatch):
    session, seen = opened(**ROOM), []
    of_one = RowTable.one_state
    monkeypatch.setattr(RowTable, "one_state", lambda rows: seen.append(1) or of_one(rows))
    session.ask(PublishIf(Release(mean("age", bounds=(0, 120), max_rows_per_unit=1), epsilon="0.1"), when=ANY))
    assert seen == [1]


@pytest.mark.parametrize("operator", [lambda given: TopK(given, k=1), lambda given: Select(given, above=0)])
def test_candidates_under_one_name_are_told_apart_by_their_own(opened, operator):
    session = opened(**ROOM)
    first, second = (Algorithm(name, lambda rows, source: [1, None], epsilon="0.01") for name in ("one", "two"))
    session.ask(operator({"north": first}), request="one")
    session.ask(operator({"north": first}), request="one")
    with pytest.raises(RequestConflict):
        session.ask(operator({"north": second}), request="one")


@pytest.mark.parametrize(
    "said", [{"target": ["north"]}, {"prior": "north"}, {"hit": When("one", lambda key: key == "north")}]
)
def test_nobody_states_a_q_of_a_call(opened, said):
    session, call = opened(**ROOM), Choose(count().by("clinic", CLINICS), epsilon="0.01")
    with pytest.raises(InvalidParameter, match="this is a call"):
        session.ask(RunAlgorithm(call, **said, q="1"))
    assert session.history == []
