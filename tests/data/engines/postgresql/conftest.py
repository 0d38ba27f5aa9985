import pytest

from chary.data import NeighborRelation, RowTable


class Clinic:
    """An empty database of its own, with a role that may only read what it is granted."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.role = f"reader_{name}"
        self.run(f"CREATE ROLE {self.role} LOGIN")

    def run(self, *statements):
        """As the superuser; the rows of the last statement."""
        found = []
        for statement in statements:
            found = self.server.execute(statement, self.name)
        return found

    def url(self, user=None, **query):
        """As that role, or another one."""
        return self.server.url(self.name, user or self.role, **query)

    def grant(self, *tables, rights="SELECT"):
        """Let the role do that with these tables."""
        self.run(*(f"GRANT {rights} ON {table} TO {self.role}" for table in tables))


@pytest.fixture
def clinic(postgres):
    made = Clinic(postgres, postgres.database())
    yield made
    postgres.execute(f"DROP DATABASE {made.name} WITH (FORCE)")
    postgres.execute(f"DROP ROLE {made.role}")


@pytest.fixture
def opened(clinic):
    """Opens a table as the role; whatever is open in the end is closed."""
    held = []

    def opening(table="visits", unit=None, neighbors="add_remove", url=None, **said):
        held.append(
            RowTable.open(url or clinic.url(), table=table, neighbor_relation=NeighborRelation(neighbors, unit), **said)
        )
        return held[-1]

    yield opening
    for table in held:
        table.close()
