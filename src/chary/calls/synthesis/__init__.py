"""Synthetic databases and histograms for a list of queries."""
