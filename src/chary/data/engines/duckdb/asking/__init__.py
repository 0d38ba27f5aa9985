"""Queries compiled to SQL, and what reads rows."""
