"""Spark: a session of the user, or one on this machine."""
