"""The client: the same questions and answers as a session, asked of a service."""
