"""Sparse vectors: how epsilon is split, and how far off they may be."""
