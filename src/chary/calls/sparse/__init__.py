"""Sparse vectors: any number of tests against one hidden threshold."""
