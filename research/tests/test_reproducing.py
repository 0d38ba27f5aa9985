"""Running experiments: pieces are kept and not measured again, unless what they depend on has changed."""

import csv
import json

import pytest

from chary.errors import InvalidInput, InvalidParameter
from chary_research.experiments import (
    EXPERIMENTS,
    DataFolder,
    Experiment,
    Measurements,
    Trend,
    experiment,
    reproduce,
    workers,
)
from chary_research.experiments.reproduction import seed_of


class Squares(Experiment):
    """Counts how often it was asked."""

    name, shows, source, needs = "squares", "Squares.", "nowhere", ("numbers.csv",)

    def __init__(self, highest=3):
        self.highest, self.asked = highest, []

    def pieces(self, *, quick):
        return [{"number": number} for number in range(1 if quick else self.highest)]

    def measure(self, settings, seed, data):
        self.asked.append(settings["number"])
        return [{**settings, "square": settings["number"] ** 2, "sum": data.column("numbers.csv", "value").sum()}]

    def draw(self, found, figure):
        figure.subplots().plot(found["number"], found["square"])

    def trends(self, found):
        return [Trend("they rise", found["square"][-1] >= 4)]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "numbers.csv").write_text("value\n1\n2\n")
    return DataFolder(tmp_path)


def test_rows_seeds_and_pictures_are_written(tmp_path, data):
    found = reproduce(Squares(), tmp_path, data=data)
    with found.csv.open() as opened:
        rows = list(csv.DictReader(opened))
    assert [row["square"] for row in rows] == ["0", "1", "4"]
    assert [int(row["seed"]) for row in rows] == [seed_of(Squares(), {"number": number}) for number in range(3)]
    assert len({row["seed"] for row in rows}) == 3
    assert found.picture.read_bytes().startswith(b"\x89PNG")
    assert found.holds
    assert json.loads(json.dumps(found.as_dict()))["pieces"] == 3


def test_a_trend_that_is_broken_is_told(tmp_path, data):
    assert not reproduce(Squares(), tmp_path, data=data, quick=True).holds


def test_a_run_that_was_stopped_goes_on(tmp_path, data):
    class StopError(Exception):
        pass

    def stop(done, total):
        if done == 2:
            raise StopError

    first, second = Squares(), Squares()
    with pytest.raises(StopError):
        reproduce(first, tmp_path, data=data, on_progress=stop)
    found = reproduce(second, tmp_path, data=data)
    assert (first.asked, second.asked, found.measured, found.pieces) == ([0, 1], [2], 1, 3)
    assert found.found["square"].tolist() == [0, 1, 4]


def test_a_piece_is_measured_again_where_its_data_or_its_file_are_others(tmp_path, data):
    reproduce(Squares(), tmp_path, data=data)
    pieces = sorted((tmp_path / "pieces" / "squares").iterdir())
    pieces[0].write_text(pieces[0].read_text()[:-5])
    assert reproduce(Squares(), tmp_path, data=data).measured == 1
    (tmp_path / "numbers.csv").write_text("value\n5\n")
    found = reproduce(Squares(), tmp_path, data=data)
    assert (found.measured, found.found["sum"].tolist()) == (3, [5.0] * 3)


def test_quick_and_full_runs_share_their_pieces(tmp_path, data):
    reproduce(Squares(), tmp_path, data=data, quick=True)
    assert reproduce(Squares(), tmp_path, data=data).measured == 2


def test_processes_find_what_one_finds(tmp_path):
    asked, heard = experiment("maximum-by-queries"), []
    one = reproduce(asked, tmp_path / "one", quick=True)
    with workers(2) as pool:
        two = reproduce(asked, tmp_path / "two", quick=True, pool=pool, on_progress=lambda *done: heard.append(done))
    assert list(one.found) == list(two.found)
    assert heard == [(done, two.pieces) for done in range(two.pieces + 1)]
    assert two.measured == two.pieces > 1
    again = reproduce(asked, tmp_path / "two", quick=True)
    assert (again.measured, list(again.found)) == (0, list(one.found))


def test_what_fails_in_a_process_is_told(tmp_path):
    (tmp_path / "bike_day.csv").write_text("value\n1\n")
    asked, folder = experiment("alarms-bikes"), DataFolder(tmp_path)
    with workers(2) as pool, pytest.raises(InvalidInput, match=r"bike_day\.csv has no column registered"):
        reproduce(asked, tmp_path, data=folder, quick=True, pool=pool)


def test_absent_data_are_named_before_anything_is_measured(tmp_path):
    asked = Squares()
    with pytest.raises(InvalidInput, match=r"numbers\.csv is needed: name its folder by --data"):
        reproduce(asked, tmp_path)
    with pytest.raises(InvalidInput, match=r"numbers\.csv is needed and is not in the folder"):
        reproduce(asked, tmp_path, data=DataFolder(tmp_path))
    assert asked.asked == []


def test_columns_of_files(tmp_path, data):
    with pytest.raises(InvalidInput, match="has no column other"):
        data.column("numbers.csv", "other")
    assert data.missing(["numbers.csv", "none.csv"]) == ["none.csv"]


def test_measurements_are_picked_and_laid_out(tmp_path):
    found = Measurements([{"x": 1, "y": 1, "z": 0.5}, {"x": 2, "y": 1, "z": 0.25}, {"x": 1, "y": 2, "z": 0.125}])
    grid = found.grid("z", down="y", across="x").tolist()
    assert grid[0] == [0.5, 0.25]
    assert grid[1][0] == 0.125
    assert grid[1][1] != grid[1][1]
    assert found.where(x=1, y=2)[0]["z"] == 0.125


def test_an_unknown_name_tells_all():
    with pytest.raises(InvalidParameter, match="loss-by-threshold"):
        experiment("nothing")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_pieces_that_can_be_kept(name):
    made = experiment(name)
    assert made.name == name
    assert made.shows.endswith(".")
    for quick in (False, True):
        pieces = made.pieces(quick=quick)
        kept = [json.dumps(piece, sort_keys=True) for piece in pieces]
        assert pieces == [json.loads(piece) for piece in kept]
        assert len(set(kept)) == len(kept) > 0
        assert len({seed_of(made, piece) for piece in pieces}) == len(kept)
