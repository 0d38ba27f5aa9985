"""Order statistics and randomized response."""
