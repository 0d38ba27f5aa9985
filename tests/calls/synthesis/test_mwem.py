"""MWEM in a session: right without noise, the same bits after a restart, priced as a whole, refused before reading."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction

import pandas as pd
import pytest

import chary
from chary import Bins, Budget, BudgetExceeded, Universe, count
from chary.accounting import ZeroConcentrated
from chary.accounting.synthesis import mwem_margins_up
from chary.calls import MWEM
from chary.calls.synthesis import histogram_plan
from chary.data import Predicate
from chary.errors import InvalidParameter, InvalidQuery, NotPriced, RequestConflict
from chary.mechanisms.weights import PublicHistogram, missed
from chary.noise import Seeded
from tests.calls.weights.weighting_kit import QUESTIONS, UNIVERSE, true_share
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, error_texts, shows_data, spent, visits

# As they are shown.
QUERIES = [Predicate.parse(text).text for text in QUESTIONS]


def made(session, request=None, **options):
    given = {"universe": UNIVERSE, "queries": QUERIES, "rounds": 6, "epsilon": 1} | options
    return session.ask(MWEM(**given), request=request)


def test_without_noise_all_answers_are_right(rows):
    found = made(rows(budget=NO_NOISE, filter="pure"), epsilon=4 * PLENTY, rounds=60)
    frame = visits()
    for text in QUERIES:
        assert found.share(text) == pytest.approx(true_share(frame, text), abs=0.03)
        assert found.share(count(text)) == found.share(text)
    told = found.rounds[found.kept]
    assert abs(told.measured / 120 - told.share) < found.error_bar < abs(told.measured / 120 - told.share) + 2.1 / 120
    assert all(told.measured == round(120 * true_share(frame, told.query)) for told in found.rounds)
    assert found.share(None) == pytest.approx(1)
    assert found.share("age < 30 AND age >= 60") == 0


def test_the_first_query_is_that_of_which_the_uniform_histogram_is_farthest(rows):
    found = made(rows(budget=NO_NOISE, filter="pure"), epsilon=PLENTY, rounds=2)
    uniform = dict(zip(QUERIES, (1 / 4, 1 / 3, 1 / 4, 1 - (3 / 4) * (5 / 6), 1 / 2, 1 / 4), strict=True))
    off = {text: abs(round(120 * true_share(visits(), text)) - round(120 * share)) for text, share in uniform.items()}
    assert off[found.rounds[0].query] == max(off.values())
    assert found.rounds[0].share == pytest.approx(uniform[found.rounds[0].query])


def test_the_histogram_is_the_same_bit_by_bit_after_a_restart(rows, tmp_path):
    place = tmp_path / "visits.ledger"
    budget = Budget(epsilon=9, delta=1e-6)
    with closing(rows(ledger=place, budget=budget, unsafe_noise=Seeded(9))) as session:
        first = [made(session, request="pure"), made(session, epsilon=None, rho="0.1", request="rho")]
        bits, paid = [found.histogram().tobytes() for found in first], spent(session)
        answer = session.history[0].answer
        assert set(answer) == {"size", "rounds", "schema", "exponents"}
    again = rows(ledger=place, budget=None)
    second = [made(again, request="pure"), made(again, epsilon=None, rho="0.1", request="rho")]
    assert second == first
    assert [found.histogram().tobytes() for found in second] == bits
    assert spent(again) == paid
    with pytest.raises(RequestConflict):
        made(again, request="pure", rounds=7)
    with pytest.raises(RequestConflict):
        made(again, request="pure", queries=QUERIES[:-1])


def test_the_whole_price_is_that_of_the_event(rows):
    session = rows(budget=Budget(epsilon=2))
    made(session, epsilon="0.5")
    assert session.spent.share == pytest.approx(0.25)
    both = rows(budget=Budget(epsilon=2, delta=1e-6))
    made(both, epsilon=None, rho="0.01")
    assert spent(both) == both.spine.filter.price(ZeroConcentrated("0.01")).hit
    quote = both.quote(MWEM(universe=UNIVERSE, queries=QUERIES, rounds=6, rho="0.01"))
    assert quote.fits
    with pytest.raises(BudgetExceeded):
        made(session, epsilon=3)
    with pytest.raises(NotPriced):
        made(session, epsilon=None, rho="0.01")


def test_the_error_bar_is_what_was_missed_and_both_margins(rows):
    for sizes in ({"epsilon": Fraction(3)}, {"epsilon": None, "rho": Fraction(1, 2)}):
        session = rows(budget=Budget(epsilon=9, delta=1e-6), rows=pd.concat([visits()] * 40))
        found = made(session, **sizes)
        margins = mwem_margins_up(queries=6, rounds=6, confidence="0.95", **sizes)
        told = found.rounds[found.kept]
        least = min(missed(each, found.size) for each in found.rounds)
        assert missed(told, found.size) == least
        assert found.error_bar == pytest.approx(min(1, least + margins.tested / found.size))
        assert found.size == 4800


def test_one_condition_is_a_list_of_one(rows):
    found = made(rows(), queries="age >= 40", rounds=2, epsilon="0.1")
    assert [query.text for query in found.asked] == ["age >= 40"]


def test_the_first_repeated_condition_is_named(rows):
    session = rows()
    with pytest.raises(InvalidQuery, match="\"clinic = 'north'\" is repeated"):
        made(session, queries=["age >= 40", "clinic = 'north'", "clinic   = 'north'", "age >= 40.0"])
    assert session.history == []


def test_keys_make_a_query_each_and_synthetic_rows_come_from_the_histogram(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    found = made(session, queries=[count().by("clinic", CLINICS), "age >= 40"], epsilon=4 * PLENTY, rounds=40)
    assert [query.text for query in found.asked][:2] == ["clinic = 'north'", "clinic = 'south'"]
    paid = spent(session)
    table = found.synthetic(rows=20_000)
    assert table == found.synthetic(rows=20_000) != found.synthetic(rows=20_000, seed=1)
    frame = table.to_pandas()
    assert (frame.clinic == "north").mean() == pytest.approx(found.share("clinic = 'north'"), abs=0.02)
    assert found.histogram().shape == (4, 6)
    assert found.histogram().sum() == pytest.approx(1)
    assert spent(session) == paid
    with pytest.raises(InvalidParameter):
        found.synthetic(rows=0)
    with pytest.raises(InvalidQuery):
        found.share("age >= 35")


def test_threads_look_one_at_a_time(rows, monkeypatch):
    """A histogram sums in room that it keeps: two threads in it would see each other's numbers."""
    found, inside, seen = made(rows(), epsilon="0.5"), [], []

    def slow(histogram, cells):
        inside.append(cells)
        seen.append(len(inside))
        time.sleep(0.01)
        inside.remove(cells)
        return 0.5

    monkeypatch.setattr(PublicHistogram, "share", slow)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(found.share, QUERIES)) == [0.5] * len(QUERIES)
    assert seen == [1] * len(QUERIES)


def test_rows_in_no_cell_are_counted_but_have_no_weight(rows):
    universe = Universe({"clinic": ["north", "south"], "age": Bins([20, 81])}, missing=False)
    session = rows(budget=NO_NOISE, filter="pure")
    found = session.ask(MWEM(universe=universe, queries=["age >= 20", "clinic = 'north'"], rounds=3, epsilon=PLENTY))
    assert all(told.measured == 120 for told in found.rounds if told.query == "age >= 20")
    assert found.histogram().shape == (2, 1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"queries": []}, InvalidQuery),
        ({"queries": [3]}, InvalidQuery),
        ({"queries": [None]}, InvalidQuery),
        ({"queries": ["clinic >"]}, InvalidQuery),
        ({"queries": ["age >= 35"]}, InvalidQuery),
        ({"queries": ["cost > 3"]}, InvalidQuery),
        ({"queries": ["clinic LIKE 'n%'"]}, InvalidQuery),
        ({"queries": ["age >= 30", "clinic <> 'North'"]}, InvalidQuery),
        ({"queries": [count().by("clinic", ["north", "nowhere"])]}, InvalidQuery),
        ({"queries": ["age >= 30", "age>=30"]}, InvalidQuery),
        ({"queries": [count("age >= 30", without="age >= 40")]}, InvalidQuery),
        ({"universe": {"age": CLINICS}}, InvalidQuery),
        ({"universe": {}}, InvalidQuery),
        ({"universe": {"height": [1]}, "queries": ["height = 1"]}, InvalidQuery),
        ({"rounds": 0}, InvalidParameter),
        ({"rounds": 1001}, InvalidParameter),
        ({"rounds": 1.5}, InvalidParameter),
        ({"rho": 1}, InvalidParameter),
        ({"epsilon": None}, InvalidParameter),
        ({"epsilon": -1}, InvalidParameter),
    ],
)
def test_bad_calls_are_refused_before_anything_is_read_or_recorded(rows, options, error):
    seen = []
    session = rows(on_step=seen.append)
    with pytest.raises(error) as caught:
        made(session, **options)
    assert session.history == []
    assert "reserved" not in seen
    assert not shows_data(error_texts(caught.value))


def test_too_many_queries_are_refused(rows, monkeypatch):
    monkeypatch.setattr("chary.data.universe.counts.MOST_QUERIES", 5)
    with pytest.raises(InvalidQuery, match="1 to 5"):
        made(rows())


def test_a_secret_size_and_no_rows_are_refused(opened, rows):
    for options in ({}, {"privacy_unit": None}, {"neighbors": "replace"}):
        with pytest.raises(InvalidQuery, match="number of rows"):
            made(opened(**options))
    with pytest.raises(InvalidQuery, match="needs rows"):
        made(rows(rows=visits().iloc[:0].astype({"clinic": "string", "age": "int64"})))


def test_the_answer_is_a_function_of_counts_and_noise_alone(rows):
    """Two tables with the same counts of all queries give the same answer from the same noise."""
    frame = visits()
    swapped = frame.sample(frac=1, random_state=1).assign(cost=1.0, note="other")
    answers = []
    for table in (frame, swapped):
        session = rows(rows=table, unsafe_noise=Seeded(6))
        made(session, epsilon="0.5")
        answers.append(json.dumps(session.history[-1].answer))
    assert answers[0] == answers[1]


def asked(neighbor_relation, **options):
    """The call as it is run."""
    given = {"universe": UNIVERSE, "queries": QUERIES, "rounds": 3, "epsilon": "0.5"} | options
    return histogram_plan(MWEM(**given), neighbor_relation)


@pytest.mark.parametrize(("neighbors", "unit"), [("add_remove", None), ("replace", "patient")])
def test_a_histogram_is_of_rows_that_are_replaced(neighbors, unit):
    with pytest.raises(InvalidQuery, match="public number of rows"):
        asked(chary.NeighborRelation(neighbors, unit))


def test_the_question_holds_all_that_matters():
    row = chary.NeighborRelation("replace", None)
    made_ = asked(row)
    body = json.loads(made_.body)
    assert body["queries"] == [chary.data.Predicate.parse(text).text for text in QUERIES]
    assert (body["rounds"], body["epsilon"]) == (3, "1/2")
    others = [
        asked(row, epsilon=None, rho="0.5"),
        asked(row, queries=QUERIES[1:]),
        asked(row, rounds=4),
        asked(row, universe=Universe(UNIVERSE, missing=False)),
    ]
    assert len({made_.body, *(other.body for other in others)}) == 5
