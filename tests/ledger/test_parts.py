"""Parts of a partition in every ledger: what is spent is the dearest set of parts that one unit can be in.

The model says it by its definition: for every set of at most `most` parts of each partition, what concerns all rows and
what these parts were charged fits the cap. `spent` is the largest of those sums.
"""

import itertools
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from chary.addresses import Address
from chary.amounts import LIMIT
from chary.errors import BudgetExceeded, InvalidParameter, LedgerCorrupted, RequestConflict
from chary.ledger import Amount, Parts, Reservation, open_ledger
from chary.ledger.entries import GENESIS, ChainEntry, Kind, seal
from chary.ledger.locations import back_up, move
from chary.ledger.postgresql.connection import Wire
from chary.ledger.postgresql.schema import prepare
from chary.ledger.verification import audited

from .kit import ANSWER, BOTH, KEPT, KINDS, NORTH, QUESTION, SOUTH, in_parts, make, opened_anew, place, raw, terms
from .test_ledger_model import FAST
from .test_ledger_scale import statements

MAIN, DELTA, BASIC, CAP = 30, 20, 25, 12
PARTITIONS = {"region": (1, ("east", "north", "south")), "month": (2, ("1", "2", "3", "4"))}
SETS = [
    [(partition, part) for partition, names in zip(PARTITIONS, chosen, strict=True) for part in names]
    for chosen in itertools.product(
        *(
            [names for size in range(most + 1) for names in itertools.combinations(all_names, size)]
            for most, all_names in PARTITIONS.values()
        )
    )
]
SCOPES = [None] + [
    Parts(partition, most, names)
    for partition, (most, all_names) in PARTITIONS.items()
    for size in range(1, len(all_names) + 1)
    for names in itertools.combinations(all_names, size)
]


class Model:
    """Every call as it is, and sums made anew each time."""

    def __init__(self, basic):
        self.calls, self.basic, self.ended, self.closed = {}, basic, False, False

    def spent(self, of, extra=(), analyst=None):
        """The largest sum over all sets of parts that a unit can be in."""
        held = [call for call in (*self.calls.values(), *extra) if analyst in (None, call["analyst"])]

        def charged(parts):
            return sum(
                call[of] * sum((call["parts"].partition, name) in parts for name in call["parts"].names)
                if call["parts"]
                else call[of]
                for call in held
            )

        return max(map(charged, SETS))

    def admits(self, call, price=None):
        after = [call] if price is None else [call | {"main": price[0], "delta": price[1]}]
        capped = call["analyst"] == "cap"
        if capped and (self.spent("main", after, "cap") > CAP or self.spent("delta", after, "cap") > CAP):
            return False
        if self.spent("delta", after) > DELTA:
            return False
        if not self.ended and self.spent("main", after) <= MAIN:
            return True
        asked = LIMIT if capped and call["basic"] else call["basic"]
        return bool(self.basic) and not self.closed and self.epsilons() + asked <= self.basic

    def epsilons(self):
        return sum(call["basic"] for call in self.calls.values())

    def add(self, number, call):
        self.ended |= bool(self.basic) and self.spent("main", [call]) > MAIN
        self.closed |= bool(self.basic) and self.epsilons() + call["basic"] > self.basic
        self.calls[number] = call


class PartsOfAll(RuleBasedStateMachine):
    """The ledger in memory and one in a file, against the model."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        self.ledgers = [open_ledger(":memory:"), self.begun()]
        self.open = {}

    def begun(self):
        self.path = f"{self.folder.name}/parts.ledger"
        return open_ledger(self.path)

    def teardown(self):
        self.verify()
        self.reopen()
        self.verify()
        for ledger in self.ledgers:
            ledger.close()
        self.folder.cleanup()

    @initialize(basic=st.sampled_from([0, BASIC]))
    def opened(self, basic):
        self.model = Model(basic)
        for ledger in self.ledgers:
            ledger.open(replace(terms("visits", MAIN, DELTA), basic=basic))
            ledger.set_quota("visits", "cap", Amount(CAP, CAP))

    @rule(
        main=st.integers(0, 14),
        delta=st.integers(0, 6),
        basic=st.integers(0, 9),
        parts=st.sampled_from(SCOPES),
        analyst=st.sampled_from(["ann", "ann", "cap"]),
    )
    def reserve(self, main, delta, basic, parts, analyst):
        call = {"main": main, "delta": delta, "basic": basic, "parts": parts, "analyst": analyst}
        told = (QUESTION, Amount(main, delta))
        if not self.model.admits(call):
            for ledger in self.ledgers:
                with pytest.raises(BudgetExceeded):
                    ledger.reserve("visits", analyst, "count", *told, basic=basic, parts=parts)
            return
        made = [ledger.reserve("visits", analyst, "count", *told, basic=basic, parts=parts) for ledger in self.ledgers]
        assert made[0] == made[1]
        if self.model.closed:
            call["basic"] = 0
        self.model.add(made[0].call, call)
        self.open[made[0].call] = made[0]

    @rule(data=st.data())
    def settle(self, data):
        if self.open:
            call = data.draw(st.sampled_from(sorted(self.open)))
            held = self.model.calls[call]
            held["main"], held["delta"] = (data.draw(st.integers(0, held[name])) for name in ("main", "delta"))
            for ledger in self.ledgers:
                ledger.settle(self.open[call], Amount(held["main"], held["delta"]), 1, 1, ANSWER)
            del self.open[call]

    @rule(data=st.data())
    def void(self, data):
        if self.open:
            call = data.draw(st.sampled_from(sorted(self.open)))
            for ledger in self.ledgers:
                ledger.void(self.open[call])
            del self.open[call], self.model.calls[call]

    @invariant()
    def what_is_spent_is_the_dearest_set_of_parts(self):
        waiting = Model(0)
        waiting.calls = {number: self.model.calls[number] for number in self.open}
        for ledger in self.ledgers:
            found = ledger.balance("visits")
            assert found.spent == Amount(self.model.spent("main"), self.model.spent("delta"))
            assert found.open == Amount(waiting.spent("main"), waiting.spent("delta"))
            for analyst in ("ann", "cap"):
                own = ledger.analyst_balance("visits", analyst).spent
                assert own == Amount(*(self.model.spent(of, (), analyst) for of in ("main", "delta")))

    @rule(parts=st.sampled_from(SCOPES))
    def what_is_left_of_parts_is_the_largest_price_that_fits(self, parts):
        if self.model.ended:
            return
        for ledger in self.ledgers:
            whole, own = ledger.balance("visits", parts).left, ledger.analyst_balance("visits", "cap", parts).left
            for analyst, left in (("ann", whole), ("cap", own.cut_to(whole))):
                model = Model(0)
                model.calls = self.model.calls
                call = {"main": 0, "delta": 0, "basic": 0, "parts": parts, "analyst": analyst}
                for price, fits in (
                    ((left.main, left.delta), True),
                    ((left.main + 1, 0), False),
                    ((0, left.delta + 1), False),
                ):
                    assert model.admits(call, price) == fits

    @rule(parts=st.sampled_from(SCOPES[1:]), other=st.integers(1, 4))
    def another_number_of_parts_is_refused(self, parts, other):
        held = any(call["parts"] and call["parts"].partition == parts.partition for call in self.model.calls.values())
        if held and other != parts.most:
            for ledger in self.ledgers:
                with pytest.raises(InvalidParameter, match="most="):
                    ledger.reserve("visits", "ann", "count", QUESTION, Amount(0), parts=replace(parts, most=other))
                with pytest.raises(InvalidParameter, match="most="):
                    ledger.balance("visits", replace(parts, most=other))

    @rule()
    def both_tell_the_same_of_every_part(self):
        found = [ledger.partitions("visits") for ledger in self.ledgers]
        assert found[0] == found[1]
        for partition in found[0]:
            for part, amount in partition.parts.items():
                calls = [call for call in self.model.calls.values() if call["parts"]]
                named = [call for call in calls if call["parts"].partition == partition.partition]
                mine = [call for call in named if part in call["parts"].names]
                assert amount == Amount(sum(call["main"] for call in mine), sum(call["delta"] for call in mine))

    @rule()
    def reopen(self):
        self.ledgers[1].close()
        self.ledgers[1] = open_ledger(self.path)

    @rule()
    def verify(self):
        assert [ledger.verify().problems for ledger in self.ledgers] == [[], []]


MANY = settings(max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestPartsOfAll = PartsOfAll.TestCase
TestPartsOfAll.settings = MANY


class PartsOnAServer(PartsOfAll):
    def begun(self):
        self.path, found = opened_anew()
        return found


@pytest.mark.usefixtures("server")
class TestPartsOnAServer(PartsOnAServer.TestCase):
    settings = settings(MANY, max_examples=12)


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    made = make(request.param, tmp_path, request)
    in_parts(made)
    yield made
    made.close()


def charge(ledger, worst, parts, analyst="ann", **said):
    return ledger.reserve("stays", analyst, "count", QUESTION, Amount(worst), parts=parts, **said)


def test_calls_of_disjoint_parts_cost_the_dearest(ledger):
    assert ledger.balance("stays").spent == Amount(49, 5)
    assert [ledger.balance("stays", parts).left.main for parts in (None, NORTH, SOUTH, BOTH)] == [51, 54, 51, 51]
    held = ledger.partitions("stays")
    assert [(each.partition, each.most, each.spent) for each in held] == [("region", 1, Amount(49, 5))]
    assert held[0].parts == {"north": Amount(46, 5), "south": Amount(49, 2)}
    with pytest.raises(BudgetExceeded, match=r"asked for 55 .*, but 54 .* is left of the dataset cap"):
        charge(ledger, 55, NORTH)
    charge(ledger, 54, NORTH)
    charge(ledger, 51, SOUTH)
    with pytest.raises(BudgetExceeded):
        charge(ledger, 1, None)


def test_a_call_remembers_its_parts_and_the_export_tells_them(ledger):
    told = [call.parts for call in ledger.calls("stays")]
    assert told == [NORTH, SOUTH, BOTH, NORTH]
    lines = [line["parts"] for line in ledger.export("stays") if line["kind"] == "reserve"]
    assert [Parts.of(line) for line in lines] == told
    assert {line["parts"] for line in ledger.export("stays") if line["kind"] != "reserve"} == {""}


def test_a_question_is_another_one_elsewhere(ledger):
    call = charge(ledger, 1, NORTH, request="key")
    for parts in (None, SOUTH, BOTH):
        with pytest.raises(RequestConflict):
            charge(ledger, 1, parts, request="key")
    ledger.settle(call, Amount(1), 1, 1, ANSWER)
    assert ledger.replay("stays", "ann", "key", "count", QUESTION, NORTH).number == call.call
    with pytest.raises(RequestConflict):
        ledger.replay("stays", "ann", "key", "count", QUESTION)
    assert ledger.last_settled("stays", "count", QUESTION, NORTH).number == call.call
    assert ledger.last_settled("stays", "count", QUESTION) is None


def test_the_main_account_ends_by_what_the_dearest_parts_hold(ledger):
    ledger.open(replace(terms("both", 10, 10), basic=20))
    for parts, basic in ((NORTH, 5), (SOUTH, 5)):
        ledger.settle(
            ledger.reserve("both", "ann", "count", QUESTION, Amount(8), basic=basic, parts=parts),
            Amount(8),
            1,
            1,
            ANSWER,
        )
    assert (ledger.balance("both").basic.spent, ledger.balance("both").basic.alone) == (10, False)
    ledger.reserve("both", "ann", "count", QUESTION, Amount(3), basic=4, parts=NORTH)
    assert (ledger.balance("both").basic.spent, ledger.balance("both").basic.alone) == (14, True)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("both", "ann", "count", QUESTION, Amount(1), parts=SOUTH)
    assert ledger.verify().ok


def test_a_price_beyond_all_numbers_of_several_parts_is_refused(ledger):
    """It would pass what totals can hold, if only the epsilons had to fit."""
    ledger.open(replace(terms("both", 10, 10), basic=20))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("both", "ann", "count", QUESTION, Amount(LIMIT), basic=1, parts=replace(BOTH, most=2))
    ledger.reserve("both", "ann", "count", QUESTION, Amount(LIMIT), basic=1, parts=BOTH)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "wrong", [("region", 0, ("a",)), ("", 1, ("a",)), ("region", 1, ()), ("region", 1, ("a", "a"))]
)
def test_parts_that_say_nothing_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        Parts(*wrong)


def test_the_hash_has_the_parts_where_there_are_some_and_tells_them_from_an_origin():
    entry = ChainEntry(1, Kind.NOTE, "visits", label="rows")
    assert seal(GENESIS, entry) == "084f36892c4407791b86eb4c0892bb05abedf2dedee7bbe416f251e7a1733dcb"
    others = [
        entry,
        entry._replace(parts=NORTH.text),
        entry._replace(parts=SOUTH.text),
        entry._replace(origin=NORTH.text),
    ]
    assert len({seal(GENESIS, each) for each in others}) == len(others)


# Calls of the story of `in_parts`, by the numbers of their entries.
OF_NORTH, OF_SOUTH, GIVEN_BACK = 2, 4, 6
CHANGES = {
    "another part": f"UPDATE entries SET parts = '{SOUTH.text}' WHERE number = {OF_NORTH}",
    "another most": f"UPDATE entries SET parts = '{replace(NORTH, most=2).text}' WHERE number = {OF_NORTH}",
    "a part dropped": f"UPDATE entries SET parts = '{NORTH.text}' WHERE number = {GIVEN_BACK}",
    "no parts": f"UPDATE entries SET parts = '' WHERE number = {OF_SOUTH}",
    "parts that are none": f"UPDATE entries SET parts = 'north' WHERE number = {OF_NORTH}",
    "parts of a settlement": f"UPDATE entries SET parts = '{NORTH.text}' WHERE number = {OF_NORTH + 1}",
    "most of the partition": "UPDATE partitions SET most = 2",
    "another partition": "INSERT INTO partitions VALUES ('stays', 'year', 1)",
    "what a part holds": "UPDATE parts SET spent_main = spent_main - 1 WHERE part = 'south' AND analyst = ''",
    "what an analyst's part holds": "UPDATE parts SET open_main = 0 WHERE part = 'north' AND analyst = 'bob'",
    "a part that is gone": "DELETE FROM parts WHERE part = 'south'",
    "a part that is new": "INSERT INTO parts VALUES ('stays', '', 'region', 'west', 0, 0, 0, 0)",
    "the part of a call": f"UPDATE call_parts SET part = 'south' WHERE call = {OF_NORTH}",
    "a call that lost its part": f"DELETE FROM call_parts WHERE call = {OF_SOUTH}",
    "what is spent": "UPDATE datasets SET spent_main = 46",
}
# Those that move no sum are found by a verification alone, or by the end of the chain.
QUIET = ("parts of a settlement", "another part", "another most", "a part dropped", "no parts", "parts that are none")


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_parts_hold_is_found(tmp_path, request, kind, change):
    target = place(kind, tmp_path, request)
    with closing(open_ledger(target)) as ledger:
        in_parts(ledger)
        if kind == "sql":
            raw(target, CHANGES[change])
        else:
            with request.getfixturevalue("postgres").connect() as admin:
                schema = target.rsplit("schema=", 1)[1]
                admin.execute(f"SET search_path = {schema}; SET session_replication_role = replica")
                admin.execute(CHANGES[change])
        problems = ledger.verify().problems
        assert problems, change
        if change in QUIET:
            assert any("hash does not follow" in problem for problem in problems)
    with pytest.raises(LedgerCorrupted):
        open_ledger(target)


@pytest.mark.parametrize("change", [{"parts": SOUTH.text}, {"parts": replace(NORTH, most=2).text}, {"parts": ""}])
def test_a_changed_entry_is_found_in_memory(change):
    ledger = open_ledger(":memory:")
    in_parts(ledger)
    held = ledger.store._held
    held._entries[OF_NORTH - 1] = held._entries[OF_NORTH - 1]._replace(**change)
    assert not ledger.verify().ok


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (NORTH.text, "it passes the cap of the dataset"),
        ("", "it passes the cap of the dataset"),
        (replace(SOUTH, most=2).text, "held with another number"),
        (SOUTH.text.replace(",", ", "), "parts cannot be read"),
        (SOUTH.text, None),
    ],
)
def test_a_chain_with_right_hashes_that_breaks_the_rule_is_found(second, why):
    told = [
        {"kind": Kind.OPEN, "body": '["ab12","{}"]', "main": 10},
        {"kind": Kind.RESERVE, "analyst": "ann", "call": 2, "label": "count", "main": 6, "parts": NORTH.text},
        {"kind": Kind.RESERVE, "analyst": "ann", "call": 3, "label": "count", "main": 6, "parts": second},
    ]
    entries = [ChainEntry(number=number, dataset="visits", **each) for number, each in enumerate(told, 1)]
    problems = audited(entries, 3, {}, {}, None).problems
    found = [problem for problem in problems if problem.startswith("entry")]
    assert (found == []) if why is None else (len(found) == 1 and why in found[0])


def before_parts(path):
    """Turn the file into what the version before left."""
    raw(
        path,
        "DROP TABLE call_parts",
        "DROP TABLE parts",
        "DROP TABLE partitions",
        "ALTER TABLE entries DROP COLUMN parts",
    )


def test_a_file_of_an_earlier_version_goes_on_with_parts(tmp_path):
    path = tmp_path / "test.ledger"
    with closing(open_ledger(path)) as old:
        old.open(terms("visits", 20, 20))
        old.settle(old.reserve("visits", "ann", "count", QUESTION, Amount(4, 1)), Amount(3), 1, 1, ANSWER)
        left, before = old.reserve("visits", "bob", "count", QUESTION, Amount(2)), old.head()
    before_parts(path)
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT format FROM chain").fetchone() == (1,)
    with closing(open_ledger(path)) as new:
        assert (new.head(), new.verify().problems, new.balance("visits").spent) == (before, [], Amount(5))
        for parts in (NORTH, SOUTH):
            new.settle(
                new.reserve("visits", "ann", "count", QUESTION, Amount(15), parts=parts), Amount(15), 1, 1, ANSWER
            )
        new.settle(left, Amount(1), 1, 1, ANSWER)
        assert (new.verify().problems, new.balance("visits").spent) == ([], Amount(19))
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT format FROM chain").fetchone() == (3,)


def test_moved_and_copied_ledgers_hold_the_same_parts(tmp_path, postgres):
    path, url = tmp_path / "here.ledger", postgres.schema()
    with closing(open_ledger(path)) as ledger:
        in_parts(ledger)
        held = ledger.balance("stays"), ledger.partitions("stays"), ledger.analyst_balance("stays", "bob", SOUTH)
    move(path, url, with_open_calls=True)
    back_up(url, tmp_path / "copy.ledger")
    for target in (url, tmp_path / "copy.ledger"):
        with closing(open_ledger(target)) as ledger:
            found = ledger.balance("stays"), ledger.partitions("stays"), ledger.analyst_balance("stays", "bob", SOUTH)
            assert found == held
            assert ledger.verify().problems == []
            charge(ledger, 54, NORTH)
            with pytest.raises(BudgetExceeded):
                charge(ledger, 1, NORTH)


def test_a_role_that_could_read_before_reads_parts_after_a_migration(postgres):
    url = postgres.schema()
    address = Address.parse(url)
    wire = Wire(address, 10)
    prepare(wire, address, 10, "5")
    wire.close()
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE mary LOGIN")
        admin.execute(f"GRANT USAGE ON SCHEMA {address.schema} TO mary; GRANT SELECT ON {address.schema}.calls TO mary")
    open_ledger(url).close()
    with postgres.connect(user="mary") as reader:
        for table in ("partitions", "parts", "call_parts"):
            assert reader.execute(f"SELECT count(*) FROM {address.schema}.{table}").fetchone() == (0,)


def test_a_charge_takes_time_for_its_parts_alone(tmp_path):
    """Of thousands of parts: no statement looks at all of them."""
    ledger = open_ledger(tmp_path / "test.ledger")
    ledger.open(terms("stays", 100, 100))
    every = Parts("month", 3, tuple(f"month {number:04}" for number in range(3_000)))
    ledger.settle(charge(ledger, 5, every), Amount(2), 1, 1, ANSWER)
    one = replace(every, names=every.names[1_000:1_001])

    def asked():
        ledger.settle(charge(ledger, 5, one), Amount(1), 1, 1, ANSWER)
        ledger.balance("stays", one)
        ledger.analyst_balance("stays", "ann", one)

    seen = statements(ledger, asked)
    assert len(seen) <= 60
    plans = []
    with ledger.store.transactions.reading() as connection:
        for statement, parameters in seen:
            one_of = parameters[0] if isinstance(parameters, list) else parameters
            plans += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", one_of)]
    # Of an inner query, the few rows that it hands on.
    scans = {plan for plan in plans if plan.startswith("SCAN") and not plan.startswith(("SCAN chain", "SCAN anon"))}
    assert scans - {"SCAN CONSTANT ROW"} == set()
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]
    assert ledger.balance("stays").spent == Amount(7)
    ledger.close()


def test_parts_that_cannot_be_read_hide_no_other_call_and_are_not_settled(tmp_path):
    path = tmp_path / "test.ledger"
    with closing(open_ledger(path)) as ledger:
        in_parts(ledger)
        left = next(call for call in ledger.calls("stays") if call.settled is None)
        raw(path, f"UPDATE entries SET parts = 'north' WHERE number = {left.number}")
        assert [call.damage for call in ledger.calls("stays")] == [
            "",
            "",
            "",
            f"entry {left.number}: its parts are damaged",
        ]
        with pytest.raises(LedgerCorrupted, match="its parts are damaged"):
            ledger.settle(Reservation(left.number), Amount(1), 1, 1, ANSWER)
