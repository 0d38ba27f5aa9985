"""Worst cases: neighbours and questions that show most of each kind of call."""
