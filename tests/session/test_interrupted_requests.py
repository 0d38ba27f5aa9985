"""Ctrl-C at any instruction between reserve and settle: the request key can be used at once."""

import signal
import sys

import pytest

from chary import Budget, count
from chary.core import transaction as spine

EPSILON = "0.02"
# Where a call is taken up and let go; what happens elsewhere in it goes through one of these.
WATCHED = ("spine.py", "claims.py", "ledger_file.py", "interruption.py", "records.py")
STRIDE = 5


class Pressed:
    """A tracer that presses Ctrl-C before one instruction of the watched modules."""

    def __init__(self, at=None):
        self.at, self.seen = at, 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.endswith(WATCHED):
            return self._trace
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.seen += 1
            if self.seen == self.at:
                signal.raise_signal(signal.SIGINT)
        return self._trace


def ask(session, key):
    return session.release(count(), epsilon=EPSILON, request=key)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_instruction_leaves_a_key_in_flight(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(spine, "PATIENCE", 0.0)
    session = opened(ledger=tmp_path / "visits.ledger", budget=Budget(epsilon=1000))
    ask(session, "first")
    with Pressed() as counted:
        ask(session, "counted")
    assert counted.seen > 300
    kept, answered = [], 0
    for at in range(1, counted.seen, STRIDE):
        try:
            with Pressed(at):
                ask(session, f"key {at}")
        except KeyboardInterrupt as error:
            kept.append(error)  # as a prompt keeps it, with all of its frames
        answered += ask(session, f"key {at}") is not None
    assert len(kept) >= 0.9 * answered
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
