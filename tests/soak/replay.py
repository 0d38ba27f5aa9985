"""Recomputes a ledger from its entries alone, by other code than the ledger's, and compares everything derived."""

import hashlib
import json
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path

FIELDS = (
    "number", "kind", "dataset", "analyst", "call", "label", "body", "request", "main", "delta", "back_main",
    "back_delta", "hits", "tests", "answer_hash", "created",
)  # fmt: skip


def added(row: sqlite3.Row) -> int:
    """What an entry says of the basic account; nothing in files of before."""
    return row["basic"] if "basic" in row.keys() else 0  # noqa: SIM118


class Replay:
    """The calls and totals that the entries of a file say, and `problems`: where the file says something else.

    It reads the file with sqlite3, never through chary.
    """

    def __init__(self, path: Path) -> None:
        self.problems: list[str] = []
        self.calls: dict[int, dict] = {}
        self.capacity: dict[str, list[int]] = {}
        self.spent: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.reserved: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.epsilons: dict[str, int] = defaultdict(int)
        self.most_epsilons: dict[str, int] = {}
        self.ended: set[str] = set()
        self.tallies: dict[tuple[str, str], Counter] = defaultdict(Counter)
        self.asked: dict[str, list[int]] = defaultdict(list)
        connection = sqlite3.connect(path, timeout=30)
        connection.row_factory = sqlite3.Row
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "entries" in tables:
                self._read(connection)
                self._compare(connection)
        finally:
            connection.close()

    def state(self, request: str) -> list[str]:
        """How the calls under a request key stand."""
        return [self.calls[number]["state"] for number in self.asked[request]]

    def _read(self, connection: sqlite3.Connection) -> None:
        previous = "0" * 64
        for expected, row in enumerate(connection.execute("SELECT * FROM entries ORDER BY number"), 1):
            self._expect(row["number"] == expected, f"entry {expected} is missing")
            later = [row[name] for name in ("origin", "basic") if name in row.keys() and row[name]]  # noqa: SIM118
            line = json.dumps([*(row[name] for name in FIELDS), *later], separators=(",", ":"))
            previous = hashlib.sha256((previous + line).encode()).hexdigest()
            self._expect(previous == row["hash"], f"entry {expected} has another hash")
            getattr(self, f"_{row['kind']}", lambda row: None)(row)
            self._within(row)
        head = connection.execute("SELECT entries, head FROM chain").fetchall()
        self._expect([tuple(row) for row in head] == [(expected_length(connection), previous)], "the head is another")

    def _within(self, row: sqlite3.Row) -> None:
        """At no moment is more charged than there is: of main until it ends for good, then of the epsilons."""
        name, number = row["dataset"], row["number"]
        (main, delta), (most_main, most_delta) = self.spent[name], self.capacity.get(name, [0, 0])
        if name in self.most_epsilons and main > most_main:
            self.ended.add(name)
        sums = [(delta, most_delta)]
        sums += [(self.epsilons[name], self.most_epsilons[name])] if name in self.ended else [(main, most_main)]
        for spent, capacity in sums:
            self._expect(0 <= spent <= capacity, f"{name}: {spent} of {capacity} is spent after entry {number}")

    def _open(self, row: sqlite3.Row) -> None:
        self.capacity[row["dataset"]] = [row["main"], row["delta"]]
        if added(row):
            self.most_epsilons[row["dataset"]] = added(row)

    def _reserve(self, row: sqlite3.Row) -> None:
        self.calls[row["number"]] = {**dict(row), "state": "reserved", "worst": [row["main"], row["delta"]]}
        if row["request"] is not None:
            self.asked[row["request"]].append(row["number"])
        self.epsilons[row["dataset"]] += added(row)
        self._move(row["dataset"], [row["main"], row["delta"]], [row["main"], row["delta"]])

    def _settle(self, row: sqlite3.Row) -> None:
        held = self._close(row, "settled")
        if held is None:
            return
        price = [row["main"], row["delta"]]
        fits = all(part <= most for part, most in zip(price, held["worst"], strict=True))
        self._expect(fits, f"call {row['call']} costs more than was reserved")
        held.update(price=price, hits=row["hits"], answer_hash=row["answer_hash"])
        self._move(row["dataset"], [part - most for part, most in zip(price, held["worst"], strict=True)], held["back"])
        told = {"calls": 1, "hits": row["hits"], "tests": row["tests"], "main": row["main"], "delta": row["delta"]}
        self.tallies[row["dataset"], held["label"]].update(told)

    def _void(self, row: sqlite3.Row) -> None:
        held = self._close(row, "voided")
        if held is not None:
            name = row["dataset"]
            if self.epsilons[name] <= self.most_epsilons.get(name, 0):
                self.epsilons[name] -= held.get("basic", 0)
            self._move(name, held["back"], held["back"])

    def _close(self, row: sqlite3.Row, state: str) -> dict | None:
        held = self.calls.get(row["call"])
        self._expect(held is not None and held["state"] == "reserved", f"entry {row['number']} closes what is not open")
        if held is not None:
            held.update(state=state, closing=row["number"], back=[-part for part in held["worst"]])
        return held

    def _move(self, dataset: str, spent: list[int], reserved: list[int]) -> None:
        self.spent[dataset] = [a + b for a, b in zip(self.spent[dataset], spent, strict=True)]
        self.reserved[dataset] = [a + b for a, b in zip(self.reserved[dataset], reserved, strict=True)]

    def _compare(self, connection: sqlite3.Connection) -> None:
        for row in connection.execute("SELECT * FROM datasets"):
            held = [row["spent_main"], row["spent_delta"], row["open_main"], row["open_delta"]]
            right = [*self.spent[row["name"]], *self.reserved[row["name"]]]
            self._expect(held == right, f"{row['name']}: the totals are {held}, replayed {right}")
        for row in connection.execute("SELECT * FROM tallies"):
            replayed = self.tallies[row["dataset"], row["kind"]]
            same = all(row[name] == replayed[name] for name in ("calls", "hits", "tests", "main", "delta"))
            self._expect(same, f"{row['dataset']}: the tally of {row['kind']} is another")
        stored = {row["number"]: row["state"] for row in connection.execute("SELECT number, state FROM calls")}
        self._expect(stored == {number: call["state"] for number, call in self.calls.items()}, "calls stand otherwise")
        for row in connection.execute("SELECT call, answer FROM answers"):
            digest = hashlib.sha256(row["answer"].encode()).hexdigest()
            same = self.calls.get(row["call"], {}).get("answer_hash") == digest
            self._expect(same, f"the answer of call {row['call']} is another")

    def _expect(self, right: bool, problem: str) -> None:
        if not right:
            self.problems.append(problem)


def expected_length(connection: sqlite3.Connection) -> int:
    """How many entries there are."""
    return connection.execute("SELECT count(*) FROM entries").fetchone()[0]
