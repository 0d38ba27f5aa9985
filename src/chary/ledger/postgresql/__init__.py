"""The ledger in PostgreSQL: many machines, one budget."""
