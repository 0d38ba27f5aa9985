"""Public histograms that answer questions and are corrected where they are off."""
