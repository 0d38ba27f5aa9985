"""Linear queries in a session: right without noise in every form, the same after a restart, moved by one by a row."""

from contextlib import closing
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import chary
from chary import Budget, InvalidQuery
from chary.accounting.synthesis import mwem_law
from chary.calls import MWEM, PMW, SmallDatabase
from chary.data import average, weighted
from chary.data.universe.counts import WeightReader
from chary.growth import MWEMBox, SmallDatabaseBox
from chary.noise import Seeded
from tests.calls.weights.sparse_weights_kit import MOST
from tests.calls.weights.weighting_kit import UNIVERSE, weights_of
from tests.session.kit import NO_NOISE, SECRET_NAME, SECRET_NUMBER, visits

EDGES = [20, 30, 40, 50, 60, 81]
AGE = average("age", bounds=(20, 80))
NORTH = average("age", bounds=(0, 81), where="clinic = 'north'")
MIXED = weighted({"clinic = 'north' AND age >= 40": "1/3", "clinic IN ('north', 'south')": "0.7", "age < 30": 1})
LINEAR = [AGE, NORTH, MIXED]


def truths(frame=None):
    """Row by row."""
    frame = visits() if frame is None else frame
    middles = [(low + high) / 2 for low, high in pairwise(EDGES)]
    middle = np.array([middles[np.searchsorted(EDGES, age, "right") - 1] for age in frame["age"]])
    north, known = frame["clinic"] == "north", frame["clinic"].isin(["north", "south"])
    mixed = np.select([north & (frame["age"] >= 40), known, frame["age"] < 30], [1 / 3, 0.7, 1.0], 0.0)
    return [((middle - 20) / 60).mean(), (np.where(north, middle, 0) / 81).mean(), mixed.mean()]


OPENINGS = {
    "laplace": PMW(universe=UNIVERSE, alpha="0.06", epsilon=50),
    "sparse": PMW(prepaid=True, universe=UNIVERSE, alpha="0.15", epsilon=MOST, rounds=12),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_without_noise_answers_are_within_alpha_and_hard_ones_are_right(rows, name):
    opening = OPENINGS[name]
    run = rows(budget=NO_NOISE, filter="pure").start(opening)
    for query, truth in zip(LINEAR, truths(), strict=True):
        first = run.ask(query)
        # A sparse vector publishes whole rows, and so does the count of a call.
        assert first.share == pytest.approx(truth, abs=1 / 120 if first.hard else float(Fraction(opening.alpha)))
        again = run.ask(query.text)
        assert again.share == pytest.approx(truth, abs=float(Fraction(opening.alpha)))
        assert run.state.estimate(query) == pytest.approx(again.share, abs=1e-9) or again.hard


def test_an_interval_of_a_hard_answer_holds_the_truth_and_half_a_row(rows):
    run, hard = weights_of(rows(budget=NO_NOISE, filter="pure"), epsilon=50, alpha="0.02"), 0
    for query, truth in zip(LINEAR, truths(), strict=True):
        answer = run.ask(query)
        low, high = answer.interval if answer.hard else (0, 1)
        assert (low or 0) - 1e-12 <= truth <= (1 if high is None else high) + 1e-12
        assert not answer.hard or high - low >= 1 / 120 - 1e-12
        hard += answer.hard
    assert hard >= 2


def test_sharp_tests_ask_them_too(rows):
    session = rows(pd.concat([visits()] * 400), unsafe_noise=Seeded(3), budget=Budget(epsilon=8, delta=1e-6))
    run = session.start(PMW(universe=UNIVERSE, alpha="0.1", hits=40))
    for query, truth in zip(LINEAR, truths(), strict=True):
        answer = run.ask(query)
        assert answer.share == pytest.approx(truth, abs=0.1)


def test_a_restart_goes_on_bit_by_bit(rows, tmp_path):
    options = {"ledger": tmp_path / "a.ledger", "budget": Budget(epsilon=9, delta=1e-6), "unsafe_noise": Seeded(9)}
    with closing(rows(**options, grain="0.2")) as session:
        run = weights_of(session, alpha="0.02")
        answers = [run.ask(query, request=query.text) for query in LINEAR]
        kept, bits = run.state.changes, run.state.histogram().tobytes()
        assert len(kept) >= 2
    with closing(rows(**options, grain="0.2")) as session:
        again = session.resume(run.call)
        assert (again.state.changes, again.state.histogram().tobytes()) == (kept, bits)
        assert [again.ask(query, request=query.text) for query in LINEAR] == answers
        assert again.ask(MIXED).verified


def test_a_replaced_row_moves_what_is_read_by_one(rows):
    """Through the engine, for every row of the table and some that replace it."""
    frame = visits()[["clinic", "age"]].astype({"age": "Int64"})
    others = [("north", 80), (None, None), ("west", 7), ("south", 20)]
    counts = []
    for clinic, age in others:
        session = rows(
            pd.concat([frame.iloc[:-1], pd.DataFrame({"clinic": [clinic], "age": [age]}).astype({"age": "Int64"})])
        )
        run = weights_of(session)
        asked = [run.plan(query).reads(session.spine.rows) for query in LINEAR]
        assert all(isinstance(reader, WeightReader) for (reader,) in asked)
        counts.append([reader.run().rows for (reader,) in asked])
        session.close()
    assert set(np.ptp(np.array(counts), axis=0).tolist()) <= {0, 1}


@pytest.mark.parametrize("sizes", [{"epsilon": 4000}, {"rho": 4 * 10**6}], ids=["pure", "rho"])
def test_mwem_answers_them(rows, sizes):
    session = rows(budget=Budget(epsilon=10**8, delta=1e-6), filter="pure" if "epsilon" in sizes else "renyi")
    found = session.ask(MWEM(universe=UNIVERSE, queries=[*LINEAR, "clinic = 'north'"], rounds=40, **sizes), request="x")
    for query, truth in zip(LINEAR, truths(), strict=True):
        assert found.share(query) == pytest.approx(truth, abs=0.03)
        low, high = found.interval_of(query)
        assert low <= truth <= high
    repeated = session.ask(
        MWEM(universe=UNIVERSE, queries=[*(query.text for query in LINEAR), "clinic = 'north'"], rounds=40, **sizes),
        request="x",
    )
    assert repeated == found
    assert repeated.histogram().tobytes() == found.histogram().tobytes()


def test_small_databases_answer_them(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    tenths = weighted({"clinic = 'north' AND age >= 40": "0.3", "clinic IN ('north', 'south')": "0.7"})
    frame = visits()
    north = (frame["clinic"] == "north") & (frame["age"] >= 40)
    truth = np.select([north, frame["clinic"].isin(["north", "south"])], [0.3, 0.7], 0.0).mean()
    asked = SmallDatabase(universe=UNIVERSE, queries=[tenths, "clinic = 'north'"], epsilon=PLAIN, rows=20)
    found = session.ask(asked)
    assert found.share(tenths) == pytest.approx(truth, abs=0.05)
    assert found.share("clinic = 'north'") == pytest.approx((frame["clinic"] == "north").mean(), abs=0.05)
    low, high = found.interval_of(tenths)
    assert low <= truth <= high
    assert chary.calls.read(asked.body()) == asked
    with pytest.raises(InvalidQuery, match="too many different scores"):
        session.ask(SmallDatabase(universe=UNIVERSE, queries=[weighted({"age < 30": "1/1048573"})], epsilon=1, rows=6))
    fine = [weighted({"age < 30": f"1/{part}"}) for part in (1021, 1031)]
    with pytest.raises(InvalidQuery, match="no common grid"):
        session.ask(SmallDatabase(universe=UNIVERSE, queries=fine, epsilon=1, rows=6))


PLAIN = 1000


def test_boxes_of_schedules_take_them():
    schema = {"clinic": "string", "age": "int64"}
    box = SmallDatabaseBox(UNIVERSE, [weighted({"age < 30": "0.5", "age < 50": 1})], rows=9, schema=schema)
    assert box.law.choices == 55
    assert MWEMBox(UNIVERSE, LINEAR, rounds=5).law == mwem_law(cells=24, queries=len(LINEAR), rounds=5)


def test_nothing_of_a_row_is_told_by_errors_or_bodies(rows):
    session = rows(unsafe_noise=Seeded(1))
    run = weights_of(session)
    for wrong in (average("note", bounds=(0, 1)), average("clinic", bounds=(0, 1)), weighted({"age < 33": 1})):
        with pytest.raises(InvalidQuery) as caught:
            run.ask(wrong)
        assert SECRET_NAME not in str(caught.value)
        assert str(SECRET_NUMBER) not in str(caught.value)
    assert len(session.history) == 1
