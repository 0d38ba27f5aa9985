"""Private algorithms of the caller: priors, targets, failures, tracking, twice."""

import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import chary
from chary import Algorithm, AlgorithmFailed, InvalidParameter, InvalidQuery, count
from chary.accounting import Approximate, Pure, Targeted, TwiceCall
from chary.amounts import Amount
from chary.calls import Boundary, OnChange, RunAlgorithm, TopK, When
from chary.calls.algorithm import MOST_BYTES
from chary.calls.history import History
from chary.calls.run import titled
from chary.errors import NotPriced
from chary.noise import Seeded, discrete_laplace
from tests.conformance.samples import fixed
from tests.session.kit import NO_NOISE, SECRET_NUMBER, answers, error_texts, shows_data, spent, visits


def price(session, event):
    return session.spine.filter.price(event)


def test_without_a_target_every_outcome_is_paid(session):
    found = session.ask(RunAlgorithm(fixed(7)))
    assert (found.value, found.hit) == (7, True)
    assert spent(session) == price(session, Pure("0.01")).hit


def test_only_another_outcome_than_the_prior_is_paid(session):
    assert not session.ask(RunAlgorithm(fixed(7), prior=7)).hit
    assert spent(session) == Amount(0)
    assert session.ask(RunAlgorithm(fixed(7), prior=8)).hit
    assert spent(session) == price(session, Targeted("0.01")).hit


@pytest.mark.parametrize(
    ("value", "prior"), [(1, True), (1, 1.0), (0, None), ("1", 1), ([1, 2], [2, 1]), ({"a": 1}, {})]
)
def test_outcomes_of_other_types_are_other_outcomes(session, value, prior):
    assert session.ask(RunAlgorithm(fixed(value), prior=prior)).hit


@pytest.mark.parametrize("value", [None, True, "a", 2**70, 0.5, [1, [2]], {"w": [0.5, 1.0]}])
def test_an_outcome_comes_back_as_it_was_also_when_repeated(session, value):
    first = session.ask(RunAlgorithm(fixed(value), prior=value), request="monday")
    assert (first.value, first.hit) == (value, False)
    assert session.ask(RunAlgorithm(fixed(value), prior=value), request="monday") == first
    assert len(session.history) == 1


def test_numpy_outcomes_become_plain(session):
    found = session.ask(RunAlgorithm(fixed({"w": np.arange(3), "b": np.float64(0.5), "t": (1, np.int64(2))})))
    assert found.value == {"w": [0, 1, 2], "b": 0.5, "t": [1, 2]}


def test_a_declared_target_is_priced_by_its_q(session):
    declared = fixed("b", outcomes=["a", "b", "c"])
    assert not session.ask(RunAlgorithm(declared, target=["c"], q="0.4")).hit
    assert session.ask(RunAlgorithm(declared, target=["b"], q="0.4")).hit
    assert spent(session) == price(session, Targeted("0.01", "0.4")).hit


def test_a_target_of_all_but_one_outcome_is_not_prior(session):
    session.ask(RunAlgorithm(fixed("b", outcomes=["a", "b", "c"]), target=["b", "c"]))
    assert spent(session) == price(session, Targeted("0.01")).hit


def test_a_target_of_all_outcomes_is_a_release(session):
    session.ask(RunAlgorithm(fixed("b", outcomes=["a", "b"]), target=["a", "b"]))
    assert spent(session) == price(session, Pure("0.01")).hit


@pytest.mark.parametrize(
    "options",
    [
        {"target": ["z"]},
        {"target": ["a", "z"]},
        {"target": []},
        {"target": ["a"]},
        {"prior": "z"},
        {"prior": "a", "target": ["b"]},
        {"q": "0.3"},
        {"target": ["a"], "q": 0},
        {"target": ["a"], "q": 1.5},
    ],
)
def test_targets_that_are_none_are_refused_before_anything(session, options):
    with pytest.raises(InvalidParameter):
        session.ask(RunAlgorithm(fixed("a", outcomes=["a", "b", "c"]), **options))
    assert session.history == []


def test_a_target_needs_declared_outcomes(session):
    with pytest.raises(InvalidParameter, match="declared"):
        session.ask(RunAlgorithm(fixed("a"), target=["a"], q="0.3"))


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "x"])
def test_an_algorithm_needs_a_size(epsilon):
    with pytest.raises(InvalidParameter):
        fixed(1, epsilon=epsilon)


@pytest.mark.parametrize("options", [{"name": ""}, {"name": 3}, {"run": 3}, {"parameters": {"a": math.nan}}])
def test_an_algorithm_that_cannot_be_named(options):
    with pytest.raises(InvalidParameter):
        Algorithm(**({"name": "a", "run": print, "epsilon": 1} | options))


@pytest.mark.parametrize("kind", [RunAlgorithm, Boundary])
def test_what_is_no_algorithm_is_refused(kind):
    with pytest.raises(InvalidParameter, match="Algorithm"):
        kind(len)


def test_an_unknown_column_is_refused_before_anything(session):
    with pytest.raises(InvalidQuery, match="nothere"):
        session.ask(RunAlgorithm(fixed(1, columns=["nothere"])))
    assert session.history == []


def test_it_reads_the_columns_it_named(opened):
    session = opened(grain="0.02")

    def names(rows, source, word):
        return [word, *sorted(rows.column_names), rows.num_rows]

    algorithm = Algorithm("names", names, epsilon="0.01", columns=["age", "clinic"], parameters={"word": "x"})
    assert session.ask(RunAlgorithm(algorithm)).value == ["x", "age", "clinic", 120]
    session.append(visits())
    assert session.ask(RunAlgorithm(algorithm)).value[-1] == 240


def test_deltas_are_paid_hit_or_miss(opened):
    session = opened(grain="0.02", delta_reserve="5e-7")
    algorithm = fixed(7, delta="1e-7")
    session.ask(RunAlgorithm(algorithm, prior=7))
    assert spent(session) == Amount(0, 10**11)
    session.ask(RunAlgorithm(algorithm))
    assert spent(session) == Amount(price(session, Approximate("0.01", "1e-7")).hit.main, 2 * 10**11)


@pytest.mark.parametrize(
    "outcome", [math.nan, math.inf, object(), {1, 2}, [0.5, math.nan], {"a": object()}, bytes(MOST_BYTES + 1)]
)
def test_an_outcome_that_cannot_be_published_is_charged_like_a_hit(session, outcome):
    with pytest.raises(AlgorithmFailed):
        session.ask(RunAlgorithm(fixed(outcome), prior=1))
    assert spent(session) == price(session, Targeted("0.01")).hit
    assert session.history[0].state == "settled"


def test_what_an_algorithm_raises_shows_no_data_and_is_repeated(session):
    def raises(rows, source):
        raise ValueError(rows["cost"].to_pylist()[-1])

    for _ in range(2):
        with pytest.raises(AlgorithmFailed) as failure:
            session.ask(RunAlgorithm(Algorithm("broken", raises, epsilon="0.01"), prior=1), request="monday")
        assert not shows_data(error_texts(failure.value))
    assert len(session.history) == 1
    assert not session.ask(RunAlgorithm(fixed(1), prior=1)).hit


def test_noise_comes_from_the_source_of_the_session(opened):
    def noisy(rows, source):
        return int(discrete_laplace(source, Fraction(100), 1)[0])

    values = [
        opened(unsafe_noise=Seeded(5)).ask(RunAlgorithm(Algorithm("n", noisy, epsilon="0.01"))).value for _ in range(2)
    ]
    assert values[0] == values[1]


def twice(algorithm):
    return Boundary(algorithm, runs=2, publish=True)


def test_two_runs_that_agree_are_free_and_two_that_differ_are_paid(session):
    agreed = session.ask(twice(fixed(3)))
    assert agreed.agree
    assert spent(session) == Amount(0)
    [stored] = session.history
    assert (stored.kind, stored.question, stored.answer) == ("call_twice", fixed(3).body(), {"first": 3, "second": 3})
    assert (session.quote(twice(fixed(3))).kind, titled("call_twice")) == ("boundary", "Boundary")
    assert History(session.spine).rebuilt(session.spine.ledger.call(agreed.call)).answer == stored.answer
    flips = iter([0, 1])
    pair = session.ask(
        Boundary(Algorithm("flips", lambda rows, source: next(flips), epsilon="0.01"), runs=2, publish=True)
    )
    assert (pair.first, pair.second, pair.agree) == (0, 1, False)
    assert spent(session) == price(session, TwiceCall("0.01")).hit


def test_a_run_of_two_that_fails_is_charged(session):
    outcomes = iter([0, math.nan])
    with pytest.raises(AlgorithmFailed):
        session.ask(
            Boundary(Algorithm("half", lambda rows, source: next(outcomes), epsilon="0.01"), runs=2, publish=True)
        )
    assert spent(session) == price(session, TwiceCall("0.01")).hit


def test_two_runs_pay_a_delta_twice_and_one_or_three_are_not_published(session):
    with pytest.raises(NotPriced, match="2e-09"):
        session.ask(twice(fixed(1, delta="1e-9")))
    for runs in (None, 1, 3):
        with pytest.raises(InvalidParameter, match="runs=2, publish=True"):
            Boundary(fixed(1), runs=runs, publish=True)


def test_tracking_pays_only_for_change(opened, place):
    session = opened(budget=NO_NOISE, ledger=place)
    tracked = OnChange(count(), step=20, epsilon=1000)
    answers = [session.ask(tracked) for _ in range(3)]
    assert [(answer.value, answer.changed) for answer in answers] == [(60, True), (60, False), (60, False)]
    once = spent(session)
    session.append(visits().assign(patient=lambda rows: rows["patient"] + 10**6))
    assert [session.ask(tracked).changed for _ in range(2)] == [True, False]
    assert session.ask(tracked).value == 100
    assert spent(session) == once.times(2)


def test_tracking_goes_on_after_a_restart(opened, tmp_path):
    place = tmp_path / "visits.ledger"
    first = opened(budget=NO_NOISE, ledger=place)
    assert first.ask(OnChange(count(), step=20, epsilon=1000)).changed
    first.release(count(), epsilon=1000)
    first.ask(OnChange(count("age > 30"), step=20, epsilon=1000))
    first.close()
    again = opened(budget=NO_NOISE, ledger=place)
    assert not again.ask(OnChange(count(), step=20, epsilon=1000)).changed
    assert again.ask(OnChange(count(), step=10, epsilon=1000)).changed


def test_tracking_an_algorithm(session):
    values = iter([5, 5, 6, 6, None, None])
    tracked = OnChange(Algorithm("values", lambda rows, source: next(values), epsilon="0.01"))
    assert [session.ask(tracked).hit for _ in range(6)] == [True, False, True, False, True, False]
    assert json.loads(session.spine.ledger.call(session.history[0].call).body) == session.history[-1].question


@pytest.mark.parametrize(
    "options",
    [
        {"question": count().by("clinic", ["north"]), "step": 10, "epsilon": 1},
        {"question": "count", "step": 10, "epsilon": 1},
        {"question": count(), "epsilon": 1},
        {"question": count(), "step": 10},
        {"question": count(), "step": 0, "epsilon": 1},
    ],
)
def test_what_cannot_be_tracked(session, options):
    with pytest.raises((InvalidParameter, InvalidQuery)):
        session.ask(OnChange(**options))


def test_the_law_of_a_tracked_value_is_the_rounded_law(opened):
    """At scale 10 and step 20 the 51 units are told as 60 when the noise lies in [-1, 18]."""
    session = opened(unsafe_noise=Seeded(11))
    tracked = OnChange(count(), step=20, epsilon="0.1").plan(session.spine)
    values = np.array([20 * answer["value"] for answer in answers(session, tracked, 51, 4000)])
    r = math.exp(-0.1)
    inside = (1 - r) / (1 + r) * (sum(r**k for k in range(19)) + r)
    spread = math.sqrt(inside * (1 - inside) / 4000)
    assert abs(np.mean(values == 60) - inside) < 4.9 * spread
    assert str(SECRET_NUMBER) not in str(session.ask(OnChange(count(), step=20, epsilon="0.1")))


def test_a_series_is_read_as_an_array():
    with chary.open_counts(
        pd.DataFrame({"cnt": [3, 4, 5]}), column="cnt", sensitivity=1, budget=chary.Budget(epsilon=1), ledger=":memory:"
    ) as session:
        assert (
            session.ask(RunAlgorithm(Algorithm("sum", lambda values, source: int(values.sum()), epsilon="0.1"))).value
            == 12
        )


def test_total_is_tracked_on_its_grid(opened):
    session = opened(budget=NO_NOISE)
    question = chary.sum("cost", bounds=(0, 100), grid="0.25", max_rows_per_unit=1)
    assert session.ask(OnChange(question, step="0.5", epsilon=1000)).value * 2 % 1 == 0


class Panic(BaseException):
    """Stands for what extensions raise."""


def panic(rows, source):
    raise Panic


@pytest.mark.parametrize("run", [panic, lambda rows, source: 10**5000, lambda rows, source: {"a": [10**5000]}])
def test_whatever_goes_wrong_in_an_algorithm_is_its_outcome(session, run):
    with pytest.raises(AlgorithmFailed):
        session.ask(RunAlgorithm(Algorithm("odd", run, epsilon="0.01")))
    assert session.history[-1].state == "settled"


def test_an_interruption_is_no_outcome(session):
    def interrupted(rows, source):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.ask(RunAlgorithm(Algorithm("stopped", interrupted, epsilon="0.01")))
    assert session.history[-1].state == "reserved"


def test_a_second_run_on_a_series_does_not_see_what_the_first_one_changed():
    series = pd.DataFrame({"count": [5, 6, 7]})
    given = {"column": "count", "sensitivity": 1, "ledger": ":memory:", "budget": chary.Budget(epsilon=1, delta=1e-6)}

    def changes(rows, source):
        rows += 1000
        return int(rows[0])

    with chary.open_counts(series, **given) as session:
        pair = session.ask(twice(Algorithm("changes", changes, epsilon="0.01")))
        assert (pair.first, pair.second) == (1005, 1005)
        scoring = [Algorithm(name, lambda rows, source: [changes(rows, source), 0], epsilon="0.01") for name in "ab"]
        assert session.ask(TopK(scoring, k=2)).scores == [1005, 1005]


def above_three(outcome):
    return outcome > 3


def test_a_condition_on_declared_outcomes_is_their_list(session):
    declared = fixed(5, outcomes=[1, 2, 3, 4, 5])
    assert session.ask(RunAlgorithm(declared, hit=When("large", above_three), q="0.4")).hit
    assert spent(session) == price(session, Targeted("0.01", "0.4")).hit
    assert not session.ask(RunAlgorithm(fixed(3, outcomes=[3, 4, 5]), hit=When("large", above_three))).hit
    assert session.ask(RunAlgorithm(fixed(4, outcomes=[3, 4, 5]), hit=When("large", above_three))).hit
    both = price(session, Targeted("0.01", "0.4")).hit + price(session, Targeted("0.01")).hit
    assert spent(session) == both
    assert session.history[-1].question["hit"] == "large"


def test_a_condition_that_always_holds_is_a_release(session):
    found = session.ask(RunAlgorithm(fixed(5, outcomes=[4, 5]), hit=When("large", above_three)))
    assert found.hit
    assert spent(session) == price(session, Pure("0.01")).hit


def test_a_declared_outcome_is_not_judged_again(session):
    judged = []
    condition = When("large", lambda outcome: judged.append(outcome) or outcome > 3)
    session.ask(RunAlgorithm(fixed(3, outcomes=[3, 4]), hit=condition))
    assert sorted(judged) == [3, 4]


def test_a_condition_on_what_comes_out_needs_its_q(session):
    assert session.ask(RunAlgorithm(fixed(7), hit=When("large", above_three), q="0.4")).hit
    assert not session.ask(RunAlgorithm(fixed(2), hit=When("large", above_three), q="0.4")).hit
    assert spent(session) == price(session, Targeted("0.01", "0.4")).hit


def test_a_condition_changes_nothing_of_what_is_published(session):
    emptied = When("emptied", lambda outcome: outcome.clear())
    assert session.ask(RunAlgorithm(fixed([1, 2]), hit=emptied, q="0.4")).value == [1, 2]


def raises(outcome):
    raise ValueError(f"{outcome} and {SECRET_NUMBER}")


@pytest.mark.parametrize("holds", [raises, lambda outcome: np.array([True, False])])
def test_a_condition_that_fails_is_a_hit_that_tells_nothing(session, holds):
    asked = RunAlgorithm(fixed(SECRET_NUMBER), hit=When("fails", holds), q="0.4")
    for _ in range(2):
        with pytest.raises(AlgorithmFailed, match="condition") as failed:
            session.ask(asked, request="monday")
        assert not shows_data(error_texts(failed.value))
    assert spent(session) == price(session, Targeted("0.01", "0.4")).hit
    assert str(SECRET_NUMBER) not in str(session.history)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (fixed(1), {"hit": When("large", above_three)}),
        (fixed(1, outcomes=[1, 2, 5]), {"hit": When("large", above_three)}),
        (fixed(1, outcomes=[1, 2]), {"hit": When("large", above_three), "q": "0.4"}),
        (fixed(1, outcomes=[1, 5]), {"hit": When("raises", raises)}),
        (fixed(1, outcomes=[1, 5]), {"hit": When("large", above_three), "prior": 1}),
        (fixed(1, outcomes=[1, 5]), {"hit": When("large", above_three), "target": [5]}),
        (fixed(1, outcomes=[1, 5]), {"hit": above_three}),
        (Algorithm("zcdp", lambda rows, source: 1, rho="0.01"), {"hit": When("large", above_three), "q": "0.4"}),
    ],
)
def test_conditions_that_are_no_target_are_refused_before_anything(session, algorithm, options):
    with pytest.raises(InvalidParameter):
        session.ask(RunAlgorithm(algorithm, **options))
    assert session.history == []


@pytest.mark.parametrize("arguments", [("", above_three), (3, above_three), ("large", 3)])
def test_a_condition_has_a_name_and_a_callable(arguments):
    with pytest.raises(InvalidParameter):
        When(*arguments)
