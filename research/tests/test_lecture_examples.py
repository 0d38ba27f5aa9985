"""What an observer believes is Bayes' rule, worked out here by integration and by enumeration."""

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import beta, binom

from chary_research.experiments.lecture_examples import WEIGHT, Study, believed, laplace_noise, participation


@pytest.mark.parametrize("took_part", [True, False])
@pytest.mark.parametrize("answer", [-3, 0, 2, 5, 9])
def test_what_is_believed_of_one_person_is_bayes_rule(answer, took_part):
    people, before, epsilon = 4, 0.3, 0.7

    def joint(rate, value):
        """The density of a rate, X's value and the answer; X is one more person, or one of the four."""
        others = people - took_part
        counts = np.arange(others + 1)
        likely = binom.pmf(counts, others, rate) @ np.exp(-epsilon * np.abs(answer - counts - value * took_part))
        return beta.pdf(rate, WEIGHT * before, WEIGHT * (1 - before)) * (rate if value else 1 - rate) * likely

    having, not_having = (integrate.quad(joint, 0, 1, args=(value,), limit=200)[0] for value in (1, 0))
    told = {"epsilon": epsilon, "people": people, "before": before}
    found = believed(np.array([answer]), **told, took_part=took_part)[0]
    assert found == pytest.approx(having / (having + not_having), rel=1e-6)
    assert found != pytest.approx(believed(np.array([answer]), **told, took_part=not took_part)[0], rel=1e-3)


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_participation_is_guessed_as_often_as_enumerated(questions):
    noise, chances = laplace_noise(1.2 / questions)
    inside, outside = np.ones(1), np.ones(1)
    with_x, without = np.append(0, chances), np.append(chances, 0)
    assert chances.sum() == pytest.approx(1)
    for _ in range(questions):
        inside, outside = (np.outer(law, one).ravel() for law, one in ((inside, with_x), (outside, without)))
        both = inside + outside > 1e-9
        inside, outside = inside[both], outside[both]
    found = participation(1.2, questions)
    assert np.maximum(inside, outside).sum() / 2 == pytest.approx(found["guessed"], abs=1e-4)
    assert (inside / (inside + outside)).max() >= found["surest"] - 1e-9
    assert noise[0] == -noise[-1]


def test_the_person_is_in_the_study_or_not():
    study = Study()
    without = study.without()
    assert without.num_rows == study.rows.num_rows - 1
    left = set(study.rows["zper"].to_pylist()) - set(without["zper"].to_pylist())
    assert left == {study.rows["zper"][study.person].as_py()}
