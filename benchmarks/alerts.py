"""An alert on 10^7 rows after a batch of 1 %: how long does a look take beside a scan of all rows?

Run as `python benchmarks/alerts.py`. `a look` is what the alert reads at a version, from the third on, since units are
gathered at the second; `scan` reads all rows at that version, as the first look does, and is the limit where nothing
is remembered. An aim is 3 % of it and a constant. `whole` is the look as it is asked, with its ledger. Questions by
limits on several rows of a unit, and in windows, are scans.
"""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import chary
from chary import Budget, Session, count
from chary.calls import Alert
from chary.data.engines.sql import ROWS
from measuring import announce, duration, full, seconds, show
from recording import Against

ROWS_AT_FIRST = 10**7 if full() else 10**6
BATCH, LOOKS = ROWS_AT_FIRST // 100, 5
HOMES, ZONES = ROWS_AT_FIRST // 20, 50
HIGH = count("kwh >= 250")
QUESTIONS = {
    None: {
        "count of rows": HIGH,
        "sum of rows": chary.sum("kwh", bounds=(0, 400)),
        "count of rows by 50 zones": HIGH.by("zone", range(ZONES)),
    },
    "home": {
        "count of homes": HIGH,
        "count of homes by 50 zones": HIGH.by("zone", range(ZONES), max_groups_per_unit=1),
        "sum of homes, one row each": chary.sum("kwh", bounds=(0, 400), max_rows_per_unit=1),
    },
}


def loads(seed: int, size: int) -> pa.Table:
    """Readings of homes in zones."""
    noise = np.random.default_rng(seed)
    homes = noise.integers(0, HOMES, size)
    return pa.table({"home": homes, "zone": homes % ZONES, "kwh": noise.integers(0, 400, size).astype(float)})


def opened(folder: Path, unit: str | None, *, in_file: bool) -> Session:
    """A session on the first rows."""
    source = {"source": loads(0, ROWS_AT_FIRST), "dataset": "loads"}
    if in_file:
        path = folder / "loads.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.register("first", source["source"])
            connection.execute("CREATE TABLE loads AS FROM first")
        source = {"source": path, "table": "loads"}
    budget = Budget(epsilon=1, delta=1e-6)
    return chary.open(**source, privacy_unit=unit, ledger=folder / "ledger.db", budget=budget)


def lines() -> Iterator[list[str]]:
    """A line a question, in memory and in a file."""
    for place in ("in memory", "DuckDB file"):
        for unit, questions in QUESTIONS.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                closing(opened(Path(folder), unit, in_file=place == "DuckDB file")) as session,
            ):
                yield from looked(session, place, questions)


def looked(session: Session, place: str, questions: dict[str, chary.data.Query]) -> Iterator[list[str]]:
    """The times of all questions after the same batches."""
    rows = session.spine.rows
    plans = {name: rows.prepare(query) for name, query in questions.items()}
    runs = {name: session.start(Alert(query, above=10**9, price="0.01")) for name, query in questions.items()}
    scans, looks, wholes = ({name: [] for name in questions} for _ in range(3))
    for run in runs.values():
        run.follow()
    for number in range(1, LOOKS + 2):
        session.append(loads(number, BATCH))
        for name, plan in plans.items():
            found = []
            looks[name].append(seconds(lambda: found.append(plan.run())))  # noqa: B023
            wholes[name].append(seconds(runs[name].follow))
            scans[name].append(seconds(lambda: found.append(plan.read(ROWS))))  # noqa: B023
            assert np.array_equal(*found)
    for name in questions:
        look, whole, scan = (statistics.median(times[name][1:]) for times in (looks, wholes, scans))
        yield [f"{name}, {place}", duration(look), duration(scan), f"{look / scan:.3f}", duration(whole)]


def main() -> None:
    """Print the table."""
    announce()
    headings = ["question", "a look", "scan", "look / scan", "whole"]
    title = f"an alert on {ROWS_AT_FIRST:,} rows after a batch of 1 %, median of {LOOKS} versions"
    show(title, headings, lines(), against=[Against("a look after 1 %", "a look", "scan", "look / scan")])


if __name__ == "__main__":
    main()
