"""Standing questions: asked again by the service itself, at every append or at a time."""
