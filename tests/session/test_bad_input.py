"""Every wrong call: a typed error that shows no data, nothing charged, nothing recorded, nothing read."""

from fractions import Fraction

import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidInput, InvalidParameter, InvalidQuery, count, mean
from chary.amounts import Amount
from chary.calls import ThresholdTest
from tests.session.kit import CLINICS, USUAL, error_texts, shows_data, spent, visits

NAN, INF = float("nan"), float("inf")
NO_SIZES = [NAN, INF, -INF, 0, 0.0, -1, -1e-300, True, False, "", "abc", "nan", "1/0", None, [1], 1j, b"1"]
COSTS = chary.sum("cost", bounds=(0, 10), max_rows_per_unit=1)
KEYED = count().by("clinic", CLINICS)
MEAN = mean("cost", bounds=(0, 10), max_rows_per_unit=1)


@pytest.fixture(scope="module")
def refusing():
    """Check that a call is refused without any trace, on one session for all tests."""
    seen = []
    session = chary.open(visits(), privacy_unit="patient", ledger=":memory:", budget=USUAL, on_step=seen.append)

    def check(ask, error):
        seen.clear()
        before = spent(session), session.history
        with pytest.raises(error) as refusal:
            ask(session)
        assert not shows_data(error_texts(refusal.value))
        assert not {"reserved", "evaluated"} & set(seen)
        assert (spent(session), session.history) == before

    yield check
    session.close()


@pytest.mark.parametrize("epsilon", NO_SIZES, ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        lambda s, e: s.release(count(), epsilon=e),
        lambda s, e: s.release(MEAN, epsilon=e),
        lambda s, e: s.test(count(), above=1, epsilon=e),
        lambda s, e: s.release_if(count(), above=1, epsilon=e),
        lambda s, e: s.release_if(KEYED, above=1, epsilon=e),
        lambda s, e: s.release(count(), rho=e),
        lambda s, e: s.quote(ThresholdTest(count(), above=1, epsilon=e)),
    ],
    ids=["release", "mean", "test", "release_if", "release_if of keys", "rho", "quote"],
)
def test_a_size_must_be_a_positive_number(refusing, ask, epsilon):
    refusing(lambda session: ask(session, epsilon), InvalidParameter)


@pytest.mark.parametrize("above", [NAN, INF, -INF, "many", None, True, [5], b"5"], ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        lambda s, a: s.test(count(), above=a, epsilon="0.1"),
        lambda s, a: s.test(MEAN, above=a, epsilon="0.1"),
        lambda s, a: s.release_if(count(), above=a, epsilon="0.1"),
        lambda s, a: s.release_if(MEAN, above=a, epsilon="0.1"),
        lambda s, a: s.release_if(KEYED, above=a, epsilon="0.1"),
    ],
    ids=["test", "mean test", "release_if", "mean release_if", "release_if of keys"],
)
def test_a_threshold_must_be_a_number(refusing, ask, above):
    refusing(lambda session: ask(session, above), InvalidParameter)


@pytest.mark.parametrize("above", [NAN, INF, "many", None, True], ids=repr)
def test_a_revised_bar_must_be_a_number(opened, above):
    session = opened(grain="0.02")
    held = session.release_if(count(), above=10**9, epsilon="0.01")
    with pytest.raises(InvalidParameter) as refusal:
        held.widen(above=above)
    assert not shows_data(error_texts(refusal.value))
    assert len(session.history) == 1


@pytest.mark.parametrize("epsilon", NO_SIZES, ids=repr)
def test_a_budget_needs_a_positive_epsilon(epsilon):
    with pytest.raises(InvalidParameter):
        Budget(epsilon=epsilon)


@pytest.mark.parametrize("delta", [NAN, INF, 1, 1.0, 1.5, -1e-9, -1, True, "x", None], ids=repr)
def test_a_budget_has_a_delta_below_one(delta):
    with pytest.raises(InvalidParameter):
        Budget(epsilon=1, delta=delta)


def test_a_budget_has_no_default_epsilon():
    with pytest.raises(TypeError):
        Budget()


WRONG_QUERIES = {
    "unknown column": lambda: count("nobody = 1"),
    "unknown value column": lambda: chary.sum("nobody", bounds=(0, 1), max_rows_per_unit=1),
    "unknown key column": lambda: count().by("nobody", ["a"]),
    "aggregate": lambda: count("SUM(cost) > 5"),
    "subquery": lambda: count("patient IN (SELECT patient FROM chary_rows)"),
    "function": lambda: count("random() > 0.5"),
    "two statements": lambda: count("age > 5; DROP TABLE chary_rows"),
    "failing cast": lambda: count("CAST(note AS INTEGER) > 5"),
    "garbage": lambda: count("age >"),
    "type": lambda: count("age > 'old'"),
    "text total": lambda: chary.sum("note", bounds=(0, 1), max_rows_per_unit=1),
    "keys of another type": lambda: count().by("clinic", [1, 2]),
    "keys of mixed types": lambda: count().by("clinic", ["a", 2]),
    "text keys of numbers": lambda: count().by("age", ["a"]),
    "repeated keys": lambda: count().by("clinic", ["a", "a"]),
    "no keys": lambda: count().by("clinic", []),
    "NULL key": lambda: count().by("clinic", [None]),
    "no limit": lambda: chary.sum("cost", bounds=(0, 10)),
    "no limit for a mean": lambda: mean("cost", bounds=(0, 10)),
    "both limits": lambda: chary.sum("cost", bounds=(0, 10), max_rows_per_unit=1, unit_total=(0, 5)),
    "bounds in the wrong order": lambda: chary.sum("cost", bounds=(10, 0), max_rows_per_unit=1),
    "bounds off the grid": lambda: chary.sum("cost", bounds=(0, "0.5"), max_rows_per_unit=1),
    "wide bounds": lambda: chary.sum("cost", bounds=(0, 2**60), max_rows_per_unit=1),
    "one bound": lambda: chary.sum("cost", bounds=5, max_rows_per_unit=1),
    "no rows": lambda: chary.sum("cost", bounds=(0, 10), max_rows_per_unit=0),
    "half a row": lambda: chary.sum("cost", bounds=(0, 10), max_rows_per_unit=0.5),
    "no keys kept": lambda: count().by("clinic", CLINICS, max_groups_per_unit=0),
    "both key limits": lambda: count().by("clinic", CLINICS, max_groups_per_unit=1, assumed_groups_per_unit=1),
    "no query": lambda: "count",
    "nothing": lambda: None,
    "a session's word": lambda: count,
}


@pytest.mark.parametrize("make", WRONG_QUERIES.values(), ids=WRONG_QUERIES.keys())
@pytest.mark.parametrize("how", ["release", "test"])
def test_a_wrong_query_is_refused(refusing, make, how):
    def ask(session):
        query = make()
        if how == "release":
            session.release(query, epsilon="0.1")
        elif getattr(query, "keys", None) is None:
            session.test(query, above=5, epsilon="0.1")
        else:
            session.release_if(query, above=5, epsilon="0.1")

    refusing(ask, InvalidInput)


@pytest.mark.parametrize("rows", ["1/3", "1/100", "-5"])
def test_a_fraction_of_a_row_is_no_limit(rows):
    """It would shrink the sensitivity, and with it the noise."""
    with pytest.raises(InvalidParameter):
        chary.sum("cost", bounds=(0, 10), max_rows_per_unit=Fraction(rows))
    with pytest.raises(InvalidParameter):
        mean("cost", bounds=(0, 10), max_rows_per_unit=Fraction(rows))
    with pytest.raises(InvalidParameter):
        count().by("clinic", CLINICS, assumed_groups_per_unit=Fraction(rows))


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.release_if("count", above=5, epsilon="0.1"),
        lambda s: s.test(MEAN.by("clinic", CLINICS), above=5, epsilon="0.1"),
        lambda s: s.release_if(MEAN.by("clinic", CLINICS), above=5, epsilon="0.1"),
        lambda s: s.test(MEAN, above="5.5", epsilon="0.1"),
        lambda s: s.test(chary.sum("cost", bounds=(0, 10)), above=5, epsilon="0.1"),
        lambda s: s.test(mean("cost", bounds=(0, 10)), above=5, epsilon="0.1"),
        lambda s: s.release_if(mean("cost", bounds=(0, 10)), above=5, epsilon="0.1"),
        lambda s: s.release_if(chary.sum("cost", bounds=(0, 10)).by("clinic", CLINICS), above=5, epsilon="0.1"),
    ],
)
def test_a_query_that_does_not_fit_the_call_is_refused(refusing, ask):
    refusing(ask, InvalidQuery)


@pytest.mark.parametrize("arguments", [{}, {"epsilon": 1, "rho": 1}])
def test_a_release_has_one_size(refusing, arguments):
    refusing(lambda session: session.release(count(), **arguments), InvalidParameter)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.release(count(), epsilon=50),
        lambda s: s.test(count(), above=5, epsilon=50),
        lambda s: s.release_if(MEAN, above=5, epsilon=50),
        lambda s: s.release_if(KEYED, above=5, epsilon=50),
        lambda s: s.release(count(), rho=50),
    ],
)
def test_what_does_not_fit_the_budget_is_refused(refusing, ask):
    refusing(ask, BudgetExceeded)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.release(count(), epsilon="1e-13"),
        lambda s: s.test(count(), above=5, epsilon="1e-13"),
        lambda s: s.release_if(KEYED, above=5, epsilon="1e-13"),
        lambda s: s.release_if(COSTS, above=5, epsilon="1e-12"),
        lambda s: s.release(chary.sum("cost", bounds=(0, 2**50), max_rows_per_unit=1), epsilon="0.1"),
        lambda s: s.release(mean("cost", bounds=(0, 2**50), max_rows_per_unit=1), epsilon="0.1"),
        lambda s: s.release(count(), rho="1e-30"),
        lambda s: s.release(count(), epsilon="1e-400"),
        lambda s: s.quote(ThresholdTest(count(), above=5, epsilon="1e-400")),
    ],
    ids=["release", "test", "release_if of keys", "release_if", "total", "mean", "rho", "tiny", "quote"],
)
def test_noise_beyond_what_can_be_drawn_is_refused_before_the_data_are_touched(refusing, ask):
    refusing(ask, InvalidParameter)


def test_an_epsilon_beyond_the_smallest_noise_is_charged_for_the_noise_that_is_drawn(opened):
    session = opened(budget=Budget(epsilon=4000))
    session.release(count(), epsilon=2000)
    assert spent(session) == Amount(1024 * 10**15)


@pytest.mark.parametrize("method", ["release", "test", "release_if", "quote"])
def test_privacy_arguments_are_named(opened, method):
    with pytest.raises(TypeError):
        getattr(opened(), method)(count(), 1, 1)
