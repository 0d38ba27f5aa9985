"""Private algorithms that callers bring, with priors and targets."""
