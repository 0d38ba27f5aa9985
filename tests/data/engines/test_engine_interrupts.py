"""Ctrl-C stays Ctrl-C, wherever the engine is at that moment, and leaves it usable."""

import os
import signal
import threading

import duckdb
import pytest

from chary.data.engines.duckdb.connection import Access, Database
from chary.errors import EngineError, quietly

FAILURE = EngineError("the engine failed")
LONG = "SELECT sum(range) FROM range(200000000)"


def told(error):
    def work():
        raise error

    with pytest.raises(BaseException) as raised:  # noqa: PT011 - which one is what is asked
        quietly(work, FAILURE)
    assert (raised.value.__cause__, raised.value.__context__, raised.value.args[1:]) == (None, None, ())
    return raised.type


@pytest.fixture
def engine():
    made = Database(Access(), lambda connection: connection.execute("CREATE TEMP TABLE chary_rows AS SELECT 1 AS one"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt,
        RuntimeError("Query interrupted"),
        duckdb.InterruptException,
        duckdb.InvalidInputException("Invalid Input Error: exporting a stream from keys failed: KeyboardInterrupt: "),
    ],
)
def test_what_the_engine_says_of_an_interruption_is_an_interruption(error):
    assert told(error) is KeyboardInterrupt


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Query interrupted", 1),
        RuntimeError("no"),
        ValueError("Query interrupted"),
        duckdb.ConversionException("Query interrupted"),
    ],
)
def test_whatever_else_goes_wrong_is_a_failure(error):
    assert told(error) is EngineError


def test_a_signal_while_the_engine_reads_an_object_of_python(engine):
    class Rows:
        def __arrow_c_stream__(self, requested_schema=None):
            signal.raise_signal(signal.SIGINT)

    with engine.connection() as connection:
        with pytest.raises(KeyboardInterrupt):
            quietly(lambda: connection.from_arrow(Rows()).fetchall(), FAILURE)
        assert connection.execute("SELECT one FROM chary_rows").fetchall() == [(1,)]


def test_a_signal_inside_of_a_query(engine):
    with engine.connection() as connection:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            quietly(lambda: connection.execute(LONG).fetchall(), FAILURE)
    with engine.connection() as connection:
        assert connection.execute("SELECT one FROM chary_rows").fetchall() == [(1,)]


@pytest.mark.parametrize("broken", [False, True])
def test_a_transaction_that_is_interrupted_is_rolled_back_and_tells_the_interruption(engine, broken):
    def work(connection):
        connection.execute("INSERT INTO chary_rows VALUES (2)")
        if broken:
            connection.rollback()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.write(work)
    with engine.connection() as connection:
        assert connection.execute("SELECT one FROM chary_rows").fetchall() == [(1,)]
