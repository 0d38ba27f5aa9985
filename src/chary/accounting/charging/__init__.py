"""Target charging: exact curves, prices of hits, plans."""
