"""Reports that people randomize on their own devices, and what a collector learns from many of them."""
