"""Questions to Spark: plans, values in order, elements, living units."""
