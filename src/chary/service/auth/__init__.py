"""Access: tokens, roles, OpenID and rate limits."""
