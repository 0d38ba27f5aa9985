"""The best adaptive analyst against the real charging code of every kind that holds counters."""
