"""The layouts of ledgers in PostgreSQL, one file a version; what was once released is never changed again."""
