"""Python processes of tests, forked from one that has imported chary already: importing it anew takes each a second."""

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack

from tests.paths import ROOT

FORKED = multiprocessing.get_context("forkserver")
PRELOADED = ["chary", "chary.service.command", "pandas", "polars", "pytest"]


class Python:
    """`python -m MODULE ARGUMENTS` or `python -c CODE ARGUMENTS` in the project's folder, used like a `Popen`."""

    def __init__(self, *command):
        told, tells = FORKED.Pipe(duplex=False)
        self._open = ExitStack()
        errors, place = tempfile.mkstemp()
        self._open.callback(os.unlink, place)
        self._errors = self._open.enter_context(os.fdopen(errors))
        self._process = FORKED.Process(target=_run, args=(tells, place, *map(str, command)))
        self._process.start()
        tells.close()
        self._open.enter_context(told)
        self.stdout = self._open.enter_context(os.fdopen(told.fileno(), closefd=False))

    @property
    def returncode(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def communicate(self, timeout=300):
        """What it wrote until it ended, to its standard output and as errors; terminated when that takes too long."""
        with self._open:
            late = threading.Timer(timeout, self._process.terminate)
            late.start()
            out = self.stdout.read()
            self._process.join()
            late.cancel()
            return out, self._errors.read()


def _run(tells, errors, option, what, *arguments):
    os.chdir(ROOT)
    os.dup2(tells.fileno(), 1)
    tells.close()
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = [what, *arguments]
    if option == "-m":
        runpy.run_module(what, run_name="__main__")
    else:
        exec(what, {"__name__": "__main__"})


def killing(step):
    """An `on_step` that kills its process at one step."""
    return lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == step else None


def started(work, *arguments):
    """A process forked from one that has imported everything and opened nothing."""
    child = FORKED.Process(target=work, args=arguments)
    child.start()
    return child


def ended(child, patience=120):
    """How it ended; it is not left behind."""
    child.join(patience)
    if child.is_alive():
        child.kill()
        child.join()
        raise AssertionError("the process took too long")
    return child.exitcode
