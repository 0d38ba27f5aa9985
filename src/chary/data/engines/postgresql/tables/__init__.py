"""Tables of a server: which may be read, and how their columns become those that are asked."""
