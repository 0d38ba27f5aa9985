"""The server of tests itself: it is there, it survives being killed, and it leaves nothing behind."""

import os

import pytest

from tests.servers.postgres import running

psycopg = pytest.importorskip("psycopg")


def test_every_test_has_a_database_of_its_own(postgres, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE rows (number bigint)")
        assert connection.execute("SELECT count(*) FROM rows").fetchone() == (0,)
    assert postgres.execute("SELECT to_regclass('rows')") == [(None,)]


def test_what_was_committed_is_there_after_a_kill_and_the_folder_goes_with_the_server():
    with running() as server:
        server.execute("CREATE TABLE rows AS SELECT 7 AS number")
        first = server.pid
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            server.connect()
        server.start()
        assert server.pid != first
        assert server.execute("SELECT number FROM rows") == [(7,)]
        server.stop()
        server.start()
        folder, last = server.folder, server.pid
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)
