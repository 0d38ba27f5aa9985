"""Distinct counts that are kept and grow with the table."""
