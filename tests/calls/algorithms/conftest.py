import pytest


@pytest.fixture
def session(opened):
    return opened(grain="0.02")
