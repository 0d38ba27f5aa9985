"""HTTP: admission of requests, strict JSON, middleware."""
