"""Growing databases: the bounds of [GROW] beside what is measured."""
