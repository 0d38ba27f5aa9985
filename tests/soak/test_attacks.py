"""A little of each attack finds nothing in chary; each finds what is wrong with something broken."""

import sqlite3
import time
from itertools import count as numbers
from random import Random
from unittest import mock

import pytest

from chary.core.transaction import Spine
from chary.data import RowTable
from chary.errors import EngineError
from chary.ledger import Amount, Terms, Verification, open_ledger
from tests.ledger.kit import filled, raw
from tests.soak.counters import counters_differ
from tests.soak.damage import damage
from tests.soak.figures import Figures, Until
from tests.soak.interrupts import interrupts, usable
from tests.soak.kills import kills
from tests.soak.marked import read_report
from tests.soak.neighbours import neighbours
from tests.soak.predicates import counts, predicates
from tests.soak.racing_keys import racing_keys
from tests.soak.replay import Replay
from tests.soak.rooms import BUDGETS, ROOMS
from tests.soak.servers import servers

LITTLE = {
    "kills": (kills, 6),
    "servers": (servers, 1),
    "damage": (damage, 12),
    "keys": (racing_keys, 6),
    "interrupts": (interrupts, 12),
    "neighbours": (neighbours, 8),
    "predicates": (predicates, 20),
}
PATIENCE_SECONDS = 120.0


@pytest.mark.parametrize("name", LITTLE)
def test_a_little_of_it_finds_nothing(name):
    attack, cases = LITTLE[name]
    figures = attack(Until(cases=cases), Random(f"a little {name}"))
    assert figures.ok, figures.violations


def caught(attack, cases, **broken):
    """What the attack finds, from one seed to the next, until it finds something: some of it depends on the time."""
    begun = time.monotonic()
    for seed in numbers():
        figures = attack(Until(cases=cases), Random(seed), **broken)
        if not figures.ok:
            return figures.violations
        assert time.monotonic() - begun < PATIENCE_SECONDS, "never caught"
    return []


def answers_before_it_settles():
    def run(self, running):
        return self._run(running)[1].answer

    Spine._run_and_settle = run


def forgets_keys():
    perform = Spine.perform
    Spine.perform = lambda self, interaction, request=None: perform(self, interaction, None)


def test_kills_catch_an_answer_that_is_not_stored():
    assert "is not settled" in caught(kills, 5, sabotage=answers_before_it_settles)[0]


def test_racing_keys_catch_two_answers():
    assert "different answers" in " ".join(caught(racing_keys, 3, sabotage=forgets_keys))


def trusting(path):
    """A ledger that believes whatever its file says."""
    with mock.patch("chary.ledger.sqlite.store.prepare"):
        ledger = open_ledger(path)
    ledger.verify = lambda progress=None: Verification(0)
    return ledger


def test_damage_catches_a_ledger_that_verifies_nothing():
    assert caught(damage, 30, opened=trusting)


def surfacing_otherwise(ask):
    def run():
        try:
            return ask()
        except KeyboardInterrupt:
            raise EngineError("the engine failed") from None

    return run


def test_interrupts_catch_one_that_surfaces_as_something_else():
    assert "surfaced as EngineError" in caught(interrupts, 3, wrapped=surfacing_otherwise)[0]


def test_a_lock_that_is_left_behind_is_seen(tmp_path):
    path = tmp_path / "test.ledger"
    filled(path).close()
    usable(path)
    left = sqlite3.connect(path, isolation_level=None)
    left.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError):
        usable(path)
    left.close()


def two_valued(table, text):
    return counts(table, "b IS NULL OR NOT (b IS NULL)") - counts(table, f"NOT ({text})")


def test_predicates_catch_an_unknown_taken_for_true():
    assert caught(predicates, 5, counted=two_valued)


class Moved:
    """A table in which one row makes every answer another."""

    def __init__(self, table, by):
        self._table, self._by = table, by
        self.schema, self.append, self.close, self.snapshot = table.schema, table.append, table.close, table.snapshot

    def prepare(self, query):
        plan, by = self._table.prepare(query), self._by
        has_odd = any(row["unit"] == "px" for row in self.snapshot().run().to_pylist())
        return type("Plan", (), {"run": lambda self: plan.run() + by * has_odd})()


def test_neighbours_catch_an_answer_that_moves_too_far():
    opened = lambda source, **options: Moved(RowTable.open(source, **options), 1000)  # noqa: E731
    assert any("more than its sensitivity" in found for found in caught(neighbours, 3, opened=opened))


def refusing(source, **options):
    table = RowTable.open(source, **options)
    if any(row["unit"] == "px" for row in table.snapshot().run().to_pylist()):
        raise EngineError("one row made it fail")
    return table


def test_neighbours_catch_a_table_that_one_row_makes_fail():
    assert "with it" in caught(neighbours, 3, opened=refusing)[0]


def test_failures_of_marked_tests_are_violations(tmp_path):
    report, figures = tmp_path / "report.xml", Figures()
    report.write_text(
        "<testsuites><testsuite><testcase classname='a' name='fine'/>"
        "<testcase classname='a' name='wrong'><failure message='1 is 2'/></testcase></testsuite></testsuites>"
    )
    read_report(figures, report)
    assert figures.counts["tests"] == 2
    assert figures.violations == ["a.wrong: 1 is 2"]


CHANGES = {
    "a total": "UPDATE datasets SET spent_main = spent_main - 1 WHERE name = 'visits'",
    "a tally": "UPDATE tallies SET hits = hits + 1",
    "an answer": "UPDATE answers SET answer = '{}'",
    "the state of a call": "UPDATE calls SET state = 'voided' WHERE state = 'settled'",
    "a price": "UPDATE entries SET main = 0 WHERE kind = 'settle'",
    "a lost entry": "DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)",
    "the head": "UPDATE chain SET head = 'x'",
    "a smaller budget": "UPDATE entries SET main = 1 WHERE kind = 'open'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_replay_sees(tmp_path, change):
    path = tmp_path / "test.ledger"
    filled(path).close()
    assert Replay(path).problems == []
    raw(path, CHANGES[change])
    assert Replay(path).problems


def test_the_replay_sees_a_budget_that_was_passed(tmp_path):
    path = tmp_path / "test.ledger"
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    ledger.reserve("visits", "ann", "count", "{}", Amount(6), request="k")
    ledger.close()
    raw(path, "UPDATE entries SET main = 5 WHERE kind = 'open'")
    assert any("6 of 5 is spent" in problem for problem in Replay(path).problems)
    assert Replay(path).state("k") == ["reserved"]


@pytest.mark.parametrize(
    ("kind", "label"), [("best_of_call", "best_of"), ("individual_ask", "individual_stream")], ids=["race", "stream"]
)
def test_counters_that_were_put_back_are_seen(tmp_path, kind, label):
    path, room = tmp_path / "test.ledger", ROOMS["units"]
    with room.open(tmp_path, ledger=path, **BUDGETS[0]) as session:
        ask = room.prepare(session, kind, "one")
        ledger, replay = session.spine.ledger, Replay(path)
        [number] = [number for number, call in replay.calls.items() if call["label"] == label]
        before = ledger.secret(number)
        for _ in range(2):
            ask(None)
        assert list(counters_differ(ledger, Replay(path))) == []
        other = ledger.reserve("data", "analyst", "release", "{}", Amount(0))
        ledger.settle(other, Amount(0), 0, 0, "{}", secrets={number: before})
        assert list(counters_differ(ledger, Replay(path))) == [
            f"{label} {number}: its counters are not those of its answers"
        ]
