"""A count told at step after step: what is told, that it is paid once, and that no step is told twice."""

from fractions import Fraction

import pytest

from chary.accounting import ZeroConcentrated
from chary.calls import ContinualCount
from tests.calls.growing.continual_streams import EXACT, STARVED, WARDS, exactly, rows
from tests.session.kit import ADDRESS, NO_NOISE, spent


@pytest.mark.parametrize("terms", EXACT)
def test_without_noise_each_step_tells_the_counts_after_its_batch(grown, terms):
    session = grown(budget=NO_NOISE)
    wards, first = (
        session.start(ContinualCount(WARDS, steps=9, **terms)),
        session.start(ContinualCount("ward = 0", steps=9, **terms)),
    )
    assert wards.state.latest is None
    size = 100
    for step, more in enumerate([0, 1, 50, 0, 700, 3, 2, 1, 90], 1):
        session.append(rows(size, size + more))
        size += more
        told = wards.ask()
        assert (told.step, told.size, told.values, told.version) == (step, size, exactly(size), step + 1)
        assert told.value == dict(enumerate(exactly(size)))
        assert first.ask().value == exactly(size)[0]
        assert wards.state.latest == told
    assert [told.step for told in wards.state.results] == list(range(1, 10))
    assert wards.state.steps_left == 0


@pytest.mark.parametrize("terms", STARVED)
def test_all_steps_are_charged_at_the_opening(grown, terms):
    session = grown()
    counting = session.start(ContinualCount("ward = 1", steps=20, **terms))
    paid = spent(session)
    assert paid.main > 0
    for size in range(100, 400, 60):
        session.append(rows(size, size + 60))
        counting.ask()
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok
    if "rho" in terms:
        assert paid == session.spine.filter.price(ZeroConcentrated(terms["rho"])).hit


def test_rows_that_come_and_go_have_no_size_and_need_less_noise_by_keys(grown):
    options = {"neighbors": "add_remove", "budget": NO_NOISE}
    session = grown(**options)
    wards = session.start(ContinualCount(WARDS, steps=9, epsilon=10**5))
    told = wards.ask()
    assert (told.size, told.values) == (None, exactly(100))
    assert wards.ask().size is None
    followed = session.start(ContinualCount(steps=9, epsilon=10**5), follow=True)
    session.append(rows(100, 160))
    assert [told.value for told in followed.state.results] == [100, 160]
    replaced = grown().start(ContinualCount(WARDS, steps=9, epsilon="0.1"))
    secret = grown(neighbors="add_remove").start(ContinualCount(WARDS, steps=9, epsilon="0.1"))
    assert 1.9 < replaced.state.deviation(1) / secret.state.deviation(1) < 2.1


def test_the_handle_and_its_secret_show_nothing(grown):
    session = grown(budget=NO_NOISE)
    for terms in ({"epsilon": 10**5}, {"rho": 10**5}):
        counting = session.start(ContinualCount("ward = 0", steps=9, **terms))
        counting.ask()
        asked = counting.plan()
        for shown in (counting, counting._progress(), asked):
            assert "34" not in ADDRESS.sub("", repr(shown))


def test_errors_are_known_before_anything_is_read(grown):
    seen = []
    session = grown(on_step=seen.append)
    counting = session.start(ContinualCount(steps=1000, epsilon=Fraction(1, 2)))
    seen.clear()
    assert counting.state.error_bar(1) < counting.state.error_bar(17) < counting.state.worst_error()
    assert counting.state.error_bar(17) < counting.state.error_bar(17, confidence=0.99)
    assert counting.state.deviation(1) * 1.5 < counting.state.error_bar(1) < counting.state.deviation(1) * 2.2
    assert seen == []
    assert counting.ask().error_bar == counting.state.error_bar(1)


def test_what_is_kept_for_a_tree_does_not_grow_with_the_steps(grown, tmp_path):
    session = grown(ledger=tmp_path / "wards.ledger")
    counting, sizes = session.start(ContinualCount(steps=1000, epsilon="0.1")), []
    for _ in range(60):
        counting.ask()
        sizes.append(len(session.spine.ledger.secret(counting.call)))
    assert max(sizes) < 2000
