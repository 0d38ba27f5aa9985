"""From the name of an engine to a session of Spark."""

import importlib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from chary.data.silence import quietly
from chary.errors import EngineFailure, InvalidParameter

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
    one. `InvalidParameter` without the package or for another name, `EngineFailure` where none can be started.
    """
    if is_session(engine):
        return engine
    if not is_name(engine):
        raise InvalidParameter(_NAMES)
    return quietly(lambda: _started(engine), EngineFailure("Spark could not be started or reached: see docs/spark.md"))


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
