"""What has to be read to believe the guarantee: the modules of the first ring with their lines: python -m tests.kernel.

The table stands in docs/explanation/architecture.md between its marks; `--write` puts it there.
"""

import sys

from tests.figures import CHARY, Source
from tests.paths import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
BEGIN, END = "<!-- modules -->", "<!-- end of modules -->"
# Each part with the modules that do it and what they are trusted for.
PARTS = {
    "noise": (
        ("noise/source", "noise/partition", "noise/laplace", "noise/gaussian"),
        "every draw: exact distributions from the operating system's randomness",
    ),
    "transaction": (
        ("core/plan", "core/transaction", "amounts", "interruption"),
        "the order reserve, read, run, settle; the charge for each outcome",
    ),
    "filters": (
        ("filters/filter", "filters/exact"),
        "what an event costs, and that stopping at the capacity keeps the budget",
    ),
    "ledger": (
        (
            *("ledger/entries", "ledger/accounts", "ledger/records", "ledger/claims"),
            *(
                "ledger/sql/schema",
                "ledger/sql/transaction",
                "ledger/sql/store",
                "ledger/ledger",
                "ledger/sqlite/store",
            ),
        ),
        "no call is charged above the budget or twice; an unsettled call keeps its worst-case cost",
    ),
    "contribution": (
        (
            *("data/neighbors", "data/rows", "data/table"),
            *("data/queries/query", "data/queries/keys", "data/queries/sums", "data/queries/histogram"),
            *("data/partition", "data/queries/overlap"),
        ),
        "how far one unit moves an answer, and the limits on what one unit contributes",
    ),
    "reading": (
        (
            *("data/predicates/conditions", "data/predicates/terms", "data/predicates/predicate"),
            *("data/engines/compiler", "data/engines/sql", "data/engines/duckdb/engine", "data/engines/duckdb/reader"),
            "data/engines/duckdb/remembered",
        ),
        "compiled queries answer exactly, and values never decide how rows are read",
    ),
}


def modules():
    """All of them."""
    return [name for names, _ in PARTS.values() for name in names]


def lines():
    """The code lines of each."""
    return {name: Source(CHARY / f"{name}.py").code for name in modules()}


def table():
    """The table of the page."""
    counted = lines()
    rows = ["| part | modules (code lines) | trusted for |", "|---|---|---|"]
    for part, (names, trusted) in PARTS.items():
        told = ", ".join(f"`{name}` {counted[name]}" for name in names)
        rows.append(f"| {part}, {sum(counted[name] for name in names)} | {told} | {trusted} |")
    return "\n".join([*rows, f"| all, {sum(counted.values())} | {len(counted)} modules | |"])


def main(asked):
    if "--write" not in asked:
        sys.stdout.write(f"{table()}\n")
        return
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
