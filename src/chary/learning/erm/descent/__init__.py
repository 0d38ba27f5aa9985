"""Noisy descent: its steps, its sums, its noise."""
