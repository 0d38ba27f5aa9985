"""Version 1: the tables, and the triggers that hold them together."""

from pathlib import Path

from alembic import op

from chary.ledger.checkpoint import raw

revision = "1"
down_revision = None


def upgrade() -> None:
    """Lay out an empty ledger; the search path names its schema alone."""
    raw(op.get_bind()).execute(Path(__file__).with_name("tables.sql").read_text())
