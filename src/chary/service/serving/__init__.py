"""What is served: datasets from a chary.toml, opened once for all analysts, and the running of what they ask."""
