"""The page of a service: forms, charts and figures for people."""
