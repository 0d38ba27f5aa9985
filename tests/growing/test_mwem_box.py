"""MWEM on a schedule: as private as asked, its law above what comes out, all through a session and a restart."""

from contextlib import closing
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import chary
from chary import Bins, InvalidParameter, InvalidQuery, NeighborRelation
from chary.accounting import ZeroConcentrated
from chary.accounting.synthesis import mwem_law
from chary.calls import MWEM, Rerun
from chary.growth import MWEMBox
from chary.noise import Seeded

ROWS = NeighborRelation("replace", None)
UNIVERSE = {"ward": range(5), "age": Bins(range(0, 91, 10))}
QUERIES = ["ward = 0", "ward IN (1, 2) AND age >= 30", "age < 50", "ward = 3 OR age >= 80"]


def arrivals(first, last):
    return pl.DataFrame(
        {"ward": [i % 7 % 5 for i in range(first, last)], "age": [i * i % 90 for i in range(first, last)]}
    )


def exactly(rows, text):
    return rows.filter(pl.sql_expr(text)).height / rows.height


def opened(rows, **options):
    given = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=5, delta=1e-6)}
    return chary.open(rows, **(given | options))


@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(2)])
def test_a_run_is_as_private_as_asked(epsilon):
    pure, gaussian = (MWEMBox(UNIVERSE, QUERIES, rounds=5, gaussian=kind) for kind in (False, True))
    assert pure.plan(epsilon, ROWS).event.epsilon == epsilon
    assert gaussian.plan(epsilon, ROWS).event == ZeroConcentrated(epsilon**2 / 2)
    assert pure.body(ROWS) != gaussian.body(ROWS)
    assert pure.law == mwem_law(cells=60, queries=4, rounds=5)
    assert gaussian.law == mwem_law(cells=60, queries=4, rounds=5, gaussian=True)
    assert gaussian.law.factor < pure.law.factor


@pytest.mark.parametrize(
    ("gaussian", "sizes"), [(False, {"epsilon": 2}), (False, {"rho": "0.3"}), (True, {"rho": "0.3"})]
)
def test_a_schedule_runs_it_as_the_table_grows_and_goes_on_after_a_restart(tmp_path, gaussian, sizes):
    place, box = tmp_path / "wards.ledger", MWEMBox(UNIVERSE, QUERIES, rounds=8, gaussian=gaussian)
    first, second = arrivals(0, 4000), arrivals(0, 8000)
    with closing(opened(first, ledger=place, dataset="wards", unsafe_noise=Seeded(5))) as session:
        schedule = session.start(Rerun(box, beta="0.05", growth="0.5", **sizes))
        found = schedule.ask()
        bits, paid = found.answer.histogram().tobytes(), session.spent.share
        assert not found.failed
    with closing(opened(second, ledger=place, dataset="wards", budget=None, unsafe_noise=Seeded(6))) as session:
        schedule = session.resume(schedule.call, bring=MWEMBox(UNIVERSE, QUERIES, rounds=8, gaussian=gaussian))
        assert schedule.state.latest.answer.histogram().tobytes() == bits
        assert schedule.state.latest.answer == found.answer
        assert schedule.state.due == 1
        schedule.ask()
        latest = schedule.state.latest
        assert (latest.run, latest.size, latest.answer.size) == (1, 8000, 8000)
        assert session.spent.share == paid
        assert schedule.ask() is None
        told = box.law.error(size=8000, epsilon=latest.epsilon, beta="0.05")
        off = [abs(latest.answer.share(text) - exactly(second, text)) for text in QUERIES]
        assert max(off) <= min(told, latest.answer.error_bar)
        with pytest.raises(InvalidParameter, match="another black box"):
            session.resume(schedule.call, bring=MWEMBox(UNIVERSE, QUERIES, rounds=9, gaussian=gaussian))


@pytest.mark.parametrize(("gaussian", "sizes"), [(False, {"epsilon": 16}), (True, {"rho": 40})])
def test_a_schedule_that_outgrows_many_runs_at_once_goes_on(gaussian, sizes):
    """The last of them has the shares of all, more than an epsilon of 1 a round."""
    session = opened(arrivals(0, 1000), ledger=":memory:", budget=chary.Budget(epsilon=100, delta=1e-6))
    box = MWEMBox(UNIVERSE, QUERIES, rounds=2, gaussian=gaussian)
    schedule = session.start(Rerun(box, beta="0.05", growth="0.5", **sizes), follow=True)
    assert session.append(arrivals(1000, 30_000)) == 2
    assert [run.size for run in schedule.state.results] == [1000, 30_000]
    assert schedule.state.latest.epsilon ** (2 if gaussian else 1) > 2


@pytest.mark.statistical
@pytest.mark.parametrize("gaussian", [False, True])
def test_the_law_holds_within_its_failure_probability(gaussian):
    """Of 60 runs at beta = 1/5 at most about a fifth may err by more; promises are below 1, and so can fail."""
    rows, beta, many = arrivals(0, 40_000), Fraction(1, 5), 60
    box = MWEMBox({"ward": range(5)}, [f"ward = {ward}" for ward in range(5)], rounds=12, gaussian=gaussian)
    session = opened(rows, ledger=":memory:", unsafe_noise=Seeded(3), budget=chary.Budget(epsilon=10**6, delta=1e-6))
    sizes = {"rho": "0.5"} if gaussian else {"epsilon": 1}
    answers = [
        session.ask(MWEM(universe={"ward": range(5)}, queries=box.call.queries, rounds=12, **sizes))
        for _ in range(many)
    ]
    off = np.array(
        [max(abs(found.share(f"ward = {w}") - exactly(rows, f"ward = {w}")) for w in range(5)) for found in answers]
    )
    told = box.law.error(size=40_000, epsilon=1, beta=beta)
    assert told < 1
    assert (off > told).sum() <= many * 0.2 + 4.9 * np.sqrt(many * 0.16)
    assert all(found.error_bar >= error for found, error in zip(answers, off, strict=True))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: MWEMBox(UNIVERSE, [], rounds=5), InvalidQuery),
        (lambda: MWEMBox(UNIVERSE, ["ward >"], rounds=5), InvalidQuery),
        (lambda: MWEMBox(UNIVERSE, ["ward = 1", "ward = 1"], rounds=5), InvalidQuery),
        (lambda: MWEMBox({}, QUERIES, rounds=5), InvalidQuery),
        (lambda: MWEMBox(UNIVERSE, QUERIES, rounds=0), InvalidParameter),
        (lambda: MWEMBox(UNIVERSE, QUERIES, rounds=5, gaussian=1), InvalidParameter),
        (
            lambda: MWEMBox(UNIVERSE, QUERIES, rounds=5).plan(Fraction(1), NeighborRelation("replace", "a")),
            InvalidQuery,
        ),
    ],
)
def test_what_makes_no_black_box_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_one_condition_is_a_list_of_one():
    assert MWEMBox(UNIVERSE, "ward = 1", rounds=5) == MWEMBox(UNIVERSE, ["ward = 1"], rounds=5)


def test_queries_that_the_table_cannot_answer_are_refused_at_the_opening():
    session = opened(arrivals(0, 100), ledger=":memory:")
    for queries in (["age >= 35"], ["height = 1"], ["ward = 'a'"]):
        with pytest.raises(InvalidQuery):
            session.start(Rerun(MWEMBox(UNIVERSE, queries, rounds=5), epsilon=1, beta="0.05"))
    assert session.history == []
