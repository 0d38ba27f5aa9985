"""Selection with real Gaussian noise."""
