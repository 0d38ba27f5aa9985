"""Growing databases: schedules, rounds, running counts."""
