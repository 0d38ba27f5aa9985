"""Pictures show the values, their intervals, the threshold and possible false alarms, and say so in words."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import colors

from chary import InvalidParameter, count, histogram
from chary.accounting import Publication, Support
from chary.answers import NoisyNumber, NoisyNumbers
from chary.calls import ContinualCount, WatchResult
from chary.charts import Chart, Spot
from chary.cli import run
from chary.growth import draw_counts
from chary.growth.plots import reach_of
from chary.mechanisms import Laplace
from chary.plots import DOUBT, INK, MOST_ROWS, SPOT, figure_of, plotted, save, styled, svg

SHAPES = ("dots", "line", "columns")
HOSTILE = "</svg><script>alert(1)</script>$\\frac{1}{0}$ & 日本\n\x07"
LAW = Laplace.for_epsilon("0.05", sensitivity=1).law()


def watched():
    """Three hits at a bar of 100: one certain, two near the bar."""
    keys = tuple((name,) for name in ("north", "south", "east", "west"))
    above = {("south",): 120, ("north",): 400, ("east",): 105}
    told = Publication(LAW, Support.at_least(100))
    return WatchResult(1, ("clinic",), keys, above, 4, 60.0, publication=told)


def test_a_watch_shows_hits_with_their_intervals_and_its_bar():
    chart = watched().chart()
    assert (chart.shape, chart.bar) == ("dots", 100.0)
    assert {spot.label: (spot.value, spot.may_be_false) for spot in chart.spots} == {
        "north": (400.0, False),
        "south": (120.0, True),
        "east": (105.0, True),
    }
    assert "The threshold is 100" in chart.alt
    assert "2 of them may be false alarms" in chart.alt


def test_rows_are_drawn_largest_first_with_bar_and_doubts_marked():
    axes = plotted(watched().chart()).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["north", "south", "east"]
    bar = [line for line in axes.lines if line.get_label() == "threshold"]
    assert list(bar[0].get_xdata()) == [100.0, 100.0]
    dots = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) == 1]
    assert [(line.get_xdata()[0], line.get_color()) for line in dots] == [(400.0, SPOT), (120.0, DOUBT), (105.0, DOUBT)]
    assert any(text.get_text().startswith("may be a false alarm") for text in axes.get_legend().get_texts())


def test_bins_stand_side_by_side_and_a_series_is_a_line(opened):
    session = opened()
    ages = session.release(histogram("age", bins=[0, 30, 60, 120]), epsilon="0.1")
    assert ages.chart().shape == "columns"
    series = NoisyNumbers(1, ("position",), tuple((day,) for day in range(5)), (1, 2, 3, 4, 5), 2.0)
    assert series.chart().shape == "line"


def test_a_single_number_has_no_picture():
    with pytest.raises(InvalidParameter, match="several values"):
        NoisyNumber(1, 5, 1.0).plot()
    nothing = WatchResult(1, ("clinic",), (("north",),), {}, 1, 60.0)
    with pytest.raises(InvalidParameter, match="several values"):
        nothing.plot()


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_an_answer_is_drawn_to_a_file(tmp_path, ending):
    watched().plot(tmp_path / f"watch.{ending}")
    assert (tmp_path / f"watch.{ending}").stat().st_size > 1000


@pytest.mark.parametrize("name", ["watch.gif", "nowhere/watch.png"])
def test_other_files_are_refused(tmp_path, name):
    with pytest.raises(InvalidParameter, match="a picture goes to a file"):
        save(watched().chart(), tmp_path / name)


@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_labels_are_drawn_as_text(tmp_path, shape):
    chart = Chart(shape, HOSTILE, (Spot(HOSTILE, 5.0, 3.0, 7.0), Spot("b", 2.0, None, 4.0, True)), 3.0, HOSTILE)
    text = svg(chart)
    assert "<script" not in text
    ElementTree.fromstring(text.replace("&quot;", "'"))
    for ending in ("png", "pdf", "svg"):
        save(chart, tmp_path / f"hostile.{ending}")


def test_an_svg_follows_the_colours_of_its_page_and_its_ids_are_its_own():
    one, two = svg(watched().chart()), svg(Chart("dots", "Other", (Spot("a", 1.0), Spot("b", 2.0))))
    for colour, name in ((SPOT, "--spot"), (DOUBT, "--doubt"), (INK, "--ink")):
        assert f"var({name}, {colour})" in one
        assert one.count(colour) == one.count(f"var({name}, {colour})")
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, two)]
    assert not ids[0] & ids[1]
    for text, own in zip((one, two), ids, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', text)) <= own
    assert one == svg(watched().chart())


def test_many_rows_are_cut_and_the_title_says_so():
    chart = Chart("dots", "Many", tuple(Spot(str(place), float(place)) for place in range(200)))
    with styled():
        axes = figure_of(chart).axes[0]
    assert len(axes.get_yticks()) == MOST_ROWS
    assert f"the {MOST_ROWS} largest of 200" in axes.get_title(loc="left")


def test_colours_differ_also_in_grey():
    """Of people who see few colours and of printers."""
    grey = [float(np.dot(colors.to_rgb(colour), (0.299, 0.587, 0.114))) for colour in (INK, SPOT, DOUBT)]
    assert min(abs(one - two) for place, one in enumerate(grey) for two in grey[place + 1 :]) > 0.1


def test_notebooks_show_the_table_and_the_picture():
    shown = watched()._repr_html_()
    assert shown.startswith("<table>")
    assert 'role="img"' in shown
    assert "svg" not in NoisyNumbers(1, ("clinic",), (("a",),), (5,), 1.0)._repr_html_()


def test_a_count_below_zero_is_drawn_below_its_interval():
    assert reach_of(Spot("a", -4.0, 0.0, 7.0)) == (0, 11)
    assert reach_of(Spot("a", -9.0, 0.0, 0.0)) == (0, 9)
    assert reach_of(Spot("a", 5.0, 3.0, 9.0)) == (2, 4)


def test_growing_counts_are_drawn_with_their_intervals(opened, tmp_path):
    session = opened(privacy_unit=None, neighbors="replace")
    for query in (count(), count().by("clinic", ["north", "south"])):
        run = session.start(ContinualCount(query, steps=5, epsilon="0.1"))
        run.ask(), run.ask()
        draw_counts(run.state.results, tmp_path / "counts.png")
        assert (tmp_path / "counts.png").stat().st_size > 1000
    with pytest.raises(InvalidParameter, match="nothing was reported yet"):
        draw_counts([], tmp_path / "none.png")


def test_without_matplotlib_a_picture_is_refused_before_anything_is_charged(opened, tmp_path, monkeypatch, capsys):
    answer = opened().release(count().by("age", [1, 2, 3]), epsilon="0.1")
    monkeypatch.setattr("chary.charts.find_spec", lambda _: None)
    assert "<table>" in answer._repr_html_()
    assert "<svg" not in answer._repr_html_()
    with pytest.raises(InvalidParameter, match=r"chary\[plots\]"):
        answer.plot(tmp_path / "made.png")
    (tmp_path / "rows.csv").write_text("unit,age\n" + "".join(f"{k},{k % 3}\n" for k in range(60)))
    line = "release rows.csv --unit unit --columns= --count --by age --keys 0,1,2 --epsilon 0.1 --budget-epsilon 1"
    monkeypatch.chdir(tmp_path)
    assert run([*line.split(), "--plot", "made.png"]) == 2
    assert "chary[plots]" in capsys.readouterr().err
    assert not (tmp_path / "rows.ledger").exists()
