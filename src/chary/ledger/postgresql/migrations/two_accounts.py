"""Version 5: the basic account, which adds the pure epsilons of all calls up next to the main one."""

from pathlib import Path

from alembic import op

from chary.ledger.checkpoint import raw

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Add the columns, 0 in all that is there, and the functions that know them."""
    raw(op.get_bind()).execute(Path(__file__).with_name("accounts.sql").read_text())
