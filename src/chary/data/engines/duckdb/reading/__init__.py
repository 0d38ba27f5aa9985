"""From files and frames to a relation of the engine: sources, types, texts."""
