"""The HTTP interface: routes made from the calls."""
