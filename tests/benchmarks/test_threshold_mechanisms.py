"""The threshold benchmarks run what is advised: the same calibration, the same errors."""

import pytest

from chary.advise import advise

DELTA = 1e-6
BUDGETS = [(1.0, 10), (1.0, 50), (1.0, 200), (0.5, 10), (0.5, 50), (0.5, 200)]


def named(advice):
    return {option.mechanism: option for option in advice.options}


@pytest.mark.parametrize(("epsilon", "hits"), BUDGETS)
def test_advice_is_what_the_benchmark_runs(run_beside, epsilon, hits):
    found = named(advise(epsilon=epsilon, delta=DELTA, tests=10_000, hits=hits))
    groups = run_beside("threshold_mechanisms").mechanisms(epsilon, DELTA, hits, 10_000)
    forms, tuned = {group[0].name: group[0] for group in groups}, groups[2]
    plain = forms["plain composition"]
    assert found["plain composition, best theorem"].test_deviation == plain.test_deviation
    names = {
        "target charging, published bound": "charging, published",
        "target charging, exact tail": "charging, exact tail",
        "target charging, exact curve": "charging, ours: exact",
        "target charging, renyi filter": "charging, ours: Renyi",
    }
    for ours, theirs in names.items():
        assert found[ours].epsilon == forms[theirs].epsilon_per_call
        assert found[ours].test_deviation == forms[theirs].test_deviation
    published = [found["sparse vector, published"], found["sparse vector, published, delta"]]
    textbook = min(published, key=lambda option: option.test_deviation)
    assert textbook.test_deviation == pytest.approx(forms["sparse vector, textbook"].test_deviation, rel=1e-12)
    assert textbook.value_deviation == pytest.approx(forms["sparse vector, textbook"].answer_deviation, rel=1e-12)
    pure = found["sparse vector, tuned, monotone"]
    assert pure.test_deviation == pytest.approx(tuned[0].test_deviation, rel=1e-12)
    assert pure.value_deviation == pytest.approx(tuned[0].answer_deviation, rel=1e-12)
    one_sided = found["sparse vector, one-sided, monotone"]
    assert one_sided.test_deviation == forms["sparse vector, ours: one-sided"].test_deviation
    assert one_sided.value_deviation == forms["sparse vector, ours: one-sided"].answer_deviation
    gaussian = found["sparse vector, tuned, Gaussian values"]
    assert gaussian.test_deviation in [form.answer_deviation for form in tuned[1:]]


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("hits", [3, 20])
def test_errors_are_those_of_the_accuracy_benchmark(run_beside, hits, values):
    made = run_beside("sparse_accuracy")
    found = named(advise(epsilon=1, delta=DELTA, tests=1000, hits=hits, values=values))
    names = ("published", "published, delta", "tuned", "tuned, monotone")
    assert [found[f"sparse vector, {name}"].error for name in names] == made.sparse_errors(hits, values)[1:]
    ours = [found[f"sparse vector, {name}"].error for name in ("one-sided", "one-sided, monotone")]
    assert ours == made.one_sided_errors(hits, values)
    assert found["target charging, exact curve"].error == made.charging_error(hits)


@pytest.mark.parametrize("hits", [1, 3, 10])
def test_the_best_exponential_tests_beside_a_laplace_threshold_err_more_than_ours(run_beside, hits):
    tests, hit, laplace, exponential, ours = run_beside("sparse_accuracy").few_hits()[[1, 3, 10].index(hits)]
    assert (tests, hit) == ("1,000", str(hits))
    assert int(ours) < int(exponential) < int(laplace)


def test_a_short_stream_is_run_by_every_mechanism(run_beside):
    made = run_beside("thresholds")
    values = made.np.random.default_rng(3).integers(0, 500, 400)
    bar = int(made.np.partition(values, -10)[-10])
    for forms in run_beside("threshold_mechanisms").mechanisms(5.0, DELTA, 10, 400):
        scored = made.score(forms[0], 0.5, values, bar, 1, 3)
        assert 0 <= scored.mean(made.F1) <= 1
