"""Selection among many candidates."""
