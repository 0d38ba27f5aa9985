"""PostgreSQL, on a server: tables stay where they are, and a role that may only read them is enough."""
