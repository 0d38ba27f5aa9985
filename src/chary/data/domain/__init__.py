"""Public keys and universes."""
