"""Rows that are added, and what is kept of each batch."""
