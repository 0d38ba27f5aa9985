import pytest


@pytest.fixture
def replaced(opened):
    """Sessions in which the number of units is public."""
    return lambda **options: opened(neighbors="replace", **options)
