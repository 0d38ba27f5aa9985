"""Every trend holds of a few measured rows, and every one fails where some figure is another."""

import numpy as np
import pytest
from recorded import recorded
from tests.paths import beside

from chary_research.experiments import EXPERIMENTS, DataFolder, Measurements, experiment
from chary_research.experiments.reproduction import picture, seed_of

# Repetitions of one piece, where only its columns are looked at.
FEW = {"runs": 2, "models": 2, "sessions": 2, "repeats": 1, "streams": 3, "points": 3, "draws": 500, "trials": 5}

CHANGES = {
    "tenfold": lambda values: values * 10,
    "a tenth": lambda values: values / 10,
    "backwards": lambda values: values[::-1],
    "nothing": np.zeros_like,
    "negative": lambda values: -values,
    "all the same": lambda values: np.full_like(values, values.max()),
    "rising": lambda values: values.max() * (1 + np.arange(len(values))),
}
KINDS = ["by", "method", "form", "kind", "law", "fresh", "runs", "attack", "informed"]


def measured(made):
    """Rows as a quick run measures them."""
    if (kept := recorded(made.name)) is not None:
        return Measurements(kept)
    data = DataFolder(None)
    return Measurements(
        row for each in made.pieces(quick=True) for row in made.measure(each, seed_of(made, each), data)
    )


def variants(rows):
    """Rows with one column of numbers changed, everywhere or where another column has one value."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if type(value) in (int, float))
    parts = [(None, None)] + [(kind, value) for kind in KINDS for value in rows.distinct(kind)]
    for name in names:
        for kind, value in parts:
            places = [i for i, row in enumerate(rows) if name in row and (kind is None or row.get(kind) == value)]
            values = np.array([rows[i][name] for i in places], dtype=float)
            for change in CHANGES.values() if places else ():
                told = dict(zip(places, change(values).tolist(), strict=True))
                yield Measurements({**row, name: told[i]} if i in told else row for i, row in enumerate(rows))


def verdicts(made, rows):
    """Which trends hold; where the rows are too odd to tell, none that counts as broken."""
    try:
        with np.errstate(all="ignore"):
            return {trend.told: trend.holds for trend in made.trends(rows)}
    except (IndexError, KeyError, ValueError, TypeError, RuntimeWarning):
        return {}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_trends_hold_and_every_one_can_fail(name):
    made = experiment(name)
    rows = measured(made)
    found = {trend.told: trend.holds for trend in made.trends(rows)}
    assert found == dict.fromkeys(found, True)
    left = set(found)
    for other in variants(rows):
        left -= {told for told, holds in verdicts(made, other).items() if not holds}
        if not left:
            break
    assert left == set()


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if recorded(name) is not None])
def test_a_piece_measures_the_columns_that_are_recorded(name):
    made, files = experiment(name), [beside(file) for file in EXPERIMENTS[name].needs]
    piece = made.pieces(quick=True)[0]
    piece |= {key: few for key, few in FEW.items() if key in piece}
    rows = made.measure(piece, seed_of(made, piece), DataFolder(files[0].parent if files else None))
    assert rows
    assert [list(row) for row in rows] == [list(row) for row in recorded(name)[: len(rows)]]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_picture_is_drawn_of_the_rows(name, tmp_path):
    made = experiment(name)
    picture(made, measured(made), tmp_path / "made.png")
    assert (tmp_path / "made.png").stat().st_size > 5000
