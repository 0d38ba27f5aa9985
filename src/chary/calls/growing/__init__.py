"""Tables that grow: schedules, rounds of tests, counts told again and again."""
