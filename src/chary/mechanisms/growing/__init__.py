"""Counts that are told at every step."""
