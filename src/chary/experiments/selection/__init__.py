"""Selection with Gaussian noise: the figures of [GAUSS], and what else keeps the same promise."""
