"""Settings of all tests: property tests repeat the same examples and never fail for being slow."""

import multiprocessing
import signal

from hypothesis import settings

from tests.children import PRELOADED
from tests.engines.tally import pytest_runtest_logreport, pytest_sessionfinish
from tests.servers.postgres import postgres, postgres_url
from tests.servers.spark import spark

__all__ = ["postgres", "postgres_url", "pytest_runtest_logreport", "pytest_sessionfinish", "spark"]

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
multiprocessing.set_forkserver_preload(PRELOADED)
# Under nohup, in the background and by some runners the suite starts with Ctrl-C ignored, and so would its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
