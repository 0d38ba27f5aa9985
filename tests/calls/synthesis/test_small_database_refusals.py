"""Small databases that cannot be made: refused before anything is read, with what to write instead."""

import math

import pytest

from chary import Bins, InvalidParameter, InvalidQuery, NeighborRelation, count
from chary.calls import SmallDatabase
from chary.calls.synthesis import LONGEST, Workload, database_plan
from tests.calls.synthesis.small_database_kit import QUERIES, ROW, small
from tests.calls.weights.weighting_kit import UNIVERSE
from tests.session.kit import CLINICS, error_texts, shows_data, visits

SIX = SmallDatabase(universe=UNIVERSE, queries=QUERIES, epsilon=1, rows=6)


def test_too_many_candidates_are_refused_with_their_number_before_anything_is_read(rows):
    seen = []
    session = rows(on_step=seen.append)
    queries = [f"age >= {edge}" for edge in (30, 40, 50, 60)]
    queries += [f"clinic = '{clinic}' AND age >= {edge}" for clinic in CLINICS for edge in (30, 40, 50, 60)]
    classes = len(Workload.of(UNIVERSE, queries, session.schema).classes.sizes)
    with pytest.raises(InvalidQuery, match=r"session\.ask\(MWEM\(") as caught:
        small(session, queries=queries, rows=12)
    assert f"{math.comb(classes + 11, 12):,} candidate databases of 12 rows over the {classes} classes" in str(
        caught.value
    )
    with pytest.raises(InvalidQuery, match=r"about 10\^\d+ candidate"):
        small(session, queries=queries, rows=1000)
    with pytest.raises(InvalidQuery, match="30,000 rows"):
        small(session, rows=LONGEST + 1)
    with pytest.raises(InvalidQuery, match="10,000,000"):
        small(session, queries=QUERIES[:2], rows=5000)
    wide = {"universe": {"cost": Bins(range(4001)), "age": Bins(range(91))}, "queries": ["age >= 30"]}
    with pytest.raises(
        InvalidQuery, match=r'about 10\^\d+ databases of 600 rows over 364,091 cells.*measure="classes"'
    ):
        small(session, **wide, rows=600, measure="databases")
    assert seen == []
    assert session.history == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"universe": {"age": Bins(range(91)), "patient": range(120_000)}}, InvalidQuery),
        ({"universe": {"age": CLINICS}}, InvalidQuery),
        ({"universe": {"height": [1]}}, InvalidQuery),
        ({"queries": []}, InvalidQuery),
        ({"queries": [f"age >= 30 AND age < {bar}" for bar in range(31, 1100)]}, InvalidQuery),
        ({"queries": ["age >= 35"]}, InvalidQuery),
        ({"queries": ["cost > 3"]}, InvalidQuery),
        ({"queries": ["clinic LIKE 'n%'"]}, InvalidQuery),
        ({"queries": ["clinic = 'North'"]}, InvalidQuery),
        ({"queries": ["clinic >"]}, InvalidQuery),
        ({"queries": [3]}, InvalidQuery),
        ({"queries": [None]}, InvalidQuery),
        ({"queries": [count()]}, InvalidQuery),
        ({"queries": [count(QUERIES[0], without=QUERIES[1])]}, InvalidQuery),
        ({"epsilon": 0}, InvalidParameter),
        ({"epsilon": 0, "rows": None}, InvalidParameter),
        ({"epsilon": "1e-400", "rows": None}, InvalidParameter),
        ({"rows": None, "alpha": "1e-200"}, InvalidParameter),
        ({"epsilon": "nan"}, InvalidParameter),
        ({"rows": 0}, InvalidParameter),
        ({"rows": 2.5}, InvalidParameter),
        ({"rows": None, "alpha": 1}, InvalidParameter),
        ({"measure": "all"}, InvalidParameter),
        ({"measure": "all", "rows": None}, InvalidParameter),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_recorded(rows, options, error):
    session = rows()
    with pytest.raises(error) as caught:
        small(session, **options)
    assert session.history == []
    assert not shows_data(error_texts(caught.value))


def test_more_flags_than_fit_are_refused(rows):
    universe = {"age": Bins(range(4097)), "cost": Bins(range(250))}
    with pytest.raises(InvalidQuery, match="too many to tell apart"):
        small(rows(), universe=universe, queries=[f"age >= {edge}" for edge in range(200)])


def test_a_secret_size_is_no_size(opened):
    for options in ({}, {"privacy_unit": None}, {"neighbors": "replace"}):
        with pytest.raises(InvalidQuery, match="number of rows is secret"):
            small(opened(**options))
    workload = Workload.of(UNIVERSE, QUERIES, opened().schema)
    for neighbor_relation in (NeighborRelation("add_remove", None), NeighborRelation("replace", "patient")):
        with pytest.raises(InvalidQuery, match="privacy_unit=None"):
            database_plan(SIX, neighbor_relation, workload, 6)


def test_no_rows_have_no_shares(rows):
    with pytest.raises(InvalidQuery, match="append some"):
        small(rows(visits().iloc[:0].astype({"clinic": "str"})))


def test_columns_of_another_type_are_refused(rows):
    session = rows()
    schema = session.schema | {"age": "float64"}
    with pytest.raises(InvalidQuery, match="another type"):
        session.spine.perform(database_plan(SIX, ROW, Workload.of(UNIVERSE, QUERIES, schema), 6))
    assert session.history == []
