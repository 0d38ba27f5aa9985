import pytest

from chary import Budget
from chary.mechanisms import GaussianThreshold


@pytest.fixture
def pure(opened):
    """Sessions under the pure filter."""
    return lambda epsilon=1, **options: opened(budget=Budget(epsilon=epsilon), **options)


@pytest.fixture
def scripted(monkeypatch):
    """Outcomes chosen by the test; the state is handed on as it is."""
    outcomes = []
    monkeypatch.setattr(GaussianThreshold, "step", lambda self, value, held, source: (outcomes.pop(0), held))
    return outcomes
