"""Selection through a session: what it publishes, what it costs, and what it leaves alone."""

import itertools
import json
import math

import pandas as pd
import pytest

import chary
from chary import (
    Algorithm,
    AlgorithmFailed,
    Budget,
    BudgetExceeded,
    InvalidParameter,
    InvalidQuery,
    NotWithheld,
    count,
)
from chary.accounting import Extendable, Targeted
from chary.amounts import MAIN_STEPS, Amount
from chary.calls import Greedy, Select, ThresholdTest, TopK, When, Widen
from chary.mechanisms import Held
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, SECRET_NAME, error_texts, hit_of, shows_data, spent, visits

WARDS = ["a", "b", "c", "d", "e"]
ROOMY = {"grain": "0.02"}


def stays():
    """Units 1..12; ward a holds 5 units, b 4, c 4, d 1, e 0; unit 1 is in a, b and c."""
    members = {"a": [1, 2, 3, 4, 5], "b": [1, 2, 6, 7], "c": [1, 8, 9, 10], "d": [11]}
    return pd.DataFrame([{"patient": unit, "ward": ward} for ward, units in members.items() for unit in units])


def by_ward(**limit):
    return count().by("ward", WARDS, **limit)


def answering(name, outcome, epsilon=PLENTY, **more):
    """An algorithm that always returns the same."""
    return Algorithm(name, lambda rows, source: outcome, epsilon=epsilon, **more)


def broken(name, epsilon=PLENTY):
    def run(rows, source):
        raise ValueError(SECRET_NAME)

    return Algorithm(name, run, epsilon=epsilon)


# What is published


def test_top_keys_without_noise(opened, place):
    session = opened(rows=stays(), budget=NO_NOISE, ledger=place)
    top = session.ask(TopK(by_ward(), k=3, epsilon=PLENTY))
    assert [tuple(chosen) for chosen in top.best] == [(("a",), 5, None), (("b",), 4, None), (("c",), 4, None)]
    assert (top.names, top.scores) == ([("a",), ("b",), ("c",)], [5, 4, 4])
    assert top["b"] == {"ward": "b", "score": 4, "low": 4, "high": 4, "solution": None}
    assert not any(chosen.failed for chosen in top.best)
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY)).scores == [5, 4, 4, 1, 0]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, gap=1)).scores == [5, 4, 4]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, gap=0)).scores == [5]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, gap=3)).scores == [5, 4, 4, 1, 0]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, above="0.5")).scores == [5, 4, 4, 1]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, above=6)).best == ()
    assert session.ask(TopK(by_ward(max_groups_per_unit=1), k=3, epsilon=PLENTY)).scores == [5, 3, 2]


def test_gap_and_bar_are_in_the_units_of_the_query(opened):
    rows = pd.DataFrame({"patient": [1, 2, 3, 4], "ward": WARDS[:4], "cost": [2.5, 2.0, 1.25, 0.0]})
    session = opened(rows=rows, budget=NO_NOISE)
    costs = chary.sum("cost", bounds=(0, 4), grid="0.25", max_rows_per_unit=1).by("ward", WARDS)
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY)).scores == [2.5, 2, 1.25, 0]
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY, gap="0.5")).scores == [2.5, 2]
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY, gap="0.49")).scores == [2.5]
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY, gap="0.75")).scores == [2.5, 2, 1.25]
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY, above="1.2")).scores == [2.5, 2, 1.25]
    assert session.ask(TopK(costs, k=4, epsilon=PLENTY, above="1.26")).scores == [2.5, 2]


def test_top_of_a_series():
    rows = pd.DataFrame({"cnt": [5, 900, -3, 70]})
    with chary.open_counts(rows, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session:
        top = session.ask(TopK(session.series(), k=2, epsilon=PLENTY))
        assert [tuple(chosen[:2]) for chosen in top.best] == [((1,), 900), ((3,), 70)]


def test_top_algorithms(opened, place):
    session = opened(budget=NO_NOISE, ledger=place)
    algorithms = [answering("low", [1, {"a": [1]}]), answering("best", (9.5, "x")), answering("good", [9, None])]
    top = session.ask(TopK(algorithms, k=2))
    assert [tuple(chosen) for chosen in top.best] == [("best", 9.5, "x"), ("good", 9, None)]
    assert (top["best"]["low"], top["best"]["high"], len(top.findings)) == (None, None, 0)
    assert session.ask(TopK(algorithms, k=3, gap=1)).names == ["best", "good"]
    assert session.ask(TopK(algorithms, k=3, above=9.2)).names == ["best"]
    assert session.ask(TopK(algorithms, k=3)).best[2].solution == {"a": [1]}


def test_algorithms_read_the_rows_and_columns_they_name(opened):
    def oldest(rows, source):
        return [int(rows["age"].to_numpy().max()), rows.column_names]

    def rows_there_are(rows, source):
        return [rows.num_rows, len(rows.column_names)]

    session = opened(budget=NO_NOISE)
    one = Algorithm("oldest", oldest, epsilon=PLENTY, columns=["age"])
    two, three = (Algorithm(name, rows_there_are, epsilon=PLENTY) for name in ("rows", "again"))
    top = session.ask(TopK([one, two, three], k=3))
    frame = visits()
    assert [tuple(chosen) for chosen in top.best] == [
        ("rows", 120, len(frame.columns)),
        ("again", 120, len(frame.columns)),
        ("oldest", frame["age"].max(), ["age"]),
    ]


def test_what_one_candidate_does_to_its_values_does_not_reach_the_next():
    def spoil(values, source):
        values[:] = 0
        return [int(values.max()), None]

    rows = pd.DataFrame({"cnt": [5, 900]})
    candidates = [Algorithm(name, spoil, epsilon=PLENTY) for name in ("one", "two")]
    candidates += [Algorithm("max", lambda values, source: [int(values.max()), None], epsilon=PLENTY)]
    with chary.open_counts(rows, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session:
        assert session.ask(TopK(candidates, k=1)).best[0] == ("max", 900, None)


def test_select_publishes_what_reaches_the_bar_in_order(opened, place):
    session = opened(budget=NO_NOISE, ledger=place)
    algorithms = [answering("low", [1, 1]), broken("broken"), answering("mid", [5, 2]), answering("high", [9.0, 3])]
    found = session.ask(Select(algorithms, above=5))
    assert [tuple(chosen) for chosen in found.above] == [("mid", 5, 2), ("high", 9.0, 3)]
    assert (found.tested, found.untested) == (4, ())
    assert session.ask(Select(algorithms, above="9.01")).above == ()


def test_greedy_coverage(opened, place):
    session = opened(rows=stays(), budget=NO_NOISE, ledger=place)
    found = session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY))
    assert [tuple(chosen) for chosen in found.chosen] == [(("a",), 5, None), (("c",), 3, None)]
    assert (found.covered, len(found.calls), found.untested) == (8, 5, ())
    bars = session.ask(Greedy(by_ward(), above=1, epsilon=PLENTY))
    assert [chosen.score for chosen in bars.chosen] == [5, 2, 3, 1]
    assert bars.covered == 11 == stays()["patient"].nunique()
    first = session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY, k=1))
    assert (first.chosen[0].name, first.untested) == (("a",), (("b",), ("c",), ("d",), ("e",)))
    conditions = ["ward = 'b'", "ward IN ('a', 'd')", "ward = 'c'"]
    by_text = session.ask(Greedy(conditions, above=3, epsilon=PLENTY))
    assert [tuple(chosen[:2]) for chosen in by_text.chosen] == [
        (conditions[0], 4),
        (conditions[1], 4),
        (conditions[2], 3),
    ]


def test_coverage_is_the_same_in_a_hand_written_walk(opened):
    frame = visits()
    session = opened(rows=frame, budget=NO_NOISE)
    found = session.ask(Greedy(count("age >= 40").by("clinic", CLINICS), above=5, epsilon=PLENTY))
    covered, expected = set(), []
    for clinic in CLINICS:
        new = set(frame[(frame["clinic"] == clinic) & (frame["age"] >= 40)]["patient"]) - covered
        if len(new) >= 5:
            covered |= new
            expected.append(((clinic,), len(new), None))
    assert [tuple(chosen) for chosen in found.chosen] == expected


# What it costs


@pytest.mark.parametrize(
    ("k", "limit", "hits"), [(1, {}, 1), (3, {}, 3), (5, {}, 5), (4, {"assumed_groups_per_unit": 2}, 2)]
)
def test_published_keys_are_charged_as_far_as_neighbours_differ(opened, place, k, limit, hits):
    session = opened(rows=stays(), ledger=place, **ROOMY)
    session.ask(TopK(by_ward(**limit), k=k, epsilon="0.01"))
    assert spent(session) == hit_of(session, Extendable("0.01")).times(hits)
    [entry] = session.history
    assert (entry.kind, entry.hits, entry.tests) == ("top", k, 5)


def test_what_stays_unpublished_is_free(opened):
    session = opened(rows=stays(), **ROOMY)
    assert session.ask(TopK(by_ward(), k=5, epsilon="0.01", above=10**9)).best == ()
    assert spent(session) == Amount(0)
    published = session.ask(TopK(by_ward(), k=5, epsilon="0.01", gap=30))
    assert spent(session) == hit_of(session, Extendable("0.01")).times(len(published.best))


def test_replace_counts_keys_twice(opened):
    session = opened(rows=stays(), neighbors="replace", **ROOMY)
    session.ask(TopK(by_ward(assumed_groups_per_unit=1), k=4, epsilon="0.01"))
    assert spent(session) == hit_of(session, Extendable("0.01")).times(2)


def test_the_pure_filter_pays_for_everything_neighbours_can_differ_in(opened):
    session = opened(rows=stays(), budget=Budget(epsilon=1))
    session.ask(TopK(by_ward(), k=1, epsilon="0.01", above=10**9))
    assert session.spent.share == pytest.approx(0.05)
    session.ask(TopK(by_ward(assumed_groups_per_unit=1), k=3, epsilon="0.01"))
    assert session.spent.share == pytest.approx(0.06)
    session.ask(TopK([answering(name, [1, 1], "0.02") for name in "abc"], k=1))
    assert session.spent.share == pytest.approx(0.12)


def test_the_exact_filter_charges_hits_of_the_size_of_a_candidate(opened):
    session = opened(rows=stays(), filter="exact", grain="0.01")
    session.ask(TopK(by_ward(), k=2, epsilon="0.01"))
    assert spent(session) == hit_of(session, Targeted("0.01")).times(2)


def test_algorithms_are_charged_by_the_largest_epsilon_and_all_deltas(opened):
    session = opened(delta_reserve="1e-7", **ROOMY)
    sizes = [("0.01", 0), ("0.02", "3e-9"), ("0.005", "2e-9")]
    algorithms = [answering(str(j), [j, None], epsilon, delta=delta) for j, (epsilon, delta) in enumerate(sizes)]
    assert session.ask(TopK(algorithms, k=2)).names == ["2", "1"]
    hit = hit_of(session, Extendable("0.02", "5e-9"))
    delta = spent(session).delta
    assert spent(session) == Amount(2 * hit.main, delta)
    assert hit.delta <= delta <= hit.delta + 3
    assert session.ask(Select(algorithms, above=10)).above == ()
    assert spent(session) == Amount(2 * hit.main, 2 * delta)


def test_select_charges_hits_and_halts_when_they_run_out(opened, place):
    session = opened(ledger=place, **ROOMY)
    price = hit_of(session, Targeted("0.02"))
    fitting = price.copies_in(session.spine.filter.capacity)
    algorithms = [answering(str(j), [j % 2, None], "0.02") for j in range(4 * fitting)]
    session.ask(Select(algorithms[:4], above=1))
    assert spent(session) == price.times(2)
    found = session.ask(Select(algorithms, above=1))
    assert [chosen.name for chosen in found.above] == [str(j) for j in range(1, 2 * (fitting - 2), 2)]
    assert found.tested == 2 * (fitting - 2)
    assert found.untested == found.names[found.tested :]
    assert spent(session) == price.times(fitting)
    with pytest.raises(BudgetExceeded):
        session.ask(Select(algorithms[:2], above=1))


def test_a_top_that_does_not_fit_is_refused_and_told_what_would(opened):
    session = opened(rows=stays(), **ROOMY)
    while session.quote(ThresholdTest(count(), above=-(10**9), epsilon="0.02")).fits:
        session.test(count(), above=-(10**9), epsilon="0.02")
    before, calls = spent(session), len(session.history)
    with pytest.raises(BudgetExceeded, match="free misses have ended"):
        session.ask(TopK(by_ward(), k=3, epsilon="0.02"))
    with pytest.raises(BudgetExceeded):
        session.ask(TopK([answering(name, [1, 1], "0.02") for name in "abc"], k=2))
    assert (spent(session), len(session.history)) == (before, calls)


def test_coverage_stops_where_the_budget_does(opened):
    session = opened(rows=stays(), **ROOMY)
    conditions = [f"patient <> {unit}" for unit in range(100, 200)]
    found = session.ask(Greedy(conditions, above=-(10**9), epsilon="0.02"))
    # When the moments are used up, it goes on with what the epsilons have room for.
    assert hit_of(session, Targeted("0.02")).copies_in(session.spine.filter.capacity) < 50
    assert len(found.chosen) == len(found.calls) == 50
    assert found.untested == found.names[len(found.calls) :]
    with pytest.raises(BudgetExceeded):
        session.ask(Greedy(conditions, above=-(10**9), epsilon="0.02"))


# Requests, restarts, other calls


def test_an_interrupted_coverage_goes_on_where_it_was(opened, place):
    steps = []

    def stop(step):
        steps.append(step)
        if steps.count("settled") == 2 and step == "asked":
            raise KeyboardInterrupt

    session = opened(rows=stays(), budget=NO_NOISE, ledger=place, on_step=stop)
    with pytest.raises(KeyboardInterrupt):
        session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY), request="cover")
    done = [entry.call for entry in session.history]
    steps.append("settled")
    found = session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY), request="cover")
    assert list(found.calls[:2]) == done
    assert found.names[:1] == (("a",),)
    assert len(session.history) == 5
    assert found.covered == 8


def test_other_calls_in_between_change_nothing(opened):
    session = opened(rows=stays(), unsafe_noise=Seeded(5), **ROOMY)
    held = session.release_if(count(), above=10**9, epsilon="0.01")
    stored = Held.load(session.spine.ledger.secret(held.call))
    calls = [
        lambda: session.ask(TopK(by_ward(), k=2, epsilon="0.01")),
        lambda: session.test(count(), above=10**9, epsilon="0.01"),
        lambda: session.ask(TopK([answering("one", [1, 1], "0.01")], k=1)),
        lambda: session.ask(Select([answering("one", [1, 1], "0.01")], above=0)),
        lambda: session.ask(Greedy(["ward = 'a'"], above=10**9, epsilon="0.01")),
    ]
    for call in calls:
        call()
        assert Held.load(session.spine.ledger.secret(held.call)) == stored
    expected = hit_of(session, Extendable("0.01")).times(3) + hit_of(session, Targeted("0.01"))
    assert spent(session) == expected
    secrets = [entry.call for entry in session.history if session.spine.ledger.secret(entry.call) is not None]
    assert secrets == [held.call, session.history[-1].call]
    assert held.widen(above=-(10**9)).value == stored.value


def test_a_held_step_of_a_coverage_can_be_revised(opened):
    session = opened(rows=stays(), budget=NO_NOISE)
    found = session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY))
    assert session.ask(Widen(found.calls[1], above=2)).value == 2


def test_the_price_is_paid_before_any_data_is_read(opened):
    session = opened(rows=stays(), budget=NO_NOISE)
    with session.spine.rows.held.database.connection() as connection:
        connection.execute("DROP TABLE temp.main.chary_rows")
    for ask in (
        lambda: session.ask(TopK(by_ward(), k=1, epsilon=PLENTY)),
        lambda: session.ask(TopK([answering("one", [1, 1])], k=1)),
        lambda: session.ask(Select([answering("one", [1, 1])], above=1)),
    ):
        before = spent(session)
        with pytest.raises(chary.EngineError):
            ask()
        assert spent(session) != before


# What goes wrong


BAD_OUTCOMES = [None, 3, [1], [1, 2, 3], [float("nan"), 1], [float("inf"), 1], [True, 1], ["1", 1], [None, 1], {"a": 1}]


@pytest.mark.parametrize("outcome", BAD_OUTCOMES, ids=str)
def test_a_candidate_without_a_score_ranks_below_all_others(opened, outcome):
    session = opened(budget=NO_NOISE)
    candidates = [answering("bad", outcome), answering("low", [-(10**9), 0]), broken("broken")]
    assert session.ask(TopK(candidates, k=1)).names == ["low"]
    top = session.ask(TopK(candidates, k=3))
    assert [(chosen.name, chosen.failed) for chosen in top.best] == [("low", False), ("bad", True), ("broken", True)]
    assert top.scores == [-(10**9), None, None]
    assert session.ask(TopK(candidates, k=3, above=-(10**10))).names == ["low"]
    assert session.ask(Select(candidates, above=-(10**10))).above[0].name == "low"
    assert not shows_data(json.dumps([entry.answer for entry in session.history]))


def test_if_all_fail_it_is_charged_and_says_so_without_data(opened, place):
    session = opened(ledger=place, **ROOMY)
    for _ in range(2):
        with pytest.raises(AlgorithmFailed) as failure:
            session.ask(TopK([broken("one", "0.01"), broken("two", "0.01")], k=1), request="once")
        assert not shows_data(error_texts(failure.value))
        assert spent(session) == hit_of(session, Extendable("0.01"))


@pytest.mark.parametrize("k", [0, -1, 6, 1.0, True, "2", None])
def test_bad_k(opened, k):
    session = opened(rows=stays())
    for ask in (
        lambda: session.ask(TopK(by_ward(), k=k, epsilon="0.01")),
        lambda: session.ask(TopK([answering(name, [1, 1], "0.01") for name in "abcde"], k=k)),
        *([] if k is None else [lambda: session.ask(Greedy(by_ward(), above=1, epsilon="0.01", k=k))]),
    ):
        with pytest.raises(InvalidParameter):
            ask()
    assert session.history == []


ONE = answering("one", [1, 1], "0.01")


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda s: s.ask(TopK([], k=1)), InvalidParameter),
        (lambda s: s.ask(TopK(ONE, k=1)), InvalidParameter),
        (lambda s: s.ask(TopK([ONE, ONE], k=1)), InvalidParameter),
        (lambda s: s.ask(TopK([ONE, "two"], k=1)), InvalidParameter),
        (lambda s: s.ask(TopK(None, k=1)), InvalidParameter),
        (lambda s: s.ask(TopK([ONE], k=1, epsilon="0.1")), InvalidParameter),
        (lambda s: s.ask(TopK([ONE], k=1, gap=-1)), InvalidParameter),
        (lambda s: s.ask(TopK([ONE], k=1, above=float("nan"))), InvalidParameter),
        (lambda s: s.ask(TopK(count(), k=1, epsilon="0.1")), InvalidQuery),
        (lambda s: s.ask(TopK(by_ward(), k=1)), InvalidParameter),
        (lambda s: s.ask(TopK(by_ward(), k=1, epsilon=0)), InvalidParameter),
        (lambda s: s.ask(TopK(count().by("nowhere", [1]), k=1, epsilon="0.1")), InvalidQuery),
        (lambda s: s.ask(Select([], above=1)), InvalidParameter),
        (lambda s: s.ask(Select([ONE, ONE], above=1)), InvalidParameter),
        (lambda s: s.ask(Select([ONE], above="x")), InvalidParameter),
        (lambda s: s.ask(Select(by_ward(), above=1)), InvalidParameter),
        (lambda s: s.ask(Select([answering("a", 1, "0.01", columns=["nowhere"])], above=1)), InvalidQuery),
        (lambda s: s.ask(Greedy([], above=1, epsilon="0.01")), InvalidParameter),
        (lambda s: s.ask(Greedy("ward = 'a'", above=1, epsilon="0.01")), InvalidParameter),
        (lambda s: s.ask(Greedy([3], above=1, epsilon="0.01")), InvalidParameter),
        (lambda s: s.ask(Greedy(["ward = 'a'", "'a' = ward"], above=1, epsilon="0.01")), InvalidQuery),
        (lambda s: s.ask(Greedy(["nowhere = 1"], above=1, epsilon="0.01")), InvalidQuery),
        (lambda s: s.ask(Greedy(count(), above=1, epsilon="0.01")), InvalidQuery),
        (lambda s: s.ask(Greedy(by_ward(max_groups_per_unit=1), above=1, epsilon="0.01")), InvalidQuery),
        (lambda s: s.ask(Greedy(["ward = 'a'"], above="x", epsilon="0.01")), InvalidParameter),
        (lambda s: s.ask(Greedy(["ward = 'a'"], above=1, epsilon=-1)), InvalidParameter),
    ],
)
def test_bad_input_is_refused_before_anything_is_charged(opened, ask, error):
    session = opened(rows=stays())
    with pytest.raises(error):
        ask(session)
    assert session.history == []
    assert spent(session) == Amount(0)


def at_least(bar):
    return When(f"sum of at least {bar}", lambda public: sum(entry["score"] for entry in public) >= bar)


def test_a_list_ends_where_its_scores_meet_a_condition(opened):
    session = opened(rows=stays(), budget=NO_NOISE)
    for bar, scores in ((0, [5]), (5, [5]), (6, [5, 4]), (10, [5, 4, 4]), (14, [5, 4, 4, 1]), (99, [5, 4, 4, 1, 0])):
        assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, until=at_least(bar))).scores == scores
    assert session.ask(TopK(by_ward(), k=2, epsilon=PLENTY, until=at_least(99))).scores == [5, 4]
    assert session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, gap=1, until=at_least(14))).scores == [5, 4, 4]
    algorithms = [answering(name, [score, None]) for name, score in (("low", 1), ("high", 9.5), ("mid", 5))]
    assert session.ask(TopK(algorithms, k=3, until=at_least(10))).names == ["high", "mid"]
    assert session.history[-1].question["until"] == "sum of at least 10"


def test_a_list_ends_where_all_that_is_public_of_it_meets_a_condition(opened):
    session = opened(rows=stays(), budget=NO_NOISE)
    seen = []
    second = When("second", lambda public: seen.append(public) or len(public) == 2)
    assert len(session.ask(TopK(by_ward(), k=5, epsilon=PLENTY, until=second))) == 2
    assert [[entry["score"] for entry in public] for public in seen] == [[5], [5, 4]]
    algorithms = [answering(name, [score, {"depth": score}]) for name, score in (("low", 1), ("high", 9), ("mid", 5))]
    shallow = When("shallow", lambda public: public[-1]["solution"]["depth"] < 9 and public[-1]["name"] == "mid")
    assert session.ask(TopK(algorithms, k=3, until=shallow)).names == ["high", "mid"]
    assert session.history[-1].question["until"] == "shallow"
    failing = When("fails", lambda public: public[5])
    with pytest.raises(AlgorithmFailed):
        session.ask(TopK(algorithms, k=3, until=failing))
    assert session.history[-1].hits == 1


def test_what_ends_a_list_by_its_scores_is_paid_by_what_is_published(opened):
    session = opened(rows=stays(), unsafe_noise=Seeded(2), **ROOMY)
    found = session.ask(TopK(by_ward(), k=5, epsilon="0.01", until=When("two", lambda public: len(public) == 2)))
    assert len(found) == 2
    assert spent(session) == hit_of(session, Extendable("0.01")).times(2)


def test_a_condition_that_raises_ends_the_list_and_what_is_on_it_is_paid(opened):
    session = opened(rows=stays(), **ROOMY)
    second = When("second", lambda public: bool([10 / (2 - len(public))]) and False)
    for candidates, epsilon in ((by_ward(), {"epsilon": "0.01"}), ([answering(n, [1, 1], "0.01") for n in "abc"], {})):
        before = spent(session)
        for _ in range(2):
            with pytest.raises(AlgorithmFailed, match="condition"):
                session.ask(TopK(candidates, k=3, until=second, **epsilon), request=str(epsilon))
        assert spent(session) - before == hit_of(session, Extendable("0.01")).times(2)


def test_a_coverage_is_a_table_that_knows_the_price_of_all_its_calls(opened):
    session = opened(rows=stays(), budget=NO_NOISE)
    found = session.ask(Greedy(by_ward(), above=3, epsilon=PLENTY))
    assert found.charged.amount == session.spent.amount
    assert found.call == session.history[-1].call == found.calls[-1]
    assert [row["hit"] for row in found] == [True, False, True, False, False]
    chosen = {"ward": "a", "hit": True, "score": 5, "solution": None}
    assert found["a"] == chosen | {"low": 5, "high": 5, "caution": None}
    by_text = session.ask(Greedy(["ward = 'a'", "ward = 'b'"], above=3, epsilon=PLENTY, k=1))
    assert by_text.value == {"ward = 'a'": 5}
    assert [row["hit"] for row in by_text] == [True, None]
    assert len(by_text.to_arrow()) == 2


def test_solutions_of_several_types_fit_into_one_column(opened):
    session = opened(budget=NO_NOISE)
    solutions = [{"depth": 3}, "tree", 2**70, None]
    algorithms = [answering(f"{place}", [-place, solution]) for place, solution in enumerate(solutions)]
    found = session.ask(TopK(algorithms, k=4))
    assert [json.loads(text) for text in found.to_arrow()["solution"].to_pylist()] == solutions
    assert found.to_arrow()["score"].to_pylist() == [0, -1, -2, -3]
    assert len(session.ask(TopK(algorithms, k=4, above=1)).to_arrow()) == 0


def scores_of(names, script, epsilon="0.3", **options):
    return [Algorithm(name, lambda rows, source, name=name: script[name], epsilon, **options) for name in names]


def test_losers_are_held_and_published_later_by_another_condition(opened):
    session = opened(rows=stays(), unsafe_noise=Seeded(2), **ROOMY)
    script = {"a": [1, "one"], "b": [7, "seven"], "c": [4, "four"], "d": None, "e": [3, "x" * 90]}
    asked = TopK(scores_of("abcde", script, "0.01"), k=1, room=64)
    first = session.ask(asked, request="one")
    assert [chosen.solution for chosen in first.best] == ["seven"]
    assert session.ask(asked, request="one") == first
    lower = session.ask(Widen(first.call, above=4))
    assert [(chosen.name, chosen.solution) for chosen in lower.above] == [("c", "four")]
    rest = session.ask(Widen(first.call, when=When("any", lambda outcome: outcome[1] != "seven")))
    # What failed, or took more than its room, is not there any more.
    assert [chosen.name for chosen in rest.above] == ["a"]
    assert spent(session) == hit_of(session, Extendable("0.01")).times(3)
    secrets = {len(session.spine.ledger.secret(first.call) or b"")}
    other = session.ask(TopK(scores_of("abcde", {name: [0, None] for name in "abcde"}, "0.01"), k=1, room=64))
    assert secrets == {len(session.spine.ledger.secret(other.call) or b"")}


def test_losers_that_nobody_asked_to_hold_are_gone(opened):
    session = opened(rows=stays(), **ROOMY)
    found = session.ask(TopK(scores_of("ab", {"a": [1, None], "b": [2, None]}), k=1))
    with pytest.raises(NotWithheld, match="room="):
        session.ask(Widen(found.call, above=0))
    for wrong in (
        lambda: TopK(by_ward(), k=1, epsilon=1, room=9),
        lambda: TopK(scores_of("ab", {}), k=1, room=2**24),
    ):
        with pytest.raises(InvalidParameter, match="room"):
            wrong()


@pytest.mark.parametrize("bars", [(), (1,), (1, 0), (0,)])
def test_all_that_is_told_of_the_best_and_later_of_the_losers_is_paid(opened, bars):
    """Whole sessions: two candidates, each by a law of three scores; neighbours differ in both."""
    ratio, a = math.exp(0.3), None
    p = ratio / (1 + ratio)
    pair = ([p / 2, p / 2, 1 - p], [(1 - p) / 2, (1 - p) / 2, p])
    transcripts = {}
    for outcome in itertools.product(range(3), repeat=2):
        session = opened(rows=stays(), budget=Budget(epsilon=9, delta="1e-6"))
        a = float(session.spine.filter.order)
        script = dict(zip("ab", ([score, None] for score in outcome), strict=True))
        first = session.ask(TopK(scores_of("ab", script), k=1, above=2, room=32))
        told = [tuple(first.best)]
        told += [tuple(session.ask(Widen(first.call, above=bar)).above) for bar in bars]
        chances = [math.prod(law[score] for score in outcome) for law in pair]
        known = transcripts.setdefault(tuple(told), [0.0, 0.0, spent(session).main / MAIN_STEPS])
        assert known[2] == spent(session).main / MAIN_STEPS
        known[0] += chances[0]
        known[1] += chances[1]
        session.close()

    def moment(first, second, share=1.0):
        return sum(
            each[first] ** a * each[second] ** (1 - a) * math.exp(-share * each[2]) for each in transcripts.values()
        )

    assert max(moment(0, 1), moment(1, 0)) <= 1 + 1e-12
    assert max(moment(0, 1, 0.3), moment(1, 0, 0.3)) > 1
