"""Public histograms and small databases: how many answers, how accurate."""
