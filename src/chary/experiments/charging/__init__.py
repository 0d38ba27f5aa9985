"""Target charging: what so many hits cost by each bound."""
