import importlib

import pytest

from tests.paths import ROOT


@pytest.fixture
def run_beside(monkeypatch):
    """A benchmark as it is run, which finds its neighbours in its own folder."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module
