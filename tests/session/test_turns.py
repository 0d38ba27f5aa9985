"""Threads that change the same held state: none is overtaken again and again, and none waits for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError

import pytest

from chary.calls import ContinualCount
from chary.spine import spine, turns
from tests.calls.growing.continual_streams import WARDS, streams
from tests.session.kit import NO_NOISE

THREADS, TIMES = 4, 25


@pytest.fixture
def held():
    """Another thread that works on what call 7 of the dataset visits holds."""
    begun, ended = threading.Event(), threading.Event()

    def work():
        with turns.turn("visits", 7):
            begun.set()
            ended.wait(60)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(work)
        begun.wait(60)
        yield ended
        ended.set()
        task.result()


def entered(*named):
    with turns.turn(*named):
        return True


def test_steps_of_many_threads_are_all_done(opened, monkeypatch):
    monkeypatch.setattr(spine, "ATTEMPTS", 1)
    monkeypatch.setattr(turns, "_PATIENCE", 60)
    counting = streams(opened)(budget=NO_NOISE).start(ContinualCount(WARDS, steps=5000, epsilon=10**7))
    with ThreadPoolExecutor(THREADS) as pool:
        told = list(pool.map(lambda _: counting.ask().step, range(THREADS * TIMES)))
    assert sorted(told) == list(range(1, THREADS * TIMES + 1))


def test_another_thread_is_waited_for(held, monkeypatch):
    monkeypatch.setattr(turns, "_PATIENCE", 60)
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(entered, "visits", 7)
        with pytest.raises(TimeoutError):
            task.result(0.1)
        held.set()
        assert task.result()


def test_nobody_waits_for_ever_nor_for_what_others_hold(held, monkeypatch):
    monkeypatch.setattr(turns, "_PATIENCE", 0.05)
    assert entered("visits", 7)
    assert entered("visits", None)


def test_a_call_within_a_call_does_not_wait_for_itself():
    with turns.turn("visits", 7):
        assert entered("visits", 7)
