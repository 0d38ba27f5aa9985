"""Where the rows of large tables are: files that DuckDB or a local Spark reads, or a table of a PostgreSQL server."""

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

import chary
from chary import Budget, Session

KEYS = 10_000
MOST = 5_000
TABLE = "chary_scale"
COLUMNS = f"""(hash(i) % greatest({{rows}} // 10, 1))::BIGINT AS unit,
    (hash(i + 1000000007) % {KEYS})::INTEGER AS k, (hash(i + 2000000011) % {MOST + 100})::INTEGER AS cost"""
TICKS = os.sysconf("SC_CLK_TCK")


class DuckFolder:
    """Eight Parquet files in a folder, which DuckDB reads in place."""

    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        self.folder, self.visits = folder, folder / "visits"

    def make(self, rows: int) -> None:
        """The files, and beside the folder the one that will come."""
        self.visits.mkdir()
        edges = [rows * part // 8 for part in range(9)]
        for number, (first, last) in enumerate(pairwise(edges)):
            write_rows(self.visits / f"{number}.parquet", rows, first, last)
        write_rows(self.folder / "later.parquet", rows, rows, rows + rows // 100)

    def session(self, unit: str | None) -> Session:
        """The rows, opened by chary."""
        return chary.open(self.visits, **terms(unit))

    def grow(self) -> Callable[[Session], object]:
        """One percent more rows: what appends them to a session."""
        later = self.visits / "later.parquet"
        (self.folder / "later.parquet").rename(later)
        return lambda session: session.append(later)

    @cached_property
    def connection(self) -> Any:
        """The engine without chary."""
        return duckdb.connect()

    @property
    def rows(self) -> str:
        """What the engine calls the rows."""
        return f"read_parquet('{self.visits}/*.parquet')"

    def ask(self, sql: str) -> object:
        """What the engine itself answers, fetched as chary fetches it."""
        return self.connection.execute(sql).fetchnumpy()

    @cached_property
    def processes(self) -> list[int]:
        """Processes that work for this one and did not come from it."""
        return []


class PostgresTable(DuckFolder):
    """A table of a server, filled from the same files."""

    name, rows = "postgresql", TABLE

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def make(self, rows: int) -> None:
        super().make(rows)
        text = self.folder / "rows.csv"
        duckdb.sql(f"COPY (FROM read_parquet('{self.visits}/*.parquet')) TO '{text}' (HEADER false)")
        with self.connection.cursor() as cursor, text.open("rb") as lines:
            cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
            cursor.execute(f"CREATE TABLE {TABLE} (unit bigint, k integer, cost integer)")
            with cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT csv)") as copy:
                while block := lines.read(2**20):
                    copy.write(block)
            cursor.execute(f"VACUUM ANALYZE {TABLE}")
        text.unlink()

    def session(self, unit: str | None) -> Session:
        return chary.open(self.url, table=TABLE, **terms(unit))

    @cached_property
    def connection(self) -> Any:
        import psycopg  # noqa: PLC0415

        return psycopg.connect(self.url, autocommit=True)

    def ask(self, sql: str) -> object:
        return self.connection.execute(sql).fetchall()

    @cached_property
    def processes(self) -> list[int]:
        """The server's first process, if it is on this machine: all others come from it."""
        [backend] = self.connection.execute("SELECT pg_backend_pid()").fetchone()
        told = stat(backend)
        return [int(told[1])] if told and Path(f"/proc/{backend}/comm").read_text().startswith("postgres") else []


class SparkFolder(DuckFolder):
    """The same files in place, read by a local Spark."""

    name, rows = "spark", TABLE

    def session(self, unit: str | None) -> Session:
        return chary.open(self.visits, engine=self.connection, **terms(unit))

    @cached_property
    def connection(self) -> Any:
        from pyspark.sql import SparkSession  # noqa: PLC0415

        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "4g"}
        builder = SparkSession.builder.master(f"local[{os.cpu_count()}]")
        for name, value in (quiet | {"spark.sql.shuffle.partitions": str(os.cpu_count())}).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.read.parquet(str(self.visits)).createOrReplaceTempView(TABLE)
        return spark

    def ask(self, sql: str) -> object:
        return self.connection.sql(sql).toArrow()


class Meter:
    """Processor seconds, of all threads and of all processes that work for a place; seconds; and the most memory."""

    def __init__(self, place: DuckFolder) -> None:
        self.roots = [os.getpid(), *place.processes]

    def spent(self, work: Callable[[], object]) -> float:
        """Processor seconds of some work: of this process to the microsecond, of others to the tick."""
        before, own = self._others(), time.process_time()
        work()
        return time.process_time() - own + self._others() - before

    def forget(self) -> None:
        """Let the most memory be that from now on, where the system lets this be said."""
        for pid in self._all():
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def most(self) -> float:
        """The most megabytes that any of the processes held."""
        if not Path("/proc/self/status").exists():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return max(_held(pid) for pid in self._all())

    def _others(self) -> float:
        """What others spent until now, and those of their and our children that have ended."""
        ticks = 0
        for pid in self._all():
            told = stat(pid)
            ticks += sum(int(each) for each in told[13 if pid == os.getpid() else 11 : 15])
        return ticks / TICKS

    def _all(self) -> list[int]:
        parents = {int(each.name): told for each in Path("/proc").glob("[0-9]*") if (told := stat(int(each.name)))}
        found = [pid for pid in self.roots if pid in parents]
        for pid in found:
            found += [child for child, told in parents.items() if int(told[1]) == pid and child not in found]
        return found


def stat(pid: int) -> list[str]:
    """The fields of a process after its name, the first of them its state and the second its parent; empty if gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def write_rows(path: Path, rows: int, first: int, last: int) -> None:
    """Some of the rows, as a Parquet file."""
    chosen = f"SELECT {COLUMNS.format(rows=rows)} FROM range({first}, {last}) AS made(i)"
    duckdb.sql(f"COPY ({chosen}) TO '{path}' (FORMAT parquet)")


def terms(unit: str | None) -> dict[str, Any]:
    """What a session is opened with."""
    budget = Budget(epsilon=10**6, delta=1e-6)
    neighbors = "replace" if unit is None else "add_remove"
    return {"privacy_unit": unit, "neighbors": neighbors, "budget": budget, "ledger": ":memory:", "dataset": "visits"}


def _held(pid: int) -> float:
    with suppress(OSError):
        lines: Iterator[str] = iter(Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return 0.0
