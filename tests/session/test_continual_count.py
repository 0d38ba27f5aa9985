"""A count told at step after step: what is told, that it is paid once, and that no step is told twice."""

from fractions import Fraction

import pytest

from chary import UnknownHeld
from chary.accounting import ZeroConcentrated
from chary.ledger import SqlLedger
from tests.session.continual_streams import EXACT, STARVED, WARDS, exactly, rows, streams
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import NO_NOISE, spent


@pytest.fixture
def grown(opened):
    return streams(opened)


@pytest.mark.parametrize("terms", EXACT)
def test_without_noise_each_step_tells_the_counts_after_its_batch(grown, terms):
    session = grown(budget=NO_NOISE)
    wards, first = (
        session.continual_count(WARDS, steps=9, **terms),
        session.continual_count("ward = 0", steps=9, **terms),
    )
    assert wards.latest is None
    size = 100
    for step, more in enumerate([0, 1, 50, 0, 700, 3, 2, 1, 90], 1):
        session.append(rows(size, size + more))
        size += more
        told = wards.step()
        assert (told.step, told.size, told.values, told.version) == (step, size, exactly(size), step + 1)
        assert told.as_dict() == {(ward,): number for ward, number in enumerate(exactly(size))}
        assert first.step().value == exactly(size)[0]
        assert wards.latest == told
    assert [told.step for told in wards.results] == list(range(1, 10))
    assert wards.steps_left == 0


@pytest.mark.parametrize("terms", STARVED)
def test_all_steps_are_charged_at_the_opening(grown, terms):
    session = grown()
    counting = session.continual_count("ward = 1", steps=20, **terms)
    paid = spent(session)
    assert paid.main > 0
    for size in range(100, 400, 60):
        session.append(rows(size, size + 60))
        counting.step()
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok
    if "rho" in terms:
        assert paid == session.spine.filter.price(ZeroConcentrated(terms["rho"])).hit


def test_a_repeated_request_tells_the_same_step(grown):
    session = grown()
    counting = session.continual_count(steps=9, epsilon="0.4", request="opening")
    assert session.continual_count(steps=9, epsilon="0.4", request="opening").call == counting.call
    first, second = counting.step(request="a"), counting.step(request="b")
    assert counting.step(request="a") == first
    assert (first.step, second.step, counting.steps_left) == (1, 2, 7)


def test_rows_that_come_and_go_have_no_size_and_need_less_noise_by_keys(grown):
    options = {"relation": "add/remove", "budget": NO_NOISE}
    session = grown(**options)
    wards = session.continual_count(WARDS, steps=9, epsilon=10**5)
    told = wards.step()
    assert (told.size, told.values) == (None, exactly(100))
    assert wards.step().size is None
    followed = session.continual_count(steps=9, epsilon=10**5, on_append=True)
    session.append(rows(100, 160))
    assert [told.value for told in followed.results] == [100, 160]
    replaced = grown().continual_count(WARDS, steps=9, epsilon="0.1")
    secret = grown(relation="add/remove").continual_count(WARDS, steps=9, epsilon="0.1")
    assert 1.9 < replaced.deviation(1) / secret.deviation(1) < 2.1


def test_an_interrupted_opening_keeps_nothing(grown):
    stop = Interruption("ran")
    session = grown(on_step=stop)
    with pytest.raises(Stop):
        session.continual_count(steps=9, epsilon="0.1")
    stop.armed = False
    with pytest.raises(UnknownHeld, match="interrupted"):
        session.continual_count(call=session.history[-1].call)


def test_the_handle_and_its_secret_show_nothing(grown):
    session = grown(budget=NO_NOISE)
    for terms in ({"epsilon": 10**5}, {"rho": 10**5}):
        counting = session.continual_count("ward = 0", steps=9, **terms)
        counting.step()
        assert "34" not in repr(counting) + repr(counting._progress()) + repr(counting._asked(only_new=False))


def test_errors_are_known_before_anything_is_read(grown):
    seen = []
    session = grown(on_step=seen.append)
    counting = session.continual_count(steps=1000, epsilon=Fraction(1, 2))
    seen.clear()
    assert counting.error_bar(1) < counting.error_bar(17) < counting.worst_error()
    assert counting.error_bar(17) < counting.error_bar(17, confidence=0.99)
    assert counting.deviation(1) * 1.5 < counting.error_bar(1) < counting.deviation(1) * 2.2
    assert seen == []
    assert counting.step().error_bar == counting.error_bar(1)


def test_what_is_kept_for_a_tree_does_not_grow_with_the_steps(grown, tmp_path):
    session = grown(ledger=tmp_path / "wards.ledger")
    counting, sizes = session.continual_count(steps=1000, epsilon="0.1"), []
    for _ in range(60):
        counting.step()
        sizes.append(len(SqlLedger.secret(session.spine.ledger, counting.call)))
    assert max(sizes) < 300
