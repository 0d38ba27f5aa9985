"""Sessions of Spark: started or taken over, their settings, and work done in them without data in errors."""

import importlib
import itertools
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa

from chary.data.engines.sql import ROWS, SmallTable, SmallTables
from chary.errors import EngineError, InvalidParameter, quietly

# From the name of an engine to a session of Spark.

_LOCAL: Final = re.compile(r"spark|local(\[[0-9*]+\])?")
_MASTER: Final = re.compile(r"(spark|k8s)://.+|yarn")
# Nothing listens beyond this machine, and nothing is written to the error stream: it could hold values.
_ALONE: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
_QUIET: Final[Mapping[str, str]] = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
_NAMES: Final = (
    'the engine is "spark", "local[2]", "spark://host:7077", "yarn", "k8s://host", "sc://host" or an open SparkSession'
)


def is_session(engine: Any) -> bool:
    """Whether it is a session of Spark, of either kind.

    >>> is_session("spark")
    False
    """
    return type(engine).__module__.startswith("pyspark.sql") and type(engine).__name__ == "SparkSession"


def is_name(engine: Any) -> bool:
    """Whether it is the name of an engine of Spark.

    >>> is_name("local[2]"), is_name("sc://host:15002"), is_name("duckdb")
    (True, True, False)
    """
    named = isinstance(engine, str) and (_LOCAL.fullmatch(engine) or _MASTER.fullmatch(engine))
    return bool(named) or (isinstance(engine, str) and engine.startswith("sc://"))


def session_of(engine: Any) -> Any:
    """The session of that name, started where there is none yet, or the session itself.

    A process has one Spark, and it lives as long as the process: where the user has a session already, "spark" is that
    one. `InvalidParameter` without the package or for another name, `EngineError` where none can be started.
    """
    if is_session(engine):
        return engine
    if not is_name(engine):
        raise InvalidParameter(_NAMES)
    return quietly(
        lambda: _started(engine), EngineError("Spark could not be started or reached: see docs/howto/sources.md#spark")
    )


def _started(engine: str) -> Any:
    sessions = _sessions()
    if engine.startswith("sc://"):
        return sessions.builder.remote(engine).create()
    active = sessions.getActiveSession()
    if active is not None and engine == "spark":
        return active
    settings = _ALONE if _LOCAL.fullmatch(engine) else _QUIET
    master = "local[*]" if engine == "spark" else engine
    if active is not None and active.conf.get("spark.master") != master:
        raise InvalidParameter("this process runs another Spark: hand in its session, engine=session")
    return _with(sessions.builder.master(master).appName("chary"), settings).getOrCreate()


def _with(builder: Any, settings: Mapping[str, str]) -> Any:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _sessions() -> Any:
    try:
        return importlib.import_module("pyspark.sql").SparkSession
    except ImportError:
        missing = InvalidParameter("this engine needs the package pyspark: pip install 'chary[spark]'")
    raise missing


# What a session of Spark is told so that a query means what it means in every engine.

# Where a setting is Spark's own default, a user's session may still have another one.
SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # Otherwise ${name} in a text would be a setting's value.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Beyond this many strings or numbers in a list Spark would look them up in a set, which tells -0.0 from 0.0.
    "spark.sql.optimizer.inSetConversionThreshold": str(2**31 - 1),
    # A missing or damaged file is an error, and not fewer rows.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
# Deprecated, so that setting it is complained of: what a user's session says of it is left behind, and only where it is
# said of all sessions it is unsaid. With it a backslash in a text would be another sign, and no quote could be in one.
_LEFT: Final = frozenset({"spark.sql.parser.escapedStringLiterals"})


def own_session(session: Any) -> Any:
    """A session next to a user's, with its settings but chary's own and without its temporary views.

    The user's session stays as it is. Both are of one Spark, which ends for neither when the other one is no longer
    needed.
    """
    made, theirs = session.newSession(), session.conf.getAll
    for key, value in (theirs | SETTINGS).items():
        if key.startswith("spark.sql.") and key not in _LEFT and made.conf.isModifiable(key):
            made.conf.set(key, value)
    for key in _LEFT:
        if made.conf.get(key, "false") == "true":
            made.conf.set(key, "false")
    made.catalog.setCurrentCatalog(session.catalog.currentCatalog())
    made.catalog.setCurrentDatabase(session.catalog.currentDatabase())
    return made


# One session of Spark: locked, silent about values when it fails, and stopped by Ctrl-C.

BATCH: Final = "chary_batch"
CANDIDATE: Final = "chary_candidate"
_OURS: Final = "chary-spark"
# The package writes there what an error says before it raises it.
_LOGS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_numbers = itertools.count()


class SparkWork:
    """A session of its own in which the temporary view `chary_rows` are the rows that queries read.

    All runs under one lock, and in one other thread: an interruption is heard at once, cancels what runs, and leaves
    no answer half read.
    """

    def __init__(self, session: Any) -> None:
        """Next to a user's session, which stays as it is."""
        _be_silent()
        self._lock = threading.RLock()
        self._closed = False
        self._tables = SmallTables()
        self._views = {ROWS, BATCH, CANDIDATE}
        self._tag = f"{_OURS}-{next(_numbers)}"
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=_OURS)
        self.session = self._run(lambda: own_session(session))
        self._run(lambda: self.session.addTag(self._tag))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing else is done meanwhile; `EngineError` once it is closed."""
        with self._lock:
            if self._closed:
                raise EngineError("the table is closed")
            yield

    def ask(self, work: Callable[[Any], Any], doing: str) -> Any:
        """What `work` finds in the session; if it fails, `EngineError` says what it was doing, and no value."""
        with self.held():
            failure = EngineError(f"the engine failed while it {doing}")
            return quietly(lambda: self._run(lambda: work(self.session)), failure)

    def read(self, sql: str, doing: str) -> pa.Table:
        """The rows of a query."""
        return self.ask(lambda session: session.sql(sql).toArrow(), doing)

    def offer(self, tables: Sequence[SmallTable]) -> None:
        """Make temporary views of the tables that have none yet, and drop the views that are needed no more."""

        def make(session: Any, table: SmallTable) -> None:
            for gone in self._tables.unused():
                self._views.discard(gone)
                session.catalog.dropTempView(gone)
            self._views.add(table.name)
            # Without a hint the rows would be sorted by the keys.
            session.createDataFrame(table.arrow).hint("broadcast").createOrReplaceTempView(table.name)

        for table in self._tables.missing(tables):
            self.ask(partial(make, table=table), "offered the keys")

    def close(self) -> None:
        """Forget the rows; the session of the user goes on. Closing twice is fine, and so is after Spark has ended."""
        with self._lock:
            if not self._closed:
                self._closed = True
                with suppress(EngineError):
                    quietly(lambda: self._run(self._drop), EngineError("the engine failed while it was closed"))
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


def _not_ours(record: logging.LogRecord) -> bool:
    return not str(record.threadName).startswith(_OURS)


def _be_silent() -> None:
    for name in _LOGS:
        logger = logging.getLogger(name)
        if _not_ours not in logger.filters:
            logger.addFilter(_not_ours)
    # All that is handed over or fetched is Arrow.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
