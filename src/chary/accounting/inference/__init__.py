"""What may be concluded from noisy values, given how they came to be published: intervals, p-values, lists."""
