"""Totals in streams: a model in pure Python, the exact privacy of small streams, what noise and counters are for."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chary
from chary import count, mean
from chary.calls import IndividualTests
from chary.data import NeighborRelation, RowTable
from chary.data.rows import Rooms
from chary.data.table import living
from chary.errors import InvalidQuery
from chary.mechanisms import Laplace
from chary.mechanisms.sketches import Counters
from tests.calls.individual.test_individual import (
    EPSILON,
    LEAST,
    NOBODY,
    ORDERS,
    Pair,
    Scripted,
    charged,
    forget,
    opened_on,
    used,
)

KEYS, LOW, HIGH = ["a", "b", "c"], -2, 3


def shares(rows, keys, limit):
    """What each unit adds to each key, by the limits of the query; without `keys` there is one key, None."""
    found = {}
    for unit in {row["u"] for row in rows}:
        mine = [(max(LOW, min(HIGH, row["x"])), row["k"]) for row in rows if row["u"] == unit]
        places = [(value, 0 if keys is None else keys.index(key)) for value, key in mine if keys is None or key in keys]
        if "max_rows_per_unit" in limit:
            places = sorted(places, key=lambda it: (-abs(it[0]), -it[0], it[1]))[: limit["max_rows_per_unit"]]
        for value, place in places:
            found[unit, place] = found.get((unit, place), 0) + value
    if "unit_total" in limit:
        low, high = limit["unit_total"]
        found = {cell: max(low, min(high, value)) for cell, value in found.items()}
    return {cell: value for cell, value in found.items() if value}


class Model:
    """Algorithm 5 with totals, without noise."""

    def __init__(self, rows, hits):
        self.rows, self.hits, self.used = rows, hits, {}

    def ask(self, keys, limit, above):
        cells, sums, published = {}, [0] * (1 if keys is None else len(keys)), {}
        for (unit, place), value in sorted(shares(self.rows, keys, limit).items()):
            if cells.get(unit, 0) < self.hits - self.used.get(unit, 0):
                cells[unit] = cells.get(unit, 0) + 1
                sums[place] += value
                published.setdefault(place, []).append(unit)
        hits = [place for place, value in enumerate(sums) if value >= above]
        for unit in (unit for place in hits for unit in published.get(place, [])):
            self.used[unit] = self.used.get(unit, 0) + 1
        return {place: sums[place] for place in hits}


ROWS = st.lists(
    st.fixed_dictionaries({"u": st.integers(0, 3), "k": st.sampled_from([*KEYS, "other"]), "x": st.integers(-4, 5)}),
    max_size=10,
)
LIMITS = st.sampled_from(
    [{"max_rows_per_unit": 1}, {"max_rows_per_unit": 2}, {"unit_total": (-3, 2)}, {"unit_total": (1, 4)}]
)
QUESTIONS = st.lists(
    st.tuples(st.sampled_from([None, KEYS, ["c", "a"]]), LIMITS, st.integers(-3, 3)), min_size=1, max_size=4
)


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), QUESTIONS)
def test_totals_and_counters_follow_the_model(rows, hits, questions):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laplace, "draw", lambda self, source, size: np.zeros(size, np.int64))
        model = Model([NOBODY, *rows], hits)
        with opened_on(model.rows) as session:
            stream = session.start(IndividualTests(epsilon="0.02", hits=hits))
            for keys, limit, above in questions:
                asked, expected = chary.sum("x", bounds=(LOW, HIGH), **limit), model.ask(keys, limit, above)
                if keys is None:
                    assert stream.ask(asked, above=above).value == expected.get(0)
                else:
                    found = stream.ask(asked.by("k", keys), above=above).above
                    assert found == {(keys[place],): value for place, value in expected.items()}
                assert used(session, stream) == model.used


class SummedPair(Pair):
    """Exact for values that differ by several steps: each of the steps between them is an outcome of its own."""

    def __init__(self, script, tables, hits, sensitivity):
        super().__init__(script, tables, EPSILON, hits)
        self.noise = Laplace.for_epsilon(EPSILON, sensitivity=sensitivity)

    def _weight(self, exact, above, outcome):
        return math.prod(
            self._part(pair, above, part) for pair, part in zip(zip(*exact, strict=True), outcome, strict=True)
        )

    def _part(self, pair, above, part):
        low, high = sorted(pair)
        cut = max(high, above)
        if part == "miss":
            ends = [-math.inf, above]
        elif part == "low":
            ends = [above, *range(max(above + 1, low), cut), cut] if above < cut else []
        else:
            ends = [cut, math.inf]
        return sum((self._moment(pair, *piece) for piece in itertools.pairwise(ends)), np.zeros(len(ORDERS)))

    def _moment(self, pair, start, end):
        here, there = (self._reach(start - value) - self._reach(end - value) for value in pair)
        return here**ORDERS * there ** (1 - ORDERS) if here > 0 else np.zeros(len(ORDERS))

    def _reach(self, steps):
        return {-math.inf: 1.0, math.inf: 0.0}[steps] if math.isinf(steps) else self.noise.at_least(steps)


TINY = [
    *({"u": "x", "k": key, "n": n} for key, n in [("a", 2), ("b", -1), ("c", 0)]),
    *({"u": "y", "k": key, "n": n} for key, n in [("b", 2), ("c", -1)]),
    {"u": "z", "k": "b", "n": 1},
]
SUM = chary.sum("n", bounds=(-1, 2), unit_total=(-1, 2))


def tables(neighbors):
    """The table with and without the unit "x", or with "y" in its place."""
    gone = [("y",), ("x", "y")] if neighbors == "add_remove" else [("y",), ("x",)]
    sides = [[row for row in TINY if row["u"] not in units] for units in gone]
    return [RowTable.open(pd.DataFrame(side), neighbor_relation=NeighborRelation(neighbors, "u")) for side in sides]


def eager(rounds):
    """Publishes always."""
    return lambda past: (SUM, LEAST) if len(past) < rounds else None


def adaptive(past):
    """A bar that follows the last outcome, over two keys."""
    asked = [SUM, SUM.by("k", ["c", "a"])]
    return (asked[len(past)], sum(part == "low" for last in past for part in last)) if len(past) < 2 else None


def keyed(past):
    """Two keys at once, always published."""
    return (SUM.by("k", ["a", "b"]), LEAST) if len(past) < 2 else None


def most(monkeypatch, neighbors, hits, sensitivity, analysts):
    """The largest log-moments of any of the analysts, either way round."""
    script = Scripted(monkeypatch)
    pairs = [SummedPair(script, list(sides), hits, sensitivity) for sides in itertools.permutations(tables(neighbors))]
    return np.max([pair.log_moments(analyst) for pair in pairs for analyst in analysts], axis=0)


def moved_by(neighbors):
    """By how much a total moves."""
    return SUM.sensitivity(NeighborRelation(neighbors, "u"))


@pytest.mark.parametrize(("neighbors", "hits"), [("add_remove", 1), ("add_remove", 2), ("replace", 1)])
def test_no_stream_of_totals_reveals_more_than_was_charged(monkeypatch, neighbors, hits):
    found = most(monkeypatch, neighbors, hits, moved_by(neighbors), [eager(3), adaptive, keyed])
    assert np.all(found > 1e-4)
    assert np.all(found <= charged(neighbors, hits))


def test_noise_for_counts_would_not_do(monkeypatch):
    assert moved_by("add_remove") == 2
    assert most(monkeypatch, "add_remove", 1, 1, [keyed])[0] > charged("add_remove", 1)[0]


def test_who_adds_little_must_pay_as_well(monkeypatch):
    monkeypatch.setattr(Counters, "raised", forget)
    assert most(monkeypatch, "add_remove", 1, 2, [eager(10)])[0] > charged("add_remove", 1)[0]


def test_who_adds_nothing_pays_nothing():
    with opened_on(TINY) as session:
        stream = session.start(IndividualTests(epsilon="0.02", hits=3))
        stream.ask(SUM.by("k", ["c", "d"]), above=LEAST)
        assert used(session, stream) == {"y": 1}


def test_a_mean_beyond_a_threshold_is_a_total(monkeypatch):
    monkeypatch.setattr(Laplace, "draw", lambda self, source, size: np.zeros(size, np.int64))
    rows = [{"u": unit, "k": "a", "x": unit % 10} for unit in range(100)]
    with opened_on(rows) as session:
        stream = session.start(IndividualTests(epsilon="0.02", hits=3))
        asked = mean("x", bounds=(0, 9), max_rows_per_unit=1)
        assert [stream.ask(asked.shifted(bar), above=0).published for bar in (4, 5)] == [True, False]
        assert sorted(used(session, stream)) == [unit for unit in range(100) if unit % 10 != 4]


def test_sharp_streams_add_up_in_steps_of_the_grid():
    rows = [{"u": unit, "k": "a", "x": 1.25} for unit in range(4000)]
    with opened_on(rows) as session:
        stream = session.start(IndividualTests(price="0.05", hits=10))
        found = stream.ask(chary.sum("x", bounds=(0, 2), grid="0.25", max_rows_per_unit=1), above=2000)
        assert abs(found.value - 5000) < 500
        assert found.value * 4 == int(found.value * 4)
        assert stream.quote(count(), above=0).error_bar < found.error_bar


def test_totals_beyond_64_bits_are_exact():
    edge, ids = 2**53, list(range(1100))
    rows = pd.DataFrame({"u": ids, "k": ["a"] * len(ids), "x": [edge] * len(ids)})
    table, asked = (
        RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", "u")),
        chary.sum("x", bounds=(0, edge), max_rows_per_unit=1),
    )
    for query, expected in [(asked, [1100 * edge]), (asked.by("k", ["b", "a"]), [0, 1100 * edge])]:
        with living(table, query).at(Rooms(Counters(3).rooms(), hits=3)) as units:
            assert units.answers().tolist() == expected
            assert units.of([len(expected) - 1]).num_rows == len(ids)
    assert 1100 * edge > 2**63


def test_a_total_without_a_limit_for_each_unit_is_refused():
    with opened_on(TINY) as session:
        stream = session.start(IndividualTests(epsilon="0.02", hits=3))
        with pytest.raises(InvalidQuery, match="may have many rows"):
            stream.ask(chary.sum("n", bounds=(0, 9)), above=1)
        assert len(session.history) == 1
