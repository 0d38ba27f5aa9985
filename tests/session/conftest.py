import pytest

import chary
from tests.session.kit import USUAL, visits


@pytest.fixture
def opened():
    """Open sessions on the visits; whatever is still open in the end is closed."""
    made = []

    def make(rows=None, **options):
        given = {"privacy_unit": "patient", "ledger": ":memory:", "budget": USUAL} | options
        made.append(chary.open(visits() if rows is None else rows, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture(params=["memory", "sql"])
def place(request, tmp_path):
    """Where a ledger is kept: nowhere, or in a file."""
    return ":memory:" if request.param == "memory" else tmp_path / "visits.ledger"
