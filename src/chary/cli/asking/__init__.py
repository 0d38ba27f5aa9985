"""Asking a file from the shell: options, the question, the call they make, and what is told."""
