"""Where ledgers are, and how they get elsewhere."""
