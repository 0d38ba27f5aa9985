"""Individual charging: a model in pure Python, the exact privacy of small streams, restarts, refusals, masks."""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chary
from chary import Budget, BudgetExceeded, count
from chary.accounting import Targeted, hit_price_up
from chary.calls import IndividualTests, LivingCount, ThresholdTest
from chary.calls.individual import CounterMemory, IndividualRun
from chary.core.plan import Data
from chary.data import NeighborRelation, RowTable
from chary.data.engines.sql import LivingAnswers
from chary.errors import InvalidParameter, InvalidQuery, NotPriced, RequestConflict
from chary.filters import RenyiFilter
from chary.mechanisms import Laplace
from chary.mechanisms.sketches import Counters
from chary.session import plain_composition
from tests.session.kit import spent, visits

KEYS = ["b", "a", "c"]
WHERE = {None: lambda row: True, "x >= 2": lambda row: row["x"] >= 2, "x < 2": lambda row: row["x"] < 2}
NOBODY = {"u": -1, "k": "other", "x": 0}
LEAST = -(10**6)
EPSILON, ORDERS = Fraction(1, 20), np.array([2.0, 12.0])


@pytest.fixture
def exact(monkeypatch):
    """No noise at all."""
    monkeypatch.setattr(Laplace, "draw", lambda self, source, size: np.zeros(size, np.int64))


def opened_on(rows, **options):
    given = {"privacy_unit": "u", "ledger": ":memory:", "budget": Budget(epsilon=5, delta=1e-6), "grain": "0.02"}
    return chary.open(pd.DataFrame(rows), **(given | options))


class Model:
    """Algorithm 5 with keys, without noise."""

    def __init__(self, rows, hits):
        self.rows, self.hits, self.used = list(rows), hits, {}

    def release_if(self, where, above):
        living = {row["u"] for row in self.rows if WHERE[where](row)}
        living = {unit for unit in living if self.used.get(unit, 0) < self.hits}
        if len(living) < above:
            return None
        for unit in living:
            self.used[unit] = self.used.get(unit, 0) + 1
        return len(living)

    def watch(self, where, keys, keep, above):
        taking = {key: set() for key in keys}
        for unit in {row["u"] for row in self.rows}:
            mine = [key for key in keys if any(self._is_in(row, unit, key, where) for row in self.rows)]
            for key in mine[:keep][: self.hits - self.used.get(unit, 0)]:
                taking[key].add(unit)
        found = {(key,): len(units) for key, units in taking.items() if len(units) >= above}
        for (key,) in found:
            for unit in taking[key]:
                self.used[unit] = self.used.get(unit, 0) + 1
        return found

    @staticmethod
    def _is_in(row, unit, key, where):
        return row["u"] == unit and row["k"] == key and WHERE[where](row)


ROWS = st.lists(
    st.fixed_dictionaries({"u": st.integers(0, 5), "k": st.sampled_from([*KEYS, "other"]), "x": st.integers(0, 3)}),
    max_size=12,
)
BARS = st.integers(0, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("release_if"), st.sampled_from(list(WHERE)), BARS),
        st.tuples(
            st.just("watch"),
            st.sampled_from(list(WHERE)),
            st.lists(st.sampled_from(KEYS), min_size=1, unique=True),
            st.sampled_from([None, 1, 2]),
            BARS,
        ),
        st.tuples(st.just("append"), ROWS),
        st.tuples(st.just("again")),
    ),
    max_size=10,
)


@settings(max_examples=40)
@given(ROWS, st.integers(1, 4), STEPS)
def test_answers_and_counters_follow_the_model(rows, hits, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laplace, "draw", lambda self, source, size: np.zeros(size, np.int64))
        model = Model([NOBODY, *rows], hits)
        with opened_on(model.rows) as session:
            stream = session.start(IndividualTests(epsilon="0.02", hits=hits))
            for kind, *given in steps:
                if kind == "append":
                    session.append(pd.DataFrame([NOBODY, *given[0]]))
                    model.rows += [NOBODY, *given[0]]
                elif kind == "again":
                    stream = session.resume(stream.call)
                elif kind == "release_if":
                    found = stream.ask(count(given[0]), above=given[1])
                    assert (found.value, found.published) == ((value := model.release_if(*given)), value is not None)
                else:
                    where, keys, keep, above = given
                    found = stream.ask(count(where).by("k", keys, max_groups_per_unit=keep), above=above)
                    assert found.above == model.watch(where, keys, keep, above)
                    assert found.tested == len(keys)
                assert used(session, stream) == model.used


def used(session, stream):
    counters = Counters.load(session.spine.ledger.secret(stream.call)).used.to_pydict()
    return dict(zip(counters["unit"], counters["used"], strict=True))


class Scripted:
    """In place of noise: tells the noisy values and remembers the exact ones."""

    def __init__(self, monkeypatch):
        self.exact, self.noisy = None, None
        monkeypatch.setattr(Laplace, "apply", lambda _noise, values, _source: self._apply(values))

    def _apply(self, values):
        self.exact = list(map(int, values))
        return np.array(self.noisy)


class Pair:
    """The log-moments of a whole stream between a table and its neighbour, by enumeration of all transcripts.

    After each answer the analyst asks the next query, which may depend on all outcomes so far. Published values are
    told apart at the larger count only: elsewhere the likelihood ratio is the same for all of them.
    """

    def __init__(self, script, tables, epsilon, hits):
        self.script, self.epsilon, self.hits = script, epsilon, hits
        self.tables = [(table, CounterMemory(table)) for table in tables]
        self.known = {}

    def log_moments(self, analyst):
        """At each of the orders."""
        start = Counters(self.hits).dump()
        return np.log(self._below(analyst, (), (start, start)))

    def _below(self, analyst, past, secrets):
        question = analyst(past)
        if question is None:
            return np.ones(len(ORDERS))
        query, above = question
        size, sums = 1 if query.keys is None else len(query.keys), np.zeros(len(ORDERS))
        for hits in itertools.product((False, True), repeat=size):
            noisy = [above if hit else above - 1 for hit in hits]
            runs = [self._run(side, query, above, noisy, secrets[side]) for side in (0, 1)]
            after = tuple(secret for _, secret in runs)
            exact = [values for values, _ in runs]
            for outcome in itertools.product(*[("low", "high") if hit else ("miss",) for hit in hits]):
                weight = self._weight(exact, above, outcome)
                if weight.any():
                    sums += weight * self._below(analyst, (*past, outcome), after)
        return sums

    def _run(self, side, query, above, noisy, secret):
        asked = side, query, above, tuple(noisy), secret
        if asked not in self.known:
            self.known[asked] = self._really(*asked)
        return self.known[asked]

    def _really(self, side, query, above, noisy, secret):
        table, memory = self.tables[side]
        run = IndividualRun(None, 1, {"epsilon_per_call": str(self.epsilon), "hits_per_unit": 1})
        run.memory = memory
        asked = run._test(query, Fraction(above), table.neighbor_relation)
        self.script.noisy = noisy
        ran = asked.run(Data([memory.plan(query)], None, secret, None, None))
        return self.script.exact, ran.secrets[1]

    def _weight(self, exact, above, outcome):
        chances = [
            [self._chance(value, above, max(pair), part) for value in pair]
            for pair, part in zip(zip(*exact, strict=True), outcome, strict=True)
        ]
        here, there = (math.prod(side) for side in zip(*chances, strict=True))
        return here**ORDERS * there ** (1 - ORDERS) if here else np.zeros(len(ORDERS))

    def _chance(self, value, above, cut, part):
        noise = Laplace.for_epsilon(self.epsilon, sensitivity=1)
        cut = max(cut, above)
        reach, high = noise.at_least(above - value), noise.at_least(cut - value)
        return {"miss": 1 - reach, "low": reach - high, "high": high}[part]


def tables(rows, neighbors="add_remove"):
    """The table with and without the unit "x" (or with another one in its place)."""
    sides = [[row for row in rows if row["u"] != other] for other in ("y", "x")]
    if neighbors == "add_remove":
        sides[0] = [row for row in rows if row["u"] != "y"]
        sides[1] = [row for row in rows if row["u"] not in ("x", "y")]
    return [RowTable.open(pd.DataFrame(side), neighbor_relation=NeighborRelation(neighbors, "u")) for side in sides]


TINY = [
    *({"u": "x", "k": key, "n": 1} for key in ("a", "b", "c")),
    *({"u": "y", "k": key, "n": 2} for key in ("b", "c", "d")),
    {"u": "z", "k": "b", "n": 3},
]


def eager(rounds):
    """Publishes always, one way or another: by counts of everybody, of x and of y."""
    where = ["n = 1", None, "n = 2"]
    return lambda past: (count(where[len(past) % 3]), LEAST) if len(past) < rounds else None


def adaptive(past):
    """A bar that follows the last outcome, and a watch in the middle."""
    if len(past) == 3:
        return None
    if len(past) == 1:
        return count().by("k", ["c", "a"]), 1 if past[0] == ("miss",) else 2
    return count(None if past[-1:] == [("miss",)] else "n <= 2"), 1 + sum(
        part == "high" for last in past for part in last
    )


def keyed(past):
    """All keys of x at once, always published."""
    return (count().by("k", ["a", "b", "c"]), LEAST) if len(past) < 2 else None


ANALYSTS = [eager(4), adaptive, keyed]


def persistent(*wheres, patience=12):
    """The worst analyst: asks about each unit at the same bar until it is published."""

    def ask(past):
        turn, tries = 0, 0
        for (part,) in past:
            turn, tries = (turn, tries + 1) if part == "miss" else (turn + 1, 0)
        return (count(wheres[turn]), 1) if turn < len(wheres) and tries < patience else None

    return ask


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("hits", [1, 2])
def test_no_stream_reveals_more_than_was_charged(monkeypatch, neighbors, hits):
    script = Scripted(monkeypatch)
    for sides in itertools.permutations(tables(TINY, neighbors)):
        pair = Pair(script, sides, EPSILON, hits)
        most = np.max([pair.log_moments(analyst) for analyst in ANALYSTS], axis=0)
        assert np.all(most > 1e-4)
        assert np.all(most <= charged(neighbors, hits))


def charged(neighbors, hits):
    """What opening the stream costs, as log-moments."""
    near, filter_ = NeighborRelation(neighbors, "u"), RenyiFilter.best(Budget(epsilon=1, delta="1e-6"))
    session = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=near), filter=filter_)
    parallel = IndividualTests(epsilon=EPSILON, hits=hits).plan(session).cost.parts
    return np.array([float(parallel * hit_price_up(Targeted(EPSILON), Fraction(order))) for order in ORDERS])


def test_the_worst_analyst_all_but_attains_the_price(monkeypatch):
    lacking, having = reversed(tables(TINY)), charged("add_remove", 1)
    moments = Pair(Scripted(monkeypatch), list(lacking), EPSILON, 1).log_moments(persistent("n = 1", patience=60))
    assert np.all(moments <= having)
    assert np.all(moments > 0.99 * having)


def test_under_replace_one_price_would_not_do(monkeypatch):
    moments = Pair(Scripted(monkeypatch), tables(TINY, "replace"), EPSILON, 1).log_moments(persistent("n = 2", "n = 1"))
    assert np.all(charged("add_remove", 1) < moments)
    assert np.all(moments <= charged("replace", 1))


def forget(self, took):
    """Counters that never rise."""
    return Counters(self.hits, self.published + 1)


def test_without_removal_the_price_would_not_do(monkeypatch):
    monkeypatch.setattr(Counters, "raised", forget)
    pair = Pair(Scripted(monkeypatch), tables(TINY), EPSILON, 1)
    moments = pair.log_moments(lambda past: (count("n = 1"), LEAST) if len(past) < 3 else None)
    assert moments[0] > charged("add_remove", 1)[0]


def test_in_all_of_its_keys_a_unit_would_pass_the_price_and_the_counters_refuse(monkeypatch):
    monkeypatch.setattr(LivingAnswers, "_binding", lambda self: False)
    pair = Pair(Scripted(monkeypatch), tables(TINY), EPSILON, 1)
    with pytest.raises(InvalidParameter, match="at most"):
        pair.log_moments(keyed)
    monkeypatch.setattr(Counters, "raised", forget)
    assert pair.log_moments(keyed)[0] > charged("add_remove", 1)[0]


def test_the_whole_price_is_charged_once_and_nothing_afterwards(opened, exact):
    session = opened(grain="0.02")
    hit = session.spine.filter.price(Targeted("0.02")).hit
    stream = session.start(IndividualTests(epsilon="0.02", hits=3))
    assert spent(session).main == 3 * hit.main
    for _ in range(5):
        stream.ask(count(), above=1)
        stream.ask(count().by("clinic", ["north", "south"]), above=1)
    assert spent(session).main == 3 * hit.main
    assert [entry.share for entry in session.history[1:]] == [0.0] * 10
    assert plain_composition(session).epsilon > 0.02


def test_a_stream_goes_on_when_the_budget_is_spent(opened, exact):
    session = opened(budget=Budget(epsilon=1, delta=1e-6), grain="0.02")
    most = hits_left = session.quote(ThresholdTest(count(), above=1, epsilon="0.02")).hits_left
    stream = session.start(IndividualTests(epsilon="0.02", hits=most))
    with pytest.raises(BudgetExceeded):
        session.test(count(), above=1, epsilon="0.02")
    values = [stream.ask(count(), above=1).value for _ in range(hits_left + 2)]
    assert values == [51] * hits_left + [None, None]
    with pytest.raises(BudgetExceeded):
        session.start(IndividualTests(epsilon="0.02", hits=1))


def test_replace_costs_twice_as_much():
    shares = []
    for neighbors in ("add_remove", "replace"):
        with opened_on([NOBODY], neighbors=neighbors) as session:
            session.start(IndividualTests(epsilon="0.02", hits=4))
            shares.append(session.spent.amount.main)
    assert shares[1] == 2 * shares[0]


def test_the_exact_filter_pays_in_tokens():
    with opened_on([NOBODY], filter="exact", budget=Budget(epsilon=1, delta=1e-6)) as session:
        session.start(IndividualTests(epsilon="0.02", hits=4))
        assert session.spent.amount.main == 4
        with pytest.raises(NotPriced):
            session.start(IndividualTests(epsilon="0.05", hits=1))


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=10)}, {"budget": Budget(epsilon=1, delta=1e-6)}])
def test_where_a_miss_is_charged_no_stream_opens(opened, options):
    session = opened(**options)
    with pytest.raises(NotPriced, match="never ends"):
        session.start(IndividualTests(epsilon=9, hits=1))
    assert spent(session).main == 0
    assert session.history == []


def test_counters_survive_a_restart_and_the_table_grows(tmp_path, exact):
    file = tmp_path / "rows.ledger"
    rows = [{"u": unit, "k": "a", "x": 0} for unit in range(10)]
    with opened_on(rows, ledger=file) as session:
        stream = session.start(IndividualTests(epsilon="0.02", hits=2), request="one")
        assert session.start(IndividualTests(epsilon="0.02", hits=2), request="one").call == stream.call
        with pytest.raises(RequestConflict):
            session.start(IndividualTests(epsilon="0.02", hits=3), request="one")
        assert stream.ask(count(), above=1, request="first").value == 10
    with opened_on(rows, ledger=file) as session:
        again = session.resume(stream.call)
        assert (again.state.epsilon, again.state.hits) == (Fraction(1, 50), 2)
        assert [found.call for found in session.runs] == [stream.call]
        assert again.ask(count(), above=1, request="first") == LivingCount(stream.call + 2, 10, None)
        assert again.ask(count().by("k", ["a"]), above=1).above == {("a",): 10}
        session.append(pd.DataFrame([{"u": unit, "k": "a", "x": 0} for unit in range(5, 15)]))
        assert again.ask(count(), above=1).value == 5
        other = session.start(IndividualTests(epsilon="0.02", hits=1))
        assert other.ask(count(), above=1).value == 15
        assert used(session, again) == {unit: 2 if unit < 10 else 1 for unit in range(15)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"hits": 0},
        {"hits": -1},
        {"hits": 1.5},
        {"hits": True},
        {"hits": "3"},
        {"hits": None},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": None},
    ],
)
def test_a_wrong_opening_charges_nothing(opened, wrong):
    session = opened()
    with pytest.raises(InvalidParameter):
        session.start(IndividualTests(**({"epsilon": "0.02", "hits": 3} | wrong)))
    assert session.history == []


def test_a_wrong_question_touches_nothing(opened):
    session = opened()
    stream = session.start(IndividualTests(epsilon="0.02", hits=3))
    summed = chary.sum("cost", bounds=(0, 9))
    wrong = [
        lambda: stream.ask(count(without="age > 3"), above=1),
        lambda: stream.ask(summed, above=1),
        lambda: stream.ask(summed.by("clinic", ["north"]), above=1),
        lambda: stream.ask("age > 3", above=1),
        lambda: stream.ask(count("nothing > 3"), above=1),
        lambda: stream.ask(count(), above=math.nan),
        lambda: stream.ask(count().by("clinic", [1]), above=1),
    ]
    for ask in wrong:
        with pytest.raises((InvalidQuery, InvalidParameter)):
            ask()
    assert len(session.history) == 1


def test_rows_without_ids_are_refused_before_anything_is_charged():
    with opened_on([NOBODY], privacy_unit=None) as session, pytest.raises(InvalidQuery, match="by its id"):
        session.start(IndividualTests(epsilon="0.02", hits=3))
    series = pd.DataFrame({"n": [1, 2]})
    options = {"column": "n", "sensitivity": 1, "ledger": ":memory:", "budget": Budget(epsilon=1, delta=1e-6)}
    with chary.open_counts(series, **options) as session:
        with pytest.raises(InvalidQuery, match="by its id"):
            session.start(IndividualTests(epsilon="0.02", hits=3))
        assert session.history == []


def test_the_visits_of_one_patient_are_one_unit(opened, exact):
    session = opened()
    stream = session.start(IndividualTests(epsilon="0.02", hits=2))
    clinics = visits().groupby("clinic")["patient"].nunique()
    found = stream.ask(count().by("clinic", ["north", "south", "east"]), above=1)
    assert found.above[("north",)] == clinics["north"]
    assert sum(used(session, stream).values()) == sum(found.above.values()) <= 2 * visits()["patient"].nunique()
