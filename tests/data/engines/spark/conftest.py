import pytest

from chary.data import NeighborRelation, RowTable


@pytest.fixture
def opened(spark):
    """Opens a source on Spark; whatever is open in the end is closed."""
    held = []

    def opening(source, unit=None, **said):
        said = {"engine": spark} | said
        held.append(RowTable.open(source, neighbor_relation=NeighborRelation("add_remove", unit), **said))
        return held[-1]

    yield opening
    for table in held:
        table.close()
