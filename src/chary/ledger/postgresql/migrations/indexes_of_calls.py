"""Version 4: indexes that find calls of one analyst or of some kinds, and notes, among all others."""

from pathlib import Path

from alembic import op

from chary.ledger.checkpoint import raw

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Make the indexes."""
    raw(op.get_bind()).execute(Path(__file__).with_name("indexes.sql").read_text())
