"""Which of many features go with the label: found by the sparse vector and by sharp tests, beside the exact list.

Adult (48,842 people, ../shared/data, not shipped): 3 for a row of high income and -1 for another, summed over the rows
with a feature, is above 0 where more than a quarter earn much. Features are values of four columns and pairs of them;
`--full` takes seven columns, which takes half an hour, and two runs.
"""

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import chary
from chary import Budget
from chary.calls import PrepaidTests, SparseVector
from chary.data import NeighborRelation, RowTable
from chary.session import findings
from measuring import full, machine, show

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
COLUMNS = ("relationship", "race", "sex", "marital_status")
COLUMNS += ("workclass", "education", "occupation") if full() else ()
ABOVE, HITS, RUNS = 3000, 25, 2 if full() else 1


def people() -> pa.Table:
    """The rows with their weight."""
    rows = pyarrow.csv.read_csv(ADULT)
    return rows.append_column("weight", pc.if_else(pc.equal(rows["income"], ">50K"), 3, -1))


def features(rows: pa.Table) -> list[str]:
    """Values and pairs of values of different columns, as conditions; the lists of values are public."""
    single = {name: [f"{name} = '{value}'" for value in sorted(set(rows[name].to_pylist()))] for name in COLUMNS}
    pairs = [f"{a} AND {b}" for one, two in combinations(COLUMNS, 2) for a in single[one] for b in single[two]]
    return [condition for conditions in single.values() for condition in conditions] + pairs


def main() -> None:
    """Print how many were found, how many wrongly, and how far off their scores are."""
    if not ADULT.exists():
        print("adult_all.csv.gz is not beside the project")
        return
    print(machine())
    rows = people()
    asked = [chary.sum("weight", bounds=(-1, 3), where=feature) for feature in features(rows)]
    table = RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", None))
    truth = [int(table.prepare(query).run()) for query in asked]
    openings = {
        "sparse vector": lambda: SparseVector(
            above=ABOVE, hits=HITS, epsilon="0.75", values=True, sensitivity=3, monotone=False
        ),
        "agreed sharp tests": lambda: PrepaidTests(tests=len(asked), hits=HITS, value="0.2"),
    }
    lines = ((name, *run(rows, asked, truth, opening())) for name, opening in openings.items() for _ in range(RUNS))
    show(
        f"{len(asked)} features, {HITS} hits, a score of {ABOVE} or more, (1, 1e-6)",
        ("by", "above in truth", "found", "wrong", "missed", "largest error", "widest interval, half", "all hold"),
        lines,
    )


def run(rows: pa.Table, asked: list[Any], truth: list[int], opening: Any) -> tuple[str, ...]:
    """One run, until it has no hits left."""
    with chary.open(rows, privacy_unit=None, budget=Budget(1, "1e-6"), ledger=":memory:") as session:
        found, tested = {}, 0
        with session.start(opening) as opened:
            for place, query in enumerate(asked):
                if len(found) == HITS:
                    break
                answer, tested = opened.ask(query, above=ABOVE), place + 1
                if answer.hit:
                    found[place] = answer
        told = findings(session)
        ends = {each.call: interval for each, interval in zip(told, told.intervals(simultaneous=True), strict=True)}
    right = {place for place in range(tested) if truth[place] >= ABOVE}
    errors = [abs(answer.value - truth[place]) for place, answer in found.items()]
    width = max((ends[answer.call].high - ends[answer.call].low for answer in found.values()), default=0) / 2
    holds = all(ends[answer.call].low <= truth[place] <= ends[answer.call].high for place, answer in found.items())
    counts = (len(right), len(found), len(found.keys() - right), len(right - found.keys()))
    return (*map(str, counts), f"{max(errors, default=0):.0f}", f"{width:.0f}", "yes" if holds else "no")


if __name__ == "__main__":
    sys.exit(main())
