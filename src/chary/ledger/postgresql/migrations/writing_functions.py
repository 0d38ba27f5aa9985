"""Version 2: the functions through which all is written, so that a role can be kept from the tables."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

from chary.ledger.checkpoint import raw

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add the functions, and give them to nobody but the owner."""
    raw(op.get_bind()).execute(Path(__file__).with_name("functions.sql").read_text())
    schema = op.get_bind().execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    op.get_bind().exec_driver_sql(f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC")
