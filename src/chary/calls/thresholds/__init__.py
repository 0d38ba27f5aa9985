"""Thresholds: what is free below the bar and charged at or above it."""
