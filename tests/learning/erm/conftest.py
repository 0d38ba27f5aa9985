"""A session on rows of people, which may grow."""

import pytest

from chary.noise import Seeded
from tests.session.kit import PUBLIC, sessions

from .growing_kit import people


@pytest.fixture
def grown():
    with sessions(**PUBLIC, dataset="people", unsafe_noise=Seeded(1)) as make:
        yield lambda size=1000, **options: make(people(0, size), **options)
