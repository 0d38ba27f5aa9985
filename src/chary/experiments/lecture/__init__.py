"""The lecture notes: attacks on exact answers beside their limits, and accuracy bounds beside what is measured."""
