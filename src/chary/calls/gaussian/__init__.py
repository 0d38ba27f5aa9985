"""Selection with Gaussian noise, paid for what came out."""
