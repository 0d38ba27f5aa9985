"""What a service does behind its routes and pages."""
