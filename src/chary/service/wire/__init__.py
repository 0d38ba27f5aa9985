"""What goes over the wire: strict JSON, typed values, problems, the schema of the calls."""
