"""The page of experiments shows every one of them, in pictures that are small."""

import re

import pytest

from chary_research.experiments import EXPERIMENTS
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "theory" / "experiments.md").read_text()
FIGURES = ROOT / "docs" / "figures"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_shown_and_told(name):
    assert f"(../figures/{name}.png)" in PAGE
    assert f"`{name}`" in PAGE
    assert (FIGURES / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_no_other_experiment_is_told_and_pictures_are_small():
    shown = set(re.findall(r"\(\.\./figures/([\w-]+)\.png\)", PAGE))
    assert (
        shown
        == set(EXPERIMENTS)
        == {path.stem for path in FIGURES.glob("*.png") if not path.stem.startswith(("page-", "demo"))}
    )
    sizes = [path.stat().st_size for path in FIGURES.iterdir()]
    assert sum(sizes) < 75_000 * len(sizes)
