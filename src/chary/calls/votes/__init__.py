"""Votes: labels, clear ones and agreement."""
