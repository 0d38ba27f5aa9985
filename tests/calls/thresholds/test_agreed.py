"""Runs of agreed tests in sessions: what is charged when, what is told, what is left, and what cannot be asked."""

import json
from fractions import Fraction

import numpy as np
import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced, count, mean
from chary.accounting import sharp_table
from chary.calls import AgreedTest, AgreedWatch, PrepaidTests, ThresholdTest
from chary.core.plan import Data
from chary.core.transaction import ATTEMPTS, Spine
from chary.ledger import SecretMoved
from chary.noise import Seeded
from tests.session.interruption_kit import in_between
from tests.session.kit import CLINICS, PAID, spent

DELTA = Budget(epsilon=1, delta=1e-6)
FAR = 10**6
EVERY = count().by("clinic", CLINICS)


def run_of(session, tests=40, hits=8, **how):
    return session.start(PrepaidTests(tests=tests, hits=hits, **how))


def ledger_prices(session, run):
    """What the ledger holds of the opening, in steps."""
    opening = session.spine.ledger.call(run.call)
    return opening.charged.main, json.loads(opening.answer)


def test_all_misses_are_paid_at_once_and_the_hits_that_were_planned_fit_beside_them(opened):
    session = opened(budget=DELTA, unsafe_noise=Seeded(1))
    run, whole = run_of(session, misses="0.2"), session.spine.filter.capacity.main
    paid, charges = ledger_prices(session, run)
    assert paid == 40 * charges["miss"] == pytest.approx(whole / 5, rel=1e-9)
    assert not any(run.ask(count(), above=FAR) for _ in range(20))
    assert session.spent.amount.main == paid
    for _ in range(8):
        assert run.ask(count(), above=-FAR).charged.amount.main == charges["hit"]
    assert 0 <= whole - session.spent.amount.main < 8
    before = len(session.history)
    with pytest.raises(BudgetExceeded):
        run.ask(count(), above=FAR)
    assert len(session.history) == before
    assert run.state.left == 12


def test_a_part_of_the_budget_leaves_the_rest_to_others_and_further_hits_are_charged_from_it(opened):
    session = opened(budget=DELTA)
    run = run_of(session, part="0.5", misses="0.4")
    whole = session.spine.filter.capacity.main
    paid, charges = ledger_prices(session, run)
    assert paid + 8 * charges["hit"] == pytest.approx(whole / 2, rel=1e-9)
    for _ in range(10):
        run.ask(count(), above=-FAR)
    assert run.spent.amount.main == paid + 10 * charges["hit"]


def test_a_keyed_question_uses_up_as_many_tests_as_a_unit_can_be_in(opened):
    session = opened(budget=DELTA)
    run = run_of(session)
    for query, taken in (
        (EVERY, 3),
        (count().by("clinic", CLINICS, max_groups_per_unit=1), 1),
        (count().by("clinic", CLINICS, max_groups_per_unit=2), 2),
        (count(), 1),
    ):
        left = run.state.left
        found = run.ask(query, above=FAR)
        assert (found.tests_left, run.state.left) == (left - taken, left - taken)
    assert session.history[1].question["parallel"] == 3


def test_replaced_units_are_in_twice_as_many_keys(opened):
    session = opened(budget=DELTA, neighbors="replace")
    run = run_of(session)
    assert run.ask(count().by("clinic", CLINICS, max_groups_per_unit=1), above=FAR).tests_left == 38


def test_a_question_of_more_tests_than_are_left_is_refused_and_a_smaller_one_is_answered(opened):
    session = opened(budget=DELTA)
    run = run_of(session, tests=4, hits=2)
    run.ask(count(), above=FAR)
    run.ask(count(), above=FAR)
    with pytest.raises(BudgetExceeded, match=f"2 of the 4 tests of call {run.call} are left, and this query takes 3"):
        run.ask(EVERY, above=FAR)
    assert run.ask(count().by("clinic", CLINICS, max_groups_per_unit=2), above=FAR).tests_left == 0


def test_a_scan_halts_when_hits_no_longer_fit(opened):
    session = opened(budget=DELTA)
    run = run_of(session, hits=5)
    for _ in range(3):
        run.ask(count(), above=-FAR)
    found = run.ask(EVERY, above=-FAR)
    assert (found.tested, found.hits, found.untested, found.tests_left) == (2, 2, (("east",),), 34)
    assert found["east"] == {"clinic": "east", "hit": None, "value": None, "low": None, "high": None, "caution": None}


def test_without_values_only_yes_or_no_is_told(opened):
    session = opened(budget=DELTA)
    run = run_of(session)
    answer = run.ask(count(), above=-FAR)
    assert (answer, bool(answer), answer.interval) == (AgreedTest(answer.call, True, None, None, 39), True, None)
    found = run.ask(EVERY, above=-FAR)
    assert found == AgreedWatch(found.call, ("clinic",), EVERY.keys, dict.fromkeys(EVERY.keys), 3, None, 36)
    assert found.value == dict.fromkeys(CLINICS)
    quote = run.quote(count(), above=3)
    assert (quote.error_bar, quote.price_if_miss, quote.kind) == (None, 0, "agreed_test")


def test_values_of_hits_are_near_the_truth(opened):
    session = opened(budget=Budget(epsilon=1000, delta=1e-6))
    run = run_of(session, value="0.5", misses="0.1")
    frame = count().by("clinic", [*CLINICS, "nowhere"])
    found = run.ask(frame, above=20)
    exact = session.release(frame, epsilon=200).value
    assert set(found.value) == {key for key, value in exact.items() if value >= 20}
    assert all(abs(found.value[key] - exact[key]) <= 8 for key in found.value)
    one = run.ask(count(), above=20)
    low, high = one.interval
    assert low <= one.value <= high
    assert abs(one.value - 51) <= 8


def question(session, run, query, above):
    """The interaction itself."""
    return run.plan(query, above=above)


def drawn(interaction, secret, values, times, seed=5):
    """Hits and values of so many runs on these exact values."""
    source = Seeded(seed)
    touched = Data([np.array(values)], source, secret, None, PAID)
    return [interaction.run(touched).answer for _ in range(times)]


@pytest.mark.statistical
def test_the_law_of_a_hit_is_that_of_the_table_of_both_prices(opened):
    """And not that of a test whose misses are free, at the same charge of a hit."""
    session = opened(budget=DELTA)
    run = run_of(session, tests=1000, hits=20, misses="0.5")
    asked = question(session, run, count(), 0)
    filter_ = session.spine.filter
    _, charges = ledger_prices(session, run)
    hit, miss = (Fraction(charges[name], filter_.steps) for name in ("hit", "miss"))
    table = sharp_table(order=filter_.order, price=hit + miss, miss_price=miss)
    free = sharp_table(order=filter_.order, price=hit)
    bar, times, told = table.bar(Fraction("0.05") / 2000), 9000, []
    secret = session.spine.ledger.secret(run.call)
    for steps in (-120, -60, 0, 40):
        hits = sum(bool(found["positions"]) for found in drawn(asked, secret, [steps - bar], times))
        for law in (table, free):
            chance = float(law.hit_chance(steps))
            told.append(abs(hits - times * chance) / (times * chance * (1 - chance)) ** 0.5)
    assert max(told[::2]) < 5 < max(told[1::2])


@pytest.mark.statistical
def test_the_value_of_a_hit_has_its_part_of_the_price_of_a_hit(opened):
    session = opened(budget=DELTA)
    run = run_of(session, tests=100, hits=20, misses="0.3", value="0.4")
    asked, filter_ = question(session, run, count(), 0), session.spine.filter
    _, charges = ledger_prices(session, run)
    price = Fraction(sum(charges.values()), filter_.steps)
    variance = float(filter_.order * (filter_.order - 1) / (2 * price * Fraction("0.4")))
    secret = session.spine.ledger.secret(run.call)
    noisy = np.array([found["noisy"][0] - FAR for found in drawn(asked, secret, [FAR], 6000)])
    assert abs(noisy.mean()) < 5 * (variance / len(noisy)) ** 0.5
    tolerance = 5 * (2 / len(noisy)) ** 0.5
    assert abs(noisy.var() / variance - 1) < tolerance < abs(noisy.var() / variance - 1.1**2)


def test_how_near_to_a_bar_all_tests_are_right_is_told_before_and_after_it_is_paid(opened):
    session = opened(budget=DELTA)
    call = PrepaidTests(tests=1000, hits=20, misses="0.2")
    quote = session.quote(call)
    assert session.history == []
    assert quote.within.tests == 1000
    assert 0 < quote.most_charged - 0.2 < 1e-9 or 0 <= 0.2 - quote.most_charged < 1e-9
    run = session.start(call)
    assert run.state.accuracy() == quote.within == session.quote(call, tests=1000).within
    assert run.quote(count(), above=0).within.error == quote.within.error
    costs = chary.sum("cost", bounds=(0, 10), grid="0.5", max_rows_per_unit=1)
    assert run.quote(costs, above=0).within.error == pytest.approx(10 * quote.within.error, rel=0.05)
    more, surer = run.state.accuracy(tests=10_000), run.state.accuracy(confidence="0.999")
    assert min(more.error, surer.error) > quote.within.error
    assert (more.confidence, surer.tests) == (0.95, 1000)
    free = session.quote(ThresholdTest(count(), above=0, hits=20, tests=1000), tests=1000)
    assert quote.within.error < 0.8 * free.within.error
    assert (free.later_hit, free.later_miss) == (None, None)


def test_a_quote_tells_the_price_of_each_hit_and_miss_that_will_be_charged(opened):
    session = opened(budget=DELTA)
    call = PrepaidTests(tests=1000, hits=20, misses="0.2")
    quote = session.quote(call)
    run = session.start(call)
    assert quote.later_hit == run.state.price_if_hit == run.quote(count(), above=0).price_if_hit
    assert 1000 * quote.later_miss == pytest.approx(quote.most_charged, rel=1e-12)
    assert quote.later_hit == pytest.approx(0.8 / 20, rel=1e-6)
    assert "Each hit costs 4 % more when it comes; this cost includes all misses, 0.02 % each" in str(quote)
    before = session.spent.share
    run.ask(count(), above=-(10**6))
    assert session.spent.share - before == pytest.approx(quote.later_hit)


@pytest.mark.parametrize("how", [{}, {"value": "0.25"}, {"part": "0.3", "confidence": "0.99"}])
def test_the_default_share_is_the_best_one(opened, how):
    session = opened(budget=DELTA)
    best = session.quote(PrepaidTests(tests=1000, hits=20, **how))
    others = [
        session.quote(PrepaidTests(tests=1000, hits=20, **(how | {"misses": share}))).within.error
        for share in ("0.01", "0.1", "0.2", "0.3", "0.4", "0.6")
    ]
    assert best.within.error <= min(others) + 1
    assert best.within.error < others[0] - 5


def test_means_are_tested_in_their_own_units_and_have_no_values(opened):
    session = opened(budget=Budget(epsilon=2000, delta=1e-6), privacy_unit=None)
    average = mean("cost", bounds=(0, 60))
    truth = session.release(average, epsilon=500).value
    run = run_of(session, hits=4, part="0.2")
    assert run.ask(average, above=int(truth) - 5)
    assert not run.ask(average, above=int(truth) + 6)
    valued = run_of(session, hits=4, part="0.2", value="0.2")
    before = len(session.history)
    with pytest.raises(InvalidQuery, match="a mean has no fresh value"):
        valued.ask(average, above=1)
    assert len(session.history) == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"hits": 41}, "hits must be at most tests"),
        ({"hits": 0}, "hits"),
        ({"tests": 0}, "tests"),
        ({"tests": 1.5}, "tests"),
        ({"misses": 0}, "misses"),
        ({"misses": 1}, "misses"),
        ({"part": 1}, "part"),
        ({"value": 0}, "value"),
        ({"confidence": 1}, "confidence"),
        ({"tests": 10**14, "hits": 10**14}, "too small for any test"),
        ({"part": "1e-18"}, "too small for any test"),
        ({"misses": "0.9", "value": "0.9"}, "smaller part for misses"),
        ({"call": 1}, "not known"),
    ],
)
def test_bad_openings_charge_nothing(opened, given, told):
    session = opened(budget=DELTA)
    with pytest.raises(InvalidParameter, match=told):
        session.start(PrepaidTests(**({"tests": 40, "hits": 8} | given)))
    assert session.history == []


@pytest.mark.parametrize(
    "asked",
    [
        lambda run: run.ask("count", above=5),
        lambda run: run.ask(count("nobody > 3"), above=5),
        lambda run: run.ask(count(), above="many"),
        lambda run: run.ask(chary.sum("cost", bounds=(0, 10), grid="0.5"), above=5),
        lambda run: run.ask(mean("cost", bounds=(0, 10)), above=5),
        lambda run: run.ask(mean("cost", bounds=(0, 60), max_rows_per_unit=1).by("clinic", CLINICS), above=5),
    ],
)
def test_bad_questions_use_up_nothing(opened, asked):
    session = opened(budget=DELTA)
    run = run_of(session)
    charged = spent(session)
    with pytest.raises((InvalidParameter, InvalidQuery)):
        asked(run)
    assert (run.state.left, spent(session), len(session.history)) == (40, charged, 1)


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=1)}, {"filter": "exact", "grain": "0.05"}])
def test_other_filters_name_the_alternative(opened, options):
    session = opened(**({"budget": DELTA} | options))
    with pytest.raises(NotPriced, match="start SparseVector"):
        run_of(session)
    assert session.history == []


def test_misses_that_do_not_fit_are_refused(opened):
    session = opened(budget=DELTA)
    run_of(session, misses="0.6")
    with pytest.raises(BudgetExceeded, match="60 % of the budget"):
        run_of(session, misses="0.6")
    assert len(session.history) == 1


def test_the_charges_are_read_from_the_ledger_and_not_found_anew(opened, tmp_path, monkeypatch):
    """Another processor may find another best share: what was paid decides."""
    place = tmp_path / "visits.ledger"
    session = opened(budget=DELTA, ledger=place)
    run = run_of(session, confidence="0.9")
    terms = run.agreed
    session.close()
    again = opened(ledger=place)
    monkeypatch.setattr("chary.calls.prepaid_tests.best_share", lambda width: Fraction(1, 2))
    resumed = again.resume(run.call)
    assert resumed.agreed == terms
    assert question(again, resumed, count(), 3).price(None).hit.main == terms.charges.hit


def test_the_last_test_is_answered_once_when_another_question_takes_it_in_between(opened, monkeypatch):
    """The outcome of the slower one is thrown away unseen, its reservation is given back."""
    session = opened(budget=DELTA)
    run = run_of(session, tests=2, hits=2)
    run.ask(count(), above=FAR)
    charged, taken = spent(session), []
    in_between(monkeypatch, "agreed_test", lambda: taken.append(run.ask(count(), above=FAR)))
    with pytest.raises(BudgetExceeded, match="0 of the 2 tests"):
        run.ask(count(), above=FAR)
    assert [answer.tests_left for answer in taken] == [0]
    assert spent(session) == charged
    assert [str(entry.state) for entry in session.history[2:]] == ["voided", "settled"]


def test_a_question_that_others_always_outrun_is_told_so_and_charged_nothing(opened, monkeypatch):
    session = opened(budget=DELTA)
    run = run_of(session)
    charged, ran, busy = spent(session), Spine._run, []

    def outrun(self, running):
        found = ran(self, running)
        if not busy:
            busy.append(True)
            run.ask(count(), above=FAR)
            busy.clear()
        return found

    monkeypatch.setattr(Spine, "_run", outrun)
    with pytest.raises(SecretMoved):
        run.ask(count(), above=-FAR)
    assert spent(session) == charged
    assert run.state.left == 40 - ATTEMPTS
    assert str(session.history[1].state) == "voided"


def test_two_runs_side_by_side_are_apart(opened):
    session = opened(budget=DELTA)
    first, second = (run_of(session, part="0.3") for _ in range(2))
    first.ask(count(), above=FAR)
    second.ask(EVERY, above=FAR)
    assert (first.state.left, second.state.left) == (39, 37)
    assert first.spent == second.spent


def test_tests_that_no_table_could_make_right_are_refused_before_their_misses_are_paid(opened):
    session = opened(budget=DELTA)
    for how in ({"confidence": "0." + "9" * 40}, {"tests": 10**40, "hits": 2}, {"tests": 10**300, "hits": 2}):
        with pytest.raises(InvalidParameter, match="fewer tests"):
            run_of(session, **how)
    assert session.history == []


def test_a_part_for_misses_that_pays_for_none_is_refused(opened):
    session = opened(budget=Budget(epsilon=1, delta=1e-6))
    with pytest.raises(InvalidParameter, match="too small to pay for misses"):
        session.start(PrepaidTests(tests=1000, hits=20, misses="1e-16"))
    assert session.history == []
