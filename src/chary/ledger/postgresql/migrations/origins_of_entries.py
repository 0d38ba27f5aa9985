"""Version 3: what an entry was asked through, which is hashed where there is something."""

from pathlib import Path

from alembic import op

from chary.ledger.checkpoint import raw

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the column, empty in all entries that are there, the hash that knows it, and who may fill it: the owner."""
    raw(op.get_bind()).execute(Path(__file__).with_name("origins.sql").read_text())
