"""Runs tests on a mutant in a forked child: nothing on disk changes."""

import importlib.abc
import importlib.util
import math
import os
import resource
import signal
import sys
import time
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from tests.paths import ROOT
from tests.soak.children import forked
from tests.soak.mutation.mutator import Mutant, mutated

POLL_SECONDS = 0.02
WAITING = 20
# Where nothing was found to be run, nothing has seen the mutant.
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


class _Loader(SourceFileLoader):
    """Loads a module from a changed tree instead of its file."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(mutated(Path(self.path).read_text(), self._mutant), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, root: Path, mutant: Mutant) -> None:
        self._file, self._mutant = root / mutant.path, mutant
        self._name = ".".join([root.name, *Path(mutant.path).with_suffix("").parts])

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._file), self._mutant)
        return importlib.util.spec_from_file_location(fullname, self._file, loader=loader)


def trial(package: Path, mutant: Mutant | None, tests: list[Path], seconds: float) -> tuple[str, float]:
    """ "passed", "failed" or "too long", and how many seconds of a processor it took; without a mutant as it is.

    The limit counts the processor's seconds, so that a busy machine kills no mutant; one that only waits gets longer.
    """
    child, begun = forked(), time.monotonic()
    if child == 0:
        _test(package, mutant, tests, seconds)
    while time.monotonic() - begun < WAITING * seconds:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return _verdict(status), usage.ru_utime + usage.ru_stime
        time.sleep(POLL_SECONDS)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "too long", seconds


def _verdict(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "too long"
    return "passed" if os.WIFEXITED(status) and os.WEXITSTATUS(status) in PASSED else "failed"


def _test(package: Path, mutant: Mutant | None, tests: list[Path], seconds: float) -> None:
    """The child: it imports the package anew, the mutant in its place, and never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        used = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds), resource.RLIM_INFINITY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        for name in [name for name in sys.modules if name.partition(".")[0] in (package.name, "tests")]:
            del sys.modules[name]
        sys.path.insert(0, str(package.parent))
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(package, mutant))
        # The options of the project may start other processes, which would not have the mutant.
        options = ["-o", "addopts=", "--doctest-modules", "-x", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
        code = pytest.main([*options, *map(str, tests)])
    finally:
        os._exit(int(code))
