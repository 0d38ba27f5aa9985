"""What a session may ask: tables, series of counts, votes."""
