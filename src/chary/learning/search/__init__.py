"""Private search of hyper-parameters."""
