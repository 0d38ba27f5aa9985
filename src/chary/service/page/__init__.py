"""The web page: the same room as the interface for programs, by another door."""
