"""Runs what docs/reference/migration.md shows of another library, in an environment that has it.

    python benchmarks/migration.py OpenDP

Tumult Analytics needs Java, and `PYSPARK_PYTHON` to name the interpreter of that environment.
"""

import csv
import os
import re
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "migration.md"
TASK = r"^## (.*)$"
TAB = r"^:::\{tab-item\} ([^\n]*)\n:sync: [^\n]*\n\n(?:```python\n(.*?)```|(.*?))\n:::$"


def snippets(library):
    """The code of each task, by its title; None where the page says that the library has none."""
    found = {}
    for part in re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title = re.match(TASK, part, flags=re.MULTILINE)[1]
        tabs = {name: code or None for name, code, _ in re.findall(TAB, part, flags=re.MULTILINE | re.DOTALL)}
        if tabs:
            found[title] = tabs[library]
    return found


def main(library):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("visits.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["patient_id", "age", "clinic", "cost"])
            table.writerows([n // 2, n // 2 % 90, "north" if n % 8 < 6 else "south", n % 300] for n in range(4000))
        known = {}
        for title, code in snippets(library).items():
            print(f"--- {title}")
            exec(code or "print('not available')", known)


if __name__ == "__main__":
    main(sys.argv[1])
