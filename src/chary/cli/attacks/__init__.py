"""Attacks as demonstrations, at the shell."""
