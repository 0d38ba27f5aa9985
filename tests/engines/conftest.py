import zlib

import pytest

from chary.data import NeighborRelation
from tests.engines.cells import HEAVY, HEAVY_SCHEMA, ROWS, frame
from tests.engines.openers import PARAMETERS, Place, Tested
from tests.engines.tally import PROPERTY

FRAMES = {"cells": lambda: frame(ROWS), "heavy": lambda: frame(HEAVY, HEAVY_SCHEMA)}


def pytest_collection_modifyitems(config, items):
    """Of a slow engine a part of the tests."""
    kept = [item for item in items if _is_asked(item)]
    config.hook.pytest_deselected(items=[item for item in items if not _is_asked(item)])
    items[:] = kept


def _is_asked(item):
    engine = getattr(item, "callspec", None) and item.callspec.params.get("engine")
    return not isinstance(engine, Tested) or zlib.crc32(item.nodeid.encode()) < engine.share * 2**32


@pytest.fixture(scope="session", params=PARAMETERS)
def engine(request):
    return request.param


@pytest.fixture(scope="session")
def opened(engine, tmp_path_factory, request):
    """Opens rows on the engine; whatever is open in the end is closed."""
    place, held = Place(tmp_path_factory.mktemp("engine"), request.getfixturevalue), []

    def opening(arrow, neighbors="add_remove", unit=None, **said):
        held.append(engine.opened(place, arrow, neighbor_relation=NeighborRelation(neighbors, unit), **said))
        return held[-1]

    yield opening
    for table in held:
        table.close()


@pytest.fixture(scope="session")
def shared(opened):
    """The same for rows that nobody adds to, which are opened once."""
    tables = {}

    def found(name, neighbors="add_remove", unit=None):
        if (name, neighbors, unit) not in tables:
            tables[name, neighbors, unit] = opened(FRAMES[name](), neighbors, unit)
        return tables[name, neighbors, unit]

    return found


@pytest.fixture
def tally(request, engine):
    """Counts cases: how many of a form, for these neighbours, under this limit."""
    request.node.user_properties.append((PROPERTY, (engine.name,)))

    def count(form, cases, neighbours="", limit=""):
        request.node.user_properties.append((PROPERTY, (engine.name, form, neighbours, limit, cases)))

    return count
