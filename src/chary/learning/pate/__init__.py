"""Private labels from teachers on disjoint shards."""
