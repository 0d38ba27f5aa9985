"""The store of a service: tokens, jobs, alerts, audit log, and their layouts."""
