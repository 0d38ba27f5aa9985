"""The sparse vector's hidden threshold."""
