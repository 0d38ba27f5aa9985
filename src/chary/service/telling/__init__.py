"""Telling: what standing questions found, in a feed and by webhooks."""
