"""Engines: what evaluates queries on rows."""
