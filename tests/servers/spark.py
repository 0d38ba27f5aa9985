"""A Spark of one process for tests: started once, ended with the process, reached by nobody else.

A test asks for the fixture `spark`, a session; it is skipped, with the reason, without Java 17 or the package.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess

import pytest

JAVA = 17
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1500m",
    # Queries of tests are short: compiling them well takes longer than running them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def missing():
    """Why there is no Spark here; None if there is one."""
    if importlib.util.find_spec("pyspark") is None:
        return "the package pyspark is not installed: pip install 'chary[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        return "there is no Java on this machine; Spark needs version 17"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return None if version and int(version[1]) >= JAVA else "Spark needs Java 17 or later"


def session(folder):
    """The session of this process, which every test shares."""
    builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]").appName("tests")
    for name, value in (
        SETTINGS | {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": f"{folder}/kept"}
    ).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session; whatever is done to it, chary's own sessions are others."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return session(tmp_path_factory.mktemp("spark"))
