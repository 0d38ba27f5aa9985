"""Version 6: parts of partitions, of which the most expensive count, and the charges that name them."""

from pathlib import Path

from alembic import op

from chary.ledger.checkpoint import raw

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Add the column, empty in all entries that are there, the tables, and the functions that know them."""
    raw(op.get_bind()).execute(Path(__file__).with_name("parts.sql").read_text())
