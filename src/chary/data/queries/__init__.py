"""Queries: functions from a database to exact integers."""
