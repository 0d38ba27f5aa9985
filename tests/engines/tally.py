"""The table of what was compared on which engine: build/engines.md, from whatever tests ran, now and before."""

import json
from pathlib import Path

PROPERTY = "engine conformance"
PLACE = Path("build")
HEAD = ["asked", "neighbours", "limit"]
ORDER = ["DuckDB", "DuckDB file", "Parquet", "PostgreSQL", "Spark", "Spark folder"]


class Tally:
    """What each test counted: engine, row (what was asked, of which neighbours, under which limit) and cases.

    It is collected in the process that reports; those that run tests send what they counted with their reports.
    """

    def __init__(self, tests=()):
        self.tests = dict(tests)

    def passed(self, test, counted):
        """Take in the counts of a test, a list of [engine, asked, neighbours, limit, cases]."""
        self.tests[test] = [[*each, True] for each in counted]

    def failed(self, test, engine):
        """A test that failed counts nothing, and is not forgotten before it passes."""
        self.tests[test] = [[engine, test.split("::")[-1].split("[")[0], "", "", 0, False]]

    def cells(self):
        """Cases and whether all is well, by row and engine."""
        found = {}
        for counted in self.tests.values():
            for engine, *row, cases, fine in counted:
                cell = found.setdefault(tuple(row), {}).setdefault(engine, [0, True])
                cell[0] += cases
                cell[1] &= fine
        return found

    def table(self):
        """Markdown."""
        cells = self.cells()
        found = {engine for row in cells.values() for engine in row}
        engines = [*(engine for engine in ORDER if engine in found), *sorted(found - set(ORDER))]
        lines = [[*HEAD, *engines], ["---"] * len(HEAD) + ["---:"] * len(engines)]
        lines += [[*row, *(_shown(own.get(engine)) for engine in engines)] for row, own in sorted(cells.items())]
        totals = [sum(own.get(engine, (0,))[0] for own in cells.values()) for engine in engines]
        lines.append(["all", "", "", *(f"{cases:,}" for cases in totals)])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(cell):
    if cell is None:
        return "-"
    return f"{cell[0]:,}" if cell[1] else "FAILED"


TALLY = Tally()


def pytest_runtest_logreport(report):
    """Take in what a test counted, or that it failed."""
    counted = [list(values) for name, values in report.user_properties if name == PROPERTY]
    if counted and report.failed:
        TALLY.failed(report.nodeid, counted[0][0])
    elif report.when == "call" and len(counted) > 1:
        TALLY.passed(report.nodeid, counted[1:])


def pytest_sessionfinish(session):
    """Write the table, where tests of engines ran."""
    if TALLY.tests and not hasattr(session.config, "workerinput"):
        written(TALLY, PLACE)


def written(tally, place):
    """Keep the counts beside those of tests that did not run now, and write the table of all."""
    place.mkdir(exist_ok=True)
    kept = place / "engines.json"
    merged = (json.loads(kept.read_text()) if kept.exists() else {}) | tally.tests
    kept.write_text(json.dumps(merged, indent=1))
    (place / "engines.md").write_text(Tally(merged).table())
