"""Settings of all tests: property tests repeat the same examples and never fail for being slow."""

import multiprocessing

from hypothesis import settings

from tests.children import PRELOADED

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
multiprocessing.set_forkserver_preload(PRELOADED)
