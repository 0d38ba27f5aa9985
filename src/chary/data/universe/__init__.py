"""Public universes of cells, and the queries and counts that are made over them."""
