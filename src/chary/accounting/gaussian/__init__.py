"""Gaussian noise: exact curves, and losses of selection with it."""
