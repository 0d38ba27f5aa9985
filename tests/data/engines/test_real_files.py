"""Real files, and one like them that is as wide, against pandas computed independently."""

import numpy as np
import pandas as pd
import pytest

import chary
from chary.data import NeighborRelation, RowTable, count, mean, parse_keys
from tests.paths import RAND

PERSON = NeighborRelation("add_remove", "zper")
HOUSE = NeighborRelation("replace", "LCLid")
DAYS = "2013-01-01..2013-01-31"


@pytest.fixture(scope="module")
def rand():
    table = RowTable.open(RAND, neighbor_relation=PERSON, infer_types=True)
    yield table, pd.read_csv(RAND)
    table.close()


def test_persons_not_rows(rand):
    table, frame = rand
    old = frame[(frame["xage"] >= 60) & (frame["mdvis"] > 5)]
    assert table.prepare(count("xage >= 60 AND mdvis > 5")).run() == old["zper"].nunique()
    assert table.prepare(count()).run() == 5912
    by_year = table.prepare(count("female = 1").by("year", range(1, 7))).run()
    expected = frame[frame["female"] == 1].groupby("year")["zper"].nunique().reindex(range(1, 7), fill_value=0)
    np.testing.assert_array_equal(by_year, expected)


def test_totals_with_limits(rand):
    table, frame = rand
    visits = frame["mdvis"].clip(0, 20)
    best = visits.groupby(frame["zper"]).nlargest(2).sum()
    assert table.prepare(chary.sum("mdvis", bounds=(0, 20), max_rows_per_unit=2)).run() == best
    capped = visits.groupby(frame["zper"]).sum().clip(0, 30).sum()
    assert table.prepare(chary.sum("mdvis", bounds=(0, 20), unit_total=(0, 30))).run() == capped
    query = count().by("year", [1, 2, 3, 4, 5], max_groups_per_unit=1)
    first = (
        frame.sort_values("year").drop_duplicates("zper").groupby("year").size().reindex([1, 2, 3, 4, 5], fill_value=0)
    )
    np.testing.assert_array_equal(table.prepare(query).run(), first)


def test_a_mean_from_its_parts(rand):
    table, frame = rand
    visits = mean("mdvis", bounds=(0, 100), max_rows_per_unit=5)
    noiseless = [table.prepare(part).run() for part in visits.parts(PERSON)]
    assert visits.combine(*noiseless) == pytest.approx(frame["mdvis"].mean())
    assert table.prepare(visits.shifted(2)).run() == (frame["mdvis"] - 2).sum()


@pytest.fixture(scope="module")
def meters(tmp_path_factory):
    """Daily readings of 600 homes over a winter, a column a day; a tenth is missing."""
    rng = np.random.default_rng(3)
    days = pd.date_range("2012-11-23", "2013-02-28").strftime("%Y-%m-%d")
    readings = rng.gamma(2, 5, (600, len(days))).round(3)
    readings[rng.random(readings.shape) < 0.1] = np.nan
    homes = pd.Index([f"MAC{home:06}" for home in range(600)], name="LCLid")
    path = tmp_path_factory.mktemp("meters") / "wide.csv.gz"
    pd.DataFrame(readings, homes, days).to_csv(path, compression={"method": "gzip", "compresslevel": 1})
    table = RowTable.open(path, neighbor_relation=HOUSE, unpivot=("day", "kwh"), columns={"kwh": "DOUBLE"})
    yield table, pd.read_csv(path).set_index("LCLid")
    table.close()


def test_meters(meters):
    table, wide = meters
    days = parse_keys(DAYS, table.schema["day"])
    january = wide[days]
    assert table.schema == {"LCLid": "string", "day": "string", "kwh": "float64"}
    assert table.prepare(count("kwh > 50")).run() == (wide > 50).any(axis=1).sum()
    np.testing.assert_array_equal(table.prepare(count().by("day", days)).run(), january.notna().sum())
    steps = (january.clip(0, 30) * 1000).round().sum().astype(int)
    clipped = chary.sum("kwh", bounds=(0, 30), grid="0.001", unit_total=(0, 30)).by("day", days)
    np.testing.assert_array_equal(table.prepare(clipped).run(), steps)
