"""Pictures of public histograms: what is drawn where."""

import json
import os

import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import chary
from chary import Bins
from chary.calls import PMW, WeightedAnswer
from chary.errors import InvalidParameter
from chary.growth import draw_answers, draw_synthetic
from chary.growth.plots import KINDS, marginal

ROWS = "--row-level --neighbors replace --columns age=BIGINT --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.05"
CELLS = "--alpha 0.1 --bins age=0,25,50,75,100 --values clinic=a,b"
ASKED = [
    ("clinic = 'a'", WeightedAnswer(3, 0.4, True, True, 0.02)),
    ("age < 50 AND clinic = 'b' AND (age < 25 OR age >= 75)", WeightedAnswer(4, 0.2, False, True, 0.1)),
    ("clinic = '$x$'", WeightedAnswer(None, 0.3, False, False, None)),
]


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would be saved."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    return figures


@pytest.fixture(scope="module")
def weights():
    rows = pl.DataFrame({"age": [i % 100 for i in range(3000)], "clinic": ["ab"[i % 4 == 0] for i in range(3000)]})
    terms = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "budget": chary.Budget(epsilon=4000)}
    with chary.open(rows, **terms) as session:
        universe = {"age": Bins([0, 50, 100]), "clinic": ["a", "b"]}
        made = session.start(PMW(universe=universe, alpha="0.1", epsilon=100))
        made.ask("clinic = 'a'")
        yield made.state


def heights(axes):
    return [bar.get_height() for bar in axes.patches]


def test_answers_are_told_apart_by_their_marker(weights, drawn, tmp_path):
    draw_answers(weights, ASKED, tmp_path / "answers.png")
    answers, age, clinic = drawn[0].axes[:3]
    points = {line.get_label(): line for line in answers.containers}
    assert list(points) == list(KINDS)
    for (kind, (marker, _)), (_, answer) in zip(KINDS.items(), ASKED, strict=True):
        line = points[kind].lines[0]
        assert (line.get_marker(), line.get_xdata().tolist()) == (marker, [answer.share])
        ((low, _), (high, _)) = points[kind].lines[2][0].get_segments()[0]
        assert (high - low) / 2 == pytest.approx(answer.error_bar or 0)
    assert sum(heights(age)) == pytest.approx(1)
    assert heights(clinic)[0] == pytest.approx(0.75, abs=0.05)


def test_a_made_up_table_is_beside_the_histogram(weights, drawn, tmp_path):
    table = pa.table({"age": [3, 60, 70, None], "clinic": ["a", "a", "b", None]})
    draw_synthetic(weights, table, tmp_path / "made.pdf")
    age, clinic = drawn[0].axes[:2]
    assert heights(age)[3:] == [0.25, 0.5, 0.25]
    assert heights(clinic)[3:] == [0.5, 0.25, 0.25]
    assert heights(clinic)[:3] == pytest.approx(weights.histogram().sum(axis=0).tolist())
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["histogram", "made up"]
    assert age.get_legend() is clinic.get_legend() is None


@pytest.mark.parametrize(
    "asked",
    [
        [answer for _, answer in ASKED],
        [where for where, _ in ASKED],
        [(answer, where) for where, answer in ASKED],
        [ASKED[0], ("age < 50", 0.3)],
        [(*ASKED[0], 1)],
        "age < 50",
        dict(ASKED),
        None,
    ],
)
def test_answers_come_with_their_conditions(weights, tmp_path, asked):
    with pytest.raises(InvalidParameter, match=r'draw_answers\(run\.state, \[\("age >= 65", run\.ask'):
        draw_answers(weights, asked, tmp_path / "answers.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("asked", [[], ASKED[:1], ASKED])
def test_no_answer_is_covered_or_cut(weights, drawn, tmp_path, asked):
    draw_answers(weights, asked, tmp_path / "answers.png")
    figure, axes = drawn[0], drawn[0].axes[0]
    figure.draw_without_rendering()
    inside, legend = axes.get_window_extent(), axes.get_legend().get_window_extent()
    assert inside.x1 < legend.x0
    assert legend.x1 <= figure.bbox.x1
    low, high = axes.get_xlim()
    assert all(low < answer.share - (answer.error_bar or 0) for _, answer in asked)
    assert all(answer.share + (answer.error_bar or 0) < high for _, answer in asked)
    assert axes.get_ylim() == (max(1, len(asked)) - 0.5, -0.5)


def test_one_column_fills_the_picture(drawn, tmp_path):
    rows = pl.DataFrame({"clinic": ["a", "b"] * 50})
    terms = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:", "budget": chary.Budget(epsilon=1)}
    with chary.open(rows, **terms) as session:
        weights = session.start(PMW(universe={"clinic": ["a", "b"]}, alpha="0.1", epsilon="0.1"))
        draw_synthetic(weights.state, pa.table({"clinic": ["a"]}), tmp_path / "made.png")
    drawn[0].draw_without_rendering()
    (axes,) = drawn[0].axes
    assert axes.get_window_extent().width > 0.8 * drawn[0].bbox.width


@pytest.mark.parametrize("name", ["answers.txt", "missing/answers.png", "folder.png", "locked.png"])
def test_a_picture_needs_a_place(weights, tmp_path, monkeypatch, name):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "locked.png").touch()
    monkeypatch.setattr(os, "access", lambda path, _mode: path.name != "locked.png")
    with pytest.raises(InvalidParameter, match="picture"):
        draw_answers(weights, ASKED, tmp_path / name)
    with pytest.raises(InvalidParameter, match="picture"):
        draw_synthetic(weights, pa.table({"age": [1], "clinic": ["a"]}), tmp_path / name)


def test_marginals_at_the_edges_of_bins():
    ages = pa.chunked_array([[0, 9, 10, 19, None]])
    assert marginal(Bins([0, 10, 20]), ages).tolist() == [0.4, 0.4, 0.2]


def test_the_command_draws(call, visits, tmp_path):
    where = ("--where", "clinic = 'a'", "--where", "age < 50")
    code, out, err = call(f"pmw {visits} {ROWS} {CELLS} --json --plot answers.svg", *where)
    assert code == 0, err
    assert len(json.loads(out)["answers"]) == 2
    assert (tmp_path / "answers.svg").read_text().startswith("<?xml")


def test_a_picture_that_cannot_be_written_charges_nothing(call, visits):
    code, out, err = call(f"pmw {visits} {ROWS} {CELLS} --plot answers.txt", "--where", "clinic = 'a'")
    assert (code, out) == (2, "")
    assert "a picture goes to" in err
    assert not visits.with_name("visits.csv.ledger").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told_in_one_line_after_the_answers(call, visits, tmp_path):
    (tmp_path / "full.png").symlink_to("/dev/full")
    code, told, said = call(f"pmw {visits} {ROWS} {CELLS} --plot full.png", "--where", "clinic = 'a'")
    assert code == 2
    assert "clinic = 'a'" in told
    assert said.startswith("chary: No space left on device")
    assert "Traceback" not in said
