"""Streams in which each unit pays for itself."""
