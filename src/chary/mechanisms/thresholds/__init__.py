"""Tests against a bar, held outcomes, boundaries, counters."""
