"""Whoever starts the suite, interrupts reach it and its children."""

import subprocess
import sys

import pytest

from tests.paths import ROOT

TOLD = "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; {TOLD}'])"
FORKED = f"from tests.children import Python; print(Python('-c', 'import signal; {TOLD}').communicate()[0], end='')"


@pytest.mark.parametrize("asks", [f"import signal; {TOLD}", IN_A_CHILD, FORKED], ids=["itself", "a child", "a fork"])
def test_an_ignored_interrupt_is_heard_again(asks):
    """As with `nohup`, or in the background of a shell script."""
    code = f"import tests.conftest\n{asks}"
    line = ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
