"""Forked processes that tell what they do until they are killed: cheap, for all that is imported is there already."""

import json
import os
import select
import signal
import warnings
from collections.abc import Callable

Tell = Callable[..., None]
PIECE = 1 << 16


def forked() -> int:
    """`os.fork`. Later Pythons warn of threads; those of the libraries here wait for work and hold no locks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Child:
    """A process in which `live` runs with a way to tell lines of JSON; it never returns into what forked it.

    What it raises it tells as "broken". Only lines that arrived whole count: whoever is killed while it tells has not.
    """

    def __init__(self, live: Callable[[Tell], None]) -> None:
        self._reading, writing = os.pipe()
        self._text = b""
        self._process = forked()
        if self._process == 0:
            os.close(self._reading)
            _live(live, writing)
        os.close(writing)

    def wait_for(self, lines: int, seconds: float) -> None:
        """Until the child has told so many lines, or is gone, or has told nothing for so long."""
        while self._text.count(b"\n") < lines and select.select([self._reading], [], [], seconds)[0]:
            more = os.read(self._reading, PIECE)
            self._text += more
            if not more:
                return

    def kill(self) -> None:
        os.kill(self._process, signal.SIGKILL)

    def told(self) -> tuple[list[list], bool]:
        """Everything it told until its end, and whether it was killed."""
        while more := os.read(self._reading, PIECE):
            self._text += more
        os.close(self._reading)
        _, status = os.waitpid(self._process, 0)
        return [json.loads(line) for line in self._text.split(b"\n")[:-1]], os.WIFSIGNALED(status)


def _live(live: Callable[[Tell], None], writing: int) -> None:
    def tell(*what: object) -> None:
        os.write(writing, json.dumps(what).encode() + b"\n")

    try:
        live(tell)
    except BaseException as error:
        tell("broken", f"{type(error).__name__}: {error}"[:300])
    finally:
        os._exit(0)
