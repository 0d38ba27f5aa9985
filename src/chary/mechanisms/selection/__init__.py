"""Choosing one or a few of many candidates."""
