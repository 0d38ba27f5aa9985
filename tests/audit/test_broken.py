"""The auditor catches what is known to be broken, and finds nothing against the same when it is right."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from chary import count
from chary.audit import audit
from chary.audit.auditor import audit_case, worst_cases
from chary.calls import ReleaseIf, ThresholdTest
from chary.data import CSVFormat
from tests.audit.broken import charging, noises, readers, sparse_vectors

SIX, FIVE = (pa.table({"unit": list(range(size))}) for size in (6, 5))


def found(kind, transcripts=4000):
    """The audit of a kind, without that of half the noise."""
    return audit_case(worst_cases()[kind], transcripts=transcripts, power=False)


def of_halves(machine, half, transcripts):
    """Neighbours with one unit, which is in all places of the first half, or of the second."""
    pair = [pa.table({"unit": [0] * half, "place": list(range(first, first + half))}) for first in (0, half)]
    asked = sparse_vectors.as_algorithm(machine, half)
    return audit(asked, *pair, privacy_unit="unit", neighbors="replace", transcripts=transcripts, seed=1)


@pytest.mark.statistical
@pytest.mark.parametrize("mistake", sparse_vectors.VARIANTS)
def test_a_broken_sparse_vector_is_caught(mistake):
    assert not of_halves(*sparse_vectors.VARIANTS[mistake]).passed


@pytest.mark.statistical
@pytest.mark.parametrize(("half", "transcripts"), [(2, 1500), (300, 600)])
def test_the_right_sparse_vector_passes(half, transcripts):
    assert of_halves(sparse_vectors.right(sparse_vectors.EPSILON), half, transcripts).passed


@pytest.mark.parametrize("kind", ["test", "test: a hit", "release_if"])
def test_noise_of_two_thirds_is_caught_exactly(kind):
    right = found(kind)
    with noises.two_thirds():
        broken = found(kind)
    assert right.exact
    assert right.passed
    assert broken.exact
    assert broken.claimed == right.claimed
    assert not broken.passed


@pytest.mark.statistical
def test_the_digits_of_floats_tell_neighbours_apart():
    caught = audit(noises.IN_FLOATS, SIX.slice(0, 1), SIX.slice(0, 0), privacy_unit="unit", transcripts=4000, seed=1)
    assert caught.measured > 2


@pytest.mark.statistical
def test_a_forgotten_multiplicity_and_too_little_noise_are_caught_by_samples():
    right = found("release_if of keys", 1500)
    with charging.forgetting_multiplicity():
        cheap = found("release_if of keys", 1500)
    with noises.two_thirds():
        loud = found("release_if of keys", 1500)
    assert right.passed
    assert (cheap.claimed, right.claimed) == (1, 2)
    assert cheap.measured > 1.2
    assert loud.measured > right.claimed


@pytest.mark.parametrize("charged", [True, False])
def test_a_conditional_release_that_is_free_on_a_hit_is_caught(charged):
    """The price of a hit that its laws need is infinite where nothing is a hit."""
    case = replace(worst_cases()["test: a hit"], ask=lambda k: ReleaseIf(count(), above=6, epsilon="0.25"))
    with charging.telling_whether(charged):
        told = audit_case(case, power=False)
    assert told.exact
    assert told.passed == charged
    assert charged == (0.2 < told.measured < 0.21)


def written(path, people):
    """A file of people, and whether they are ill."""
    path.write_text("unit,ill\n" + "".join(f"{name},1\n" for name in people))
    return path


@pytest.mark.statistical
def test_a_reader_that_sniffs_is_caught(tmp_path):
    """One name of many semicolons makes it take all lines for something else."""
    names = [f"p{number}" for number in range(9)]
    files = [written(tmp_path / "here.csv", [*names, ";" * 20]), written(tmp_path / "there.csv", names)]
    asked = ThresholdTest(count("ill = '1'"), above=5, epsilon=1)
    sizes = {"privacy_unit": "unit", "transcripts": 100, "seed": 1}
    assert not audit(asked, *map(readers.sniffed, files), **sizes).passed
    assert audit(asked, *files, csv=CSVFormat(), **sizes).passed


def test_databases_that_open_differently_show_everything():
    other = pa.table({"unit": ["0", "1"]})
    told = audit(ThresholdTest(count(), above=2, epsilon=1), SIX, other, privacy_unit="unit")
    assert (told.measured, told.passed) == (math.inf, False)
