"""The predicate language: a safe, total subset of SQL conditions."""
