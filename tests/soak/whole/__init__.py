"""Whole sessions on two neighbouring databases, played by adaptive analysts through the public API."""
