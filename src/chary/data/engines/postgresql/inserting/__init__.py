"""Rows that are added to a table of a server, and what is kept of each batch."""
