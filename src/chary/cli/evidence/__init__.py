"""What is shown of the library itself: a demonstration, the papers' figures, audits of calls."""
