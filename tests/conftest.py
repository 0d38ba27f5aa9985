"""Settings of all tests: property tests repeat the same examples and never fail for being slow."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
