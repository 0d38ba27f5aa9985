"""Many linear questions about the cells of one query: what is measured for them, and how they are put together."""
