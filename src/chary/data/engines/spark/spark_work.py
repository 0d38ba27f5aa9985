"""One session of Spark: locked, silent about values when it fails, and stopped by Ctrl-C."""

import itertools
import logging
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa

from chary.data.engines.spark.spark_settings import own_session
from chary.data.silence import quietly
from chary.errors import EngineFailure

ROWS: Final = "chary_rows"
BATCH: Final = "chary_batch"
CANDIDATE: Final = "chary_candidate"
Columns = Mapping[str, tuple[str, Any]]
_OURS: Final = "chary-spark"
# The package writes there what an error says before it raises it.
_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_ARROW: Final = {
    "int64": pa.int64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
_numbers = itertools.count()


class SparkWork:
    """A session of its own in which the temporary view `chary_rows` are the rows that queries read.

    All runs under one lock, and in one other thread: an interruption is heard at once, cancels what runs, and leaves
    no answer half read.
    """

    def __init__(self, session: Any) -> None:
        """Beside a user's session, which stays as it is."""
        _be_silent()
        self._lock = threading.RLock()
        self._closed = False
        self._unused: deque[str] = deque()
        self._views = {ROWS, BATCH, CANDIDATE}
        self._tag = f"{_OURS}-{next(_numbers)}"
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=_OURS)
        self.session = self._run(lambda: own_session(session))
        self._run(lambda: self.session.addTag(self._tag))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing else is done meanwhile; `EngineFailure` once it is closed."""
        with self._lock:
            if self._closed:
                raise EngineFailure("the table is closed")
            yield

    def ask(self, work: Callable[[Any], Any], doing: str) -> Any:
        """What `work` finds in the session; if it fails, `EngineFailure` tells what it was doing, and no value."""
        with self.held():
            failure = EngineFailure(f"the engine failed while it {doing}")
            return quietly(lambda: self._run(lambda: work(self.session)), failure)

    def read(self, sql: str, doing: str) -> pa.Table:
        """The rows of a query."""
        return self.ask(lambda session: session.sql(sql).toArrow(), doing)

    def offer(self, name: str, columns: Columns) -> None:
        """Make a small temporary view: its columns by name, each as type and values."""
        arrays = {column: pa.array(values, _ARROW[kind]) for column, (kind, values) in columns.items()}

        def make(session: Any) -> None:
            while self._unused:
                gone = self._unused.popleft()
                self._views.discard(gone)
                session.catalog.dropTempView(gone)
            self._views.add(name)
            # Without a hint the rows would be sorted by the keys.
            session.createDataFrame(pa.table(arrays)).hint("broadcast").createOrReplaceTempView(name)

        self.ask(make, "offered the keys")

    def retire(self, name: str) -> None:
        """Let the view go with the next `offer`; safe to call from a finalizer."""
        self._unused.append(name)

    def close(self) -> None:
        """Forget the rows; the session of the user goes on. Closing twice is fine, and so is after Spark has ended."""
        with self._lock:
            if not self._closed:
                self._closed = True
                with suppress(EngineFailure):
                    quietly(lambda: self._run(self._drop), EngineFailure("the engine failed while it was closed"))
                self._worker.shutdown(wait=False)

    def _drop(self) -> None:
        for name in self._views:
            self.session.catalog.dropTempView(name)

    def _run(self, work: Callable[[], Any]) -> Any:
        running = self._worker.submit(work)
        try:
            return running.result()
        except BaseException:
            if not running.done():
                self.session.interruptTag(self._tag)
                wait([running])
            raise


def fresh(kind: str) -> str:
    """A name that no other view of this process has."""
    return f"chary_{kind}_{next(_numbers)}"


def _not_ours(record: logging.LogRecord) -> bool:
    return not str(record.threadName).startswith(_OURS)


def _be_silent() -> None:
    for name in _LOGS:
        logger = logging.getLogger(name)
        if _not_ours not in logger.filters:
            logger.addFilter(_not_ours)
    # All that is handed over or fetched is Arrow.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
