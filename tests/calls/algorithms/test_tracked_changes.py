"""Tracking by sharp tests: what is told anew, what it costs, what an answer that stays says."""

import numpy as np
import pytest

import chary
from chary import Algorithm, Budget, InvalidParameter, NotPriced, count
from chary.calls import OnChange
from chary.calls.thresholds import far_by
from chary.core.plan import Data
from chary.noise import Seeded
from tests.session.kit import PAID, spent, visits

DELTA = Budget(epsilon=1, delta=1e-6)
FINE = Budget(epsilon=10**4, delta=1e-6)


def test_only_a_change_is_charged_also_after_a_restart(opened, tmp_path):
    place, tracked = tmp_path / "visits.ledger", OnChange(count(), step=30, hits=10)
    first = opened(budget=FINE, ledger=place)
    told = first.ask(tracked)
    assert (told.changed, abs(told.value - 51) <= told.error_bar) == (True, True)
    once = spent(first)
    assert not any(first.ask(tracked).changed for _ in range(20))
    assert spent(first) == once
    first.close()
    again = opened(budget=FINE, ledger=place)
    assert not again.ask(tracked).changed
    again.append(visits().assign(patient=lambda rows: rows["patient"] + 10**6))
    moved = again.ask(tracked)
    assert (moved.changed, abs(moved.value - 102) <= moved.error_bar) == (True, True)
    assert again.ask(tracked).value == moved.value


def test_the_first_answer_costs_its_value_and_a_change_the_price_of_a_hit(opened):
    session, tracked = opened(budget=DELTA), OnChange(count(), step=1, price="0.02", value="0.3")
    first = session.quote(tracked)
    assert first.price_if_hit == first.price_if_miss == pytest.approx(0.3 * 0.02, rel=1e-9)
    assert session.ask(tracked).charged.share == pytest.approx(first.price_if_hit)
    later = session.quote(tracked)
    assert (later.price_if_hit, later.price_if_miss) == (pytest.approx(0.02, rel=1e-9), 0)


def sharpness(session, call):
    """How sharply a count is tracked."""
    return call.sharpness(session.spine.filter, 1, count().grid, call.value_share)


def drawn(session, call, prior, values, times):
    """Answers to exact values after this one."""
    bound = call._after(session.spine, prior)
    source = Seeded(5)
    return [[bound.run(Data([value], source, None, None, PAID)).answer for _ in range(times)] for value in values]


def test_the_law_of_a_change_is_that_of_the_table_on_both_sides(opened):
    session, tracked = opened(budget=DELTA), OnChange(count(), step=200, hits=20, tests=100)
    table = far_by(200, sharpness(session, tracked)).table
    for value, answers in zip(
        (700, 860, 1000, 1140, 1300), drawn(session, tracked, 1000, (700, 860, 1000, 1140, 1300), 3000), strict=True
    ):
        chance = float(table.hit_chance(value - 1000))
        hits = sum(answer["hit"] for answer in answers)
        assert abs(hits - 3000 * chance) < 5 * (3000 * chance * (1 - chance)) ** 0.5 + 3
        assert all(answer["value"] == 1000 for answer in answers if not answer["hit"])


def test_a_new_value_is_unbiased_however_near_the_change_was(opened):
    session, tracked = opened(budget=DELTA), OnChange(count(), step=200, hits=20)
    (answers,) = drawn(session, tracked, 1000, (1200,), 4000)
    noisy = np.array([answer["value"] for answer in answers if answer["hit"]])
    sigma = float(sharpness(session, tracked).value_noise(1).sigma_squared) ** 0.5
    assert abs(noisy.mean() - 1200) < 5 * sigma / len(noisy) ** 0.5
    assert abs(noisy.var() / sigma**2 - 1) < 5 * (2 / len(noisy)) ** 0.5


def test_an_answer_that_stays_covers_the_truth_nearly_always(opened):
    """Just outside of its interval a change is told but for at most 2.5 in 100; just inside it is not so sure."""
    session, tracked = opened(budget=DELTA), OnChange(count(), step=200, hits=20)
    bound = tracked._after(session.spine, 1000)
    low, high = bound.present({"value": 1000, "hit": False}, 1).interval
    table = far_by(200, sharpness(session, tracked)).table
    assert 1 - table.hit_chance(int(high) + 1 - 1000) <= 0.025 < 1 - table.hit_chance(int(high) - 1000)
    assert high - 1000 == 1000 - low > 200


def test_totals_are_tracked_on_their_grid(opened):
    session = opened(budget=FINE)
    question = chary.sum("cost", bounds=(0, 100), grid="0.25", max_rows_per_unit=1)
    tracked = OnChange(question, step=900, hits=10)
    told = session.ask(tracked)
    assert told.value * 4 % 1 == 0
    assert abs(told.value - session.release(question, epsilon=3000).value) <= 6 * told.error_bar
    assert not session.ask(tracked).changed


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"question": count(), "step": 10}, "specify the accuracy or the cost"),
        ({"question": count(), "hits": 10}, "step"),
        ({"question": count(), "step": 0, "hits": 10}, "step"),
        ({"question": count(), "step": 5, "hits": 10, "epsilon": 1}, "exclude one another"),
        ({"question": count(), "step": 5, "epsilon": 1, "value": "0.5"}, "belongs to an optimal test"),
        ({"question": Algorithm("five", lambda rows, source: 5, epsilon=1), "hits": 5}, "brings its own epsilon"),
    ],
)
def test_what_says_nothing_or_too_much_is_refused(options, told):
    with pytest.raises(InvalidParameter, match=told):
        OnChange(**options)


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=1)}, {"filter": "exact", "grain": "0.05"}])
def test_other_filters_name_the_alternative(opened, options):
    with pytest.raises(NotPriced, match="ask with epsilon="):
        opened(**({"budget": DELTA} | options)).ask(OnChange(count(), step=5, hits=5))
