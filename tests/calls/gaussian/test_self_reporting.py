"""Runs that restart themselves in sessions: their days, their price under each filter, where they stop."""

import itertools
from fractions import Fraction

import pandas as pd
import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced, NotWithheld, count, mean
from chary.accounting import Approximate, Pure, Repeated
from chary.accounting.gaussian_runs import NOTHING_TOLD, ThresholdRun
from chary.amounts import MAIN_STEPS
from chary.calls import SelfReporting
from chary.calls.gaussian_runs import ReportingProgress
from chary.noise import Seeded
from tests.session.kit import CLINICS, error_texts, shows_data, spent

TERMS = {"threshold": 60, "threshold_noise": 20, "low": 0, "high": 100, "sensitivity": 1}
BY_CLINIC = count().by("clinic", CLINICS)
STOPPED = "stopped: the total cannot pay for another test"


def runs_of(epsilon=1, **changed):
    return SelfReporting(**(TERMS | {"epsilon": epsilon} | changed))


@pytest.fixture
def series(tmp_path):
    """Sessions on the days of a series, in one ledger."""
    made = []

    def make(values, epsilon=10, **options):
        given = {"budget": Budget(epsilon=epsilon), "ledger": tmp_path / "n.ledger", "dataset": "n"} | options
        made.append(chary.open_counts(pd.DataFrame({"n": values}), column="n", sensitivity=1, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


def told(run):
    state = run.state
    return state.tested, state.hits, state.steps


def test_days_of_a_series_restart_after_each_hit(series):
    values = [0, 90, 0, 90, 90, 0] * 3
    run = series(values, unsafe_noise=Seeded(1)).start(runs_of(10, threshold_noise=9, threshold=45))
    assert run.state.told == "running"
    session = series(values, epsilon=40, ledger=":memory:", unsafe_noise=Seeded(2))
    run = session.start(runs_of(40, threshold_noise=9, threshold=45))
    found = run.ask(session.series())
    assert found.value == tuple(day for day, value in enumerate(values) if value == 90)
    assert (found.hits, found.tested, found.untested, found.hit) == (9, 18, (), True)
    assert found.states()[:3] == [False, True, False]
    assert found.interval_says == "no interval: the answer says which groups are above, not their values"
    assert told(run) == (18, 9, 1)
    assert run.ask(session.series().at(1)).value is True
    assert run.ask(session.series().since(17)).value == ()
    assert run.state.day == 18


def test_the_answers_cost_what_they_report_under_the_pure_filter(pure, scripted):
    session, runs = pure(), runs_of()
    run = session.start(runs)
    assert spent(session).main == 0
    losses = runs.machine.losses(64)
    scripted += [False, True, True, False]
    expected = [losses.of(1, halted=False), losses.of(2, halted=True)]
    expected.append(expected[1] + losses.of(1, halted=True))
    expected.append(expected[2] + losses.of(1, halted=False))
    for number, lost in enumerate(expected):
        run.ask(count())
        assert run.state.loss == pytest.approx(lost, rel=1e-12)
        assert 0 <= spent(session).main - Fraction(run.state.loss) * MAIN_STEPS < number + 2
    assert [entry.hits for entry in session.history[1:]] == [0, 1, 1, 0]


@pytest.mark.parametrize("options", [{}, {"filter": "exact", "grain": "0.05"}])
def test_other_filters_charge_the_opening_whole_and_nothing_more(opened, scripted, options):
    session = opened(**options)
    run = session.start(runs_of("0.05", threshold_noise=200))
    assert spent(session) == session.spine.filter.price(Pure("0.05")).hit
    before = spent(session)
    scripted += [True] * 99
    stopped = run.ask(BY_CLINIC)
    assert spent(session) == before
    assert stopped.tested == len(CLINICS)


def test_all_keys_at_once_cost_what_they_cost_one_by_one(pure, scripted):
    at_once, single = pure(), pure()
    pattern = [False, True, False]
    scripted += pattern * 2
    run, other = at_once.start(runs_of()), single.start(runs_of())
    run.ask(BY_CLINIC)
    for _ in pattern:
        other.ask(count())
    assert (told(run), run.state.loss) == (told(other), other.state.loss)
    assert abs(spent(at_once).main - spent(single).main) <= 3


def test_every_outcome_keeps_the_total_and_stops_where_the_next_test_would_not(pure, scripted):
    runs = runs_of("0.4", threshold_noise=10)
    for pattern in itertools.product([False, True], repeat=3):
        session = pure("0.4")
        run = session.start(runs)
        scripted[:] = list(pattern)
        made = run.ask(BY_CLINIC).tested
        assert spent(session).main <= session.spine.filter.capacity.main
        assert run.state.loss <= 0.4
        assert (run.state.told == STOPPED) >= (made < 3)
        session.close()


def test_where_the_total_ends_nothing_is_touched(pure, scripted):
    touched = []
    session = pure(9, on_step=touched.append)
    run = session.start(runs_of("0.05"))
    scripted += [True] * 50
    found = run.ask(count().by("age", range(50)))
    assert 0 < found.tested < 50
    assert len(found.untested) == 50 - found.tested
    assert run.state.told == STOPPED
    before = spent(session)
    touched.clear()
    with pytest.raises(BudgetExceeded, match="cannot pay for another test") as caught:
        run.ask(count())
    assert (touched, spent(session)) == (["asked"], before)
    assert not shows_data(error_texts(caught.value))


def test_runs_stop_where_the_session_cannot_pay_and_go_on_when_it_can(pure, scripted):
    session = pure("0.3")
    run = session.start(runs_of(1))
    scripted += [True] * 60
    found = run.ask(count().by("age", range(50)))
    assert 0 < found.tested < 50
    assert run.state.told == STOPPED
    assert spent(session).main <= session.spine.filter.capacity.main
    with pytest.raises(BudgetExceeded):
        run.ask(count())
    other = pure(1)
    run = other.start(runs_of(1))
    other.set_quota("analyst", 0)
    with pytest.raises(BudgetExceeded):
        run.ask(BY_CLINIC)
    other.set_quota("analyst", 1)
    assert run.ask(BY_CLINIC).tested == 3


def test_the_whole_budget_may_be_asked_in_many_batches(pure, scripted):
    """What each batch is charged is rounded up, so all of the total together would not fit any more."""
    session = pure(1)
    run = session.start(runs_of(1))
    scripted += [True, False, True] * 30
    while run.state.told == "running":
        run.ask(BY_CLINIC)
    assert run.state.loss > 0.9
    assert spent(session).main <= session.spine.filter.capacity.main


def test_days_that_come_by_append_are_tested_once(series, scripted):
    session = series([1, 2])
    scripted += [False, True]
    run = session.start(runs_of(), follow=True)
    assert told(run) == (2, 1, 0)
    scripted += [False, True, False]
    session.append(pd.DataFrame({"n": [3, 4, 5]}))
    assert (told(run), run.state.day) == ((5, 2, 1), 5)
    session.close()
    again = series([1, 2, 3, 4, 5, 6]).resume(run.call)
    scripted += [True]
    assert again.ask(series([1, 2, 3, 4, 5, 6]).series().since(again.state.day)).value == (5,)
    assert told(again) == (6, 3, 0)


def test_a_follower_rests_when_the_total_is_used_up(series, scripted):
    session = series([1])
    scripted += [True] * 40
    run = session.start(runs_of("0.05"), follow=True)
    session.append(pd.DataFrame({"n": [5] * 39}))
    assert run.state.told == STOPPED
    assert run.state.day < 40
    session.append(pd.DataFrame({"n": [5]}))


def test_rows_of_a_table_are_not_followed(pure):
    with pytest.raises(InvalidParameter, match="follow"):
        pure().start(runs_of(), follow=True)


def test_a_request_is_told_again_also_after_the_runs_stopped(pure, scripted):
    session = pure(1)
    run = session.start(runs_of("0.05"))
    scripted += [True] * 50
    found = run.ask(count().by("age", range(50)), request="monday")
    assert run.state.told == STOPPED
    assert run.ask(count().by("age", range(50)), request="monday").value == found.value


@pytest.mark.parametrize(
    "wrong",
    [{"low": 100}, {"epsilon": 0}, {"epsilon": "1e-9"}, {"threshold_noise": 0}, {"sensitivity": 0}, {"high": None}],
)
def test_wrong_runs_charge_nothing(pure, wrong):
    session = pure()
    with pytest.raises(InvalidParameter):
        session.start(runs_of(**wrong))
    assert session.history == []


@pytest.mark.parametrize(
    "query",
    [chary.sum("cost", bounds=(0, 3), max_rows_per_unit=1), mean("cost", bounds=(0, 9), max_rows_per_unit=1), "age"],
)
def test_wrong_questions_charge_nothing(pure, query):
    session = pure()
    run = session.start(runs_of())
    with pytest.raises(InvalidQuery):
        run.ask(query)
    assert len(session.history) == 1


def test_an_opening_that_was_interrupted_keeps_no_threshold(pure, monkeypatch):
    session = pure()
    run = session.start(runs_of())
    monkeypatch.setattr(session.spine.ledger, "secret", lambda number: None)
    with pytest.raises(NotWithheld, match="interrupted"):
        run.state  # noqa: B018
    with pytest.raises(NotWithheld):
        session.resume(run.call)


def test_the_state_is_read_as_it_was_written(pure):
    session = pure()
    run = session.start(runs_of())
    run.ask(count())
    now = ReportingProgress.load(session.spine.ledger.secret(run.call))
    assert ReportingProgress.load(now.dump()) == now
    assert (now.tested, now.told.halted + now.told.steps) == (1, 1)


WITH_DELTA = {"delta": "1e-6", "sensitivity": "0.1"}
RULES = [{"stop": "renyi"}, {"stop": "self-reporting", "runs": 20}, {"stop": "whitehouse"}]


@pytest.mark.parametrize("rule", RULES)
def test_rules_with_a_delta_charge_it_and_stop_between_runs(opened, scripted, rule):
    session = opened(budget=Budget(epsilon=3, delta=1e-5), delta_reserve="5e-6", neighbors="replace")
    runs = runs_of(1, **WITH_DELTA, **rule, high=1000, threshold=500, threshold_noise=100)
    with pytest.raises(InvalidQuery, match="sensitivity"):
        session.start(runs).ask(count())
    paid = spent(session)
    at_most = Repeated(ThresholdRun(runs.terms.noise), runs.machine.rule.runs)
    assert paid == session.spine.filter.price(at_most).hit
    assert paid.main < session.spine.filter.price(Approximate(1, "1e-6")).hit.main
    pure = opened(budget=Budget(epsilon=3, delta=1e-5), filter="pure", delta_reserve="5e-6", neighbors="replace")
    pure.start(runs)
    assert spent(pure) == pure.spine.filter.price(Approximate(1, "1e-6")).hit
    wide = runs_of(1, **(WITH_DELTA | {"sensitivity": 1}), **rule, high=1000, threshold=500, threshold_noise=100)
    run = opened(budget=Budget(epsilon=3, delta=1e-5), delta_reserve="5e-6").start(wide)
    scripted += [False, True] * 200
    found = run.ask(count().by("age", range(300)))
    assert run.state.told == STOPPED
    assert found.hits == run.state.hits > 1
    assert (found.tested, run.state.steps) == (2 * found.hits, 0)


def test_ours_makes_more_runs_than_the_published_rules():
    most = {}
    for rule in RULES:
        runs = runs_of(1, delta="1e-6", **rule, high=1, threshold="0.5", threshold_noise="0.1", sensitivity="0.001")
        losses, told = runs.machine.losses(64), NOTHING_TOLD
        while runs.machine.admits(told) and told.halted < 100:
            for step in range(20):
                told = told.after(above=step == 19, losses=losses)
        most[runs.stop] = told.halted
    assert most["renyi"] > 2 * max(most["self-reporting"], most["whitehouse"]) > 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop": "renyi"},
        {"delta": "1e-6"},
        {"stop": "renyi", "delta": 2},
        {"stop": "renyi", "delta": "1e-6", "runs": 3},
        {"stop": "self-reporting", "delta": "1e-6"},
        {"stop": "other", "delta": "1e-6"},
    ],
)
def test_rules_that_say_too_much_or_too_little_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        runs_of(**wrong)


def test_a_delta_that_was_not_set_aside_has_no_price(opened):
    with pytest.raises(NotPriced, match="set aside"):
        opened(budget=Budget(epsilon=1), filter="pure").start(runs_of("0.5", **WITH_DELTA, stop="renyi"))


def test_as_many_runs_as_their_epsilon_allows_take_about_its_part_of_a_usual_budget(opened):
    """By their moments, where the epsilon that stands for them takes more than there is."""
    session = opened(budget=Budget(epsilon=1, delta="1e-6"), neighbors="replace")
    runs = runs_of("0.9", stop="renyi", **WITH_DELTA, high=1000, threshold=500, threshold_noise=10)
    session.start(runs)
    assert spent(session).delta == 0
    assert 0.7 < session.spent.share < 1
    assert session.spine.filter.price(Pure("0.9")).hit.main > session.spine.filter.capacity.main
