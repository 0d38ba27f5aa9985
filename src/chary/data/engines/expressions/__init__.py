"""From queries to expressions that every engine of Ibis can run, and what engines must say for themselves."""
