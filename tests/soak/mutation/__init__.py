"""Small wrong changes to the code, and whether a test sees them."""
