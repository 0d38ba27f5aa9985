"""What this package adds to the `chary` command."""
