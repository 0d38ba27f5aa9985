"""Parts of a partition in every ledger: what is spent is the dearest set of parts that one unit can be in.

The model says it by its definition: for every set of at most `most` parts of each partition, what concerns all rows and
what these parts were charged fits the cap. `spent` is the largest of those sums.
"""

import itertools
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from chary.amounts import LIMIT
from chary.errors import BudgetExceeded, InvalidParameter
from chary.ledger import Amount, Parts, open_ledger

from .kit import ANSWER, QUESTION, emptied, terms
from .test_ledger_model import FAST

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
        self.path = SERVER["ledger"]
        emptied(self.path, SERVER["owner"])
        return open_ledger(self.path)


SERVER = {}


@pytest.mark.usefixtures("server")
class TestPartsOnAServer(PartsOnAServer.TestCase):
    settings = settings(MANY, max_examples=12)


@pytest.fixture(scope="module")
def server(postgres):
    SERVER["ledger"] = postgres.schema()
    open_ledger(SERVER["ledger"]).close()
    with postgres.connect() as SERVER["owner"]:
        yield
