"""`chary account`: calculators of privacy and accuracy."""
