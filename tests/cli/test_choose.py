"""`chary choose` as a user types it."""

import json

import pytest

from tests.cli.kit import SECRET

ASKED = "choose {} --unit patient --columns= --count --by ward --keys a,b,c --budget-epsilon 1 --budget-delta 1e-6"


@pytest.fixture
def file(tmp_path):
    sizes = {"a": 100, "b": 4000, "c": 300}
    wards = [ward for ward, size in sizes.items() for _ in range(size)]
    path = tmp_path / "visits.csv"
    path.write_text("patient,ward,note\n" + "".join(f"{unit},{ward},{SECRET}\n" for unit, ward in enumerate(wards)))
    return path


@pytest.mark.parametrize("mechanism", ["", "--mechanism permute_and_flip", "--mechanism laplace"])
def test_the_largest_key(call, file, mechanism):
    code, out, err = call(f"{ASKED.format(file)} --epsilon 0.1 {mechanism} --json")
    figures = json.loads(out)
    assert (code, err, figures["key"]) == (0, "", "b")
    assert 20 < figures["shortfall"] < 60
    assert 0 < figures["spent"]["share"] < 0.5
    assert "b" in call(f"{ASKED.format(file)} --epsilon 0.1 {mechanism}")[1]


def test_a_series_with_labels(call, tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("day,cnt\nMo,10\nTu,9000\nWe,5000\n")
    line = (
        f"choose {path} --series cnt --sensitivity 1 --labels day --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.1"
    )
    figures = json.loads(call(f"{line} --json")[1])
    assert (figures["key"], figures["label"]) == (1, "Tu")


@pytest.mark.parametrize(
    "line",
    ["", "--epsilon nan", "--epsilon 0.1 --mechanism best", "--epsilon 0.1 --sum patient"],
)
def test_bad_input_leaves_with_2_and_no_data(call, file, line):
    code, out, err = call(f"{ASKED.format(file)} {line}")
    assert (code, out) == (2, "")
    assert SECRET not in err
    assert len(err.strip().splitlines()) == 1


def test_one_number_is_no_choice(call, file):
    assert call(f"choose {file} --unit patient --count --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.1")[0] == 2


GAUSSIAN = "--mechanism gaussian --noise 5"


def test_the_key_has_one_form_whatever_the_mechanism(call, file):
    figures = json.loads(call(f"{ASKED.format(file)} {GAUSSIAN} --low 0 --high 5000 --json")[1])
    assert (figures["key"], figures["clipped_to"]) == ("b", [0.0, 5000.0])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (GAUSSIAN, "--mechanism gaussian needs bounds of the values, such as --low 0 and --high 5000"),
        ("--epsilon 0.1 --low 0 --high 9", "--low and --high are for --mechanism gaussian alone"),
        ("--noise 5", "with --mechanism gaussian the standard deviation of its noise"),
        ("--mechanism nothing", "'--mechanism': 'nothing' is not one of"),
        ("--epsilon 0.1 --mean patient --bounds 0,9", "such as --count --by clinic --keys a,b"),
    ],
)
def test_refusals_name_what_would_do(call, file, more, told):
    line = ASKED.format(file).replace("--count ", "") if "--mean" in more else ASKED.format(file)
    code, out, err = call(f"{line} {more}")
    assert (code, out, told in err) == (2, "", True), err


@pytest.mark.parametrize(("threshold", "told"), [(100, "at or above"), (9000, "below")])
def test_one_threshold_is_told_in_words(call, file, threshold, told):
    line = (
        f"classify {file} --unit patient --columns= --count --above {threshold} --hits 20 --budget-epsilon 1 "
        "--budget-delta 1e-6"
    )
    assert f"class  {told} " in call(line)[1]


def test_groups_have_no_threshold(call, file):
    line = ASKED.replace("choose", "classify").format(file)
    assert "leave --above, --low and --high out" in call(f"{line} --above 5 --epsilon 0.1")[2]


def test_what_is_withheld_needs_a_threshold(call, file):
    assert "Missing option '--above'" in call(f"ask {file} widen --held 2")[2]
