"""Public histograms and small databases fitted to answers."""
