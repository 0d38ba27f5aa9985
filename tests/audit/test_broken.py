"""The auditor catches what is known to be broken, and finds nothing against the same when it is right."""

import math
from contextlib import nullcontext

import pyarrow as pa
import pytest

from chary import Budget, count
from chary.audit import audit
from chary.audit.auditing.running import audit_case
from chary.audit.worst_cases.all_cases import worst_cases
from chary.calls import Individual, ReleaseIf, Test
from chary.data import CSV
from chary.errors import BudgetRefused
from tests.audit.broken import charging, noises, readers, sparse_vectors

SIX, FIVE = (pa.table({"unit": list(range(size))}) for size in (6, 5))
WHOLE = {"privacy_unit": "unit", "budget": Budget(1, "0.05"), "filter": "renyi", "seed": 3}


def found(kind, transcripts=4000):
    """The audit of a kind, without that of half the noise."""
    return audit_case(worst_cases()[kind], transcripts=transcripts, power=False)


def of_halves(machine, half, transcripts):
    """Neighbours with one unit, which is in all places of the first half, or of the second."""
    pair = [pa.table({"unit": [0] * half, "place": list(range(first, first + half))}) for first in (0, half)]
    asked = sparse_vectors.as_algorithm(machine, half)
    return audit(asked, *pair, privacy_unit="unit", relation="replace", transcripts=transcripts, seed=1)


@pytest.mark.statistical
@pytest.mark.parametrize("mistake", sparse_vectors.VARIANTS)
def test_a_broken_sparse_vector_is_caught(mistake):
    machine, half, transcripts = sparse_vectors.VARIANTS[mistake]
    assert not of_halves(machine, half, transcripts).passed
    assert of_halves(sparse_vectors.right(sparse_vectors.EPSILON), half, transcripts).passed


@pytest.mark.parametrize("kind", ["test", "test: a hit", "majority"])
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
def test_noise_of_two_thirds_is_caught_by_samples():
    assert found("release", 20_000).passed
    with noises.two_thirds():
        assert 1.2 < found("release", 20_000).measured <= 1.5


@pytest.mark.statistical
def test_the_digits_of_floats_tell_neighbours_apart():
    caught = audit(noises.IN_FLOATS, SIX.slice(0, 1), SIX.slice(0, 0), privacy_unit="unit", transcripts=4000, seed=1)
    assert caught.measured > 2


@pytest.mark.statistical
def test_a_forgotten_multiplicity_is_caught():
    assert found("watch").passed
    with charging.forgetting_multiplicity():
        assert found("watch").measured > 1.5 > found("watch").claimed


def until_refused(ask, most):
    """What was answered, until the budget was spent."""
    told = []
    try:
        for _ in range(most):
            told.append(ask().value)
    except BudgetRefused:
        pass
    return told


def values_told(session):
    """Values of six people against a bar of six, as long as they are paid for, and their sum."""
    told = until_refused(lambda: session.ask(ReleaseIf(count(), above=6, epsilon="0.2")), 30)
    return [len(told), sum(value for value in told if value is not None), told.count(None)]


@pytest.mark.statistical
@pytest.mark.parametrize(("broken", "passes"), [(nullcontext, True), (charging.free_on_a_hit, False)])
def test_a_conditional_release_that_is_free_on_a_hit_is_caught(broken, passes):
    with broken():
        assert audit(values_told, SIX, FIVE, transcripts=300, **WHOLE).passed == passes


def answers_of_a_stream(session):
    """Thirty answers of a stream in which a unit pays for one hit."""
    run = session.start(Individual(epsilon="0.3", hits=1))
    told = [run.ask(count(), above=1).value for _ in range(30)]
    return [sum(value is not None for value in told)]


@pytest.mark.statistical
@pytest.mark.parametrize(("broken", "passes"), [(nullcontext, True), (charging.never_dropping, False)])
def test_units_that_never_drop_are_caught(broken, passes):
    with broken():
        pair = SIX.slice(0, 1), SIX.slice(0, 0)
        assert audit(answers_of_a_stream, *pair, transcripts=160, **WHOLE).passed == passes


def written(path, people):
    """A file of people, and whether they are ill."""
    path.write_text("unit,ill\n" + "".join(f"{name},1\n" for name in people))
    return path


@pytest.mark.statistical
def test_a_reader_that_sniffs_is_caught(tmp_path):
    """One name of many semicolons makes it take all lines for something else."""
    names = [f"p{number}" for number in range(9)]
    files = [written(tmp_path / "here.csv", [*names, ";" * 20]), written(tmp_path / "there.csv", names)]
    asked = Test(count("ill = '1'"), above=5, epsilon=1)
    sizes = {"privacy_unit": "unit", "transcripts": 100, "seed": 1}
    assert not audit(asked, *map(readers.sniffed, files), **sizes).passed
    assert audit(asked, *files, csv=CSV(), **sizes).passed


def test_databases_that_open_differently_show_everything():
    other = pa.table({"unit": ["0", "1"]})
    told = audit(Test(count(), above=2, epsilon=1), SIX, other, privacy_unit="unit")
    assert (told.measured, told.passed) == (math.inf, False)
