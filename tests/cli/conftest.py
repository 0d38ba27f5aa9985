"""Shared by the tests of commands: run one as a user types it."""

import pytest

from chary.cli import run
from tests.cli.kit import SECRET, write_visits
from tests.session import kit


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run one command line in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def called(line, *more):
        code = run([*line.split(), *more])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


@pytest.fixture
def visits(tmp_path):
    return write_visits(tmp_path / "visits.csv", 6000, SECRET)


@pytest.fixture
def patients(tmp_path):
    """The visits that sessions are tested on, of which each kind has a sample."""
    place = tmp_path / "patients.csv"
    kit.visits().to_csv(place, index=False)
    return place
