"""A session on rows of people, which may grow."""

import pytest

import chary
from chary.noise import Seeded
from tests.session.kit import USUAL

from .growing_kit import PUBLIC, people


@pytest.fixture
def grown():
    made = []

    def make(size=1000, **options):
        usual = {"ledger": ":memory:", "budget": USUAL, "dataset": "people", "unsafe_noise": Seeded(1)}
        made.append(chary.open(people(0, size), **PUBLIC | usual | options))
        return made[-1]

    yield make
    for session in made:
        session.close()
