"""Sketches, and estimators of streams."""
