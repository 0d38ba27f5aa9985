"""Rows of a quick run, kept beside the tests: python -m tests.experiments.recorded FOLDER reads them from its output.

Few rows are kept of what has hundreds, and five digits of each figure.
"""

import json
import sys
from pathlib import Path

from chary_research.experiments import EXPERIMENTS, experiment

FILE = Path(__file__).with_name("recorded.json")
MOST = 600


def rows_of(folder, name):
    """What the pieces of a quick run hold, in their order."""
    pieces = {}
    for path in sorted((folder / "pieces" / name).glob("*.json"), key=lambda path: path.stat().st_mtime):
        piece = json.loads(path.read_text())
        pieces[json.dumps(piece["settings"], sort_keys=True)] = piece["rows"]
    wanted = [pieces[json.dumps(settings, sort_keys=True)] for settings in experiment(name).pieces(quick=True)]
    return [{key: _short(value) for key, value in row.items()} for rows in wanted for row in rows]


def _short(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def recorded(name):
    """The kept rows of an experiment; None where it is quick enough to be run."""
    kept = json.loads(FILE.read_text()).get(name)
    if kept is None:
        return None
    columns, *rows = kept
    return [{key: value for key, value in zip(columns, row, strict=True) if value is not None} for row in rows]


def _packed(rows):
    """The names of all columns, and then the values of each row."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return [columns, *([row.get(key) for key in columns] for row in rows)]


def main(folder):
    known = {name: rows_of(folder, name) for name in EXPERIMENTS if (folder / "pieces" / name).exists()}
    lines = [
        f"{json.dumps(name)}: {json.dumps(_packed(rows), separators=(',', ':'))}"
        for name, rows in known.items()
        if len(rows) <= MOST
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
