"""Every recipe does what it did, under each filter and between each kind of neighbours."""

import pytest

from tests.net import transcripts
from tests.net.kept import compare
from tests.net.record import name_of

pytestmark = pytest.mark.net


@pytest.mark.parametrize("recipe", transcripts.EVERY)
def test_a_recipe_does_what_it_did(recipe):
    assert compare(name_of(recipe), transcripts.transcript(recipe)) == []


def test_no_recipe_is_kept_that_is_not_there_any_more():
    kept = {path.name for path in name_of("").parent.glob("*.jsonl")}
    assert kept == {name_of(recipe).name for recipe in transcripts.EVERY}
