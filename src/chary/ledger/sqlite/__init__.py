"""The ledger in a file of SQLite."""
