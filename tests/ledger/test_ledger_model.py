"""Both ledgers side by side under random operations: the same answers, balances and errors, always in order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from chary.errors import CharyError
from chary.ledger import Amount, Reservation, Terms, open_ledger
from chary.ledger.records import CapReached

from .kit import opened_anew

DATASETS = st.sampled_from(["visits", "trips"])
ANALYSTS = st.sampled_from(["ann", "bob"])
KINDS = st.sampled_from(["count", "test"])
BODIES = st.sampled_from(["{}", '{"above":5}'])
KEYS = st.sampled_from(["k1", "k2"])
AMOUNTS = st.builds(Amount, st.integers(0, 12), st.integers(0, 6))
CALLS = st.builds(Reservation, st.integers(0, 25))
SECRETS = st.none() | st.sampled_from([b"", b"secret"])
CAPACITY = Amount(30, 20)
# Thousands of commits: where there is a disk in memory, waiting for the real one would show nothing more.
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


def timeless(value):
    """A result without the times, in which the two ledgers must differ, and what follows from them."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in ("created", "previous", "hash")}
    if hasattr(value, "settled") and hasattr(value, "created"):
        slots = [name for name in type(value).__slots__ if name not in ("created", "settled")]
        return {name: getattr(value, name) for name in slots} | {"closed": value.settled is None}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def outcome(act):
    """What a call returned or raised, comparable."""
    try:
        return timeless(act())
    except CapReached as refusal:
        return (type(refusal), str(refusal), refusal.asked, refusal.left, refusal.cap)
    except CharyError as error:
        return (type(error), str(error))


class SideBySide(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        self.sql, self.memory = self.begun(), open_ledger(":memory:")

    def begun(self):
        self.path = Path(self.folder.name) / "model.ledger"
        return open_ledger(self.path)

    def teardown(self):
        self.verify()
        self.sql.close()
        self.folder.cleanup()

    def both(self, act):
        left, right = outcome(lambda: act(self.sql)), outcome(lambda: act(self.memory))
        assert left == right
        return left

    @initialize()
    def open_ledger(self):
        self.both(lambda ledger: ledger.open(Terms("visits", "ab12", "{}", CAPACITY)))

    @rule(dataset=DATASETS, capacity=st.sampled_from([CAPACITY, Amount(1)]))
    def open(self, dataset, capacity):
        self.both(lambda ledger: ledger.open(Terms(dataset, "ab12", "{}", capacity)))

    @rule(dataset=DATASETS, analyst=ANALYSTS, cap=AMOUNTS)
    def share(self, dataset, analyst, cap):
        self.both(lambda ledger: ledger.set_quota(dataset, analyst, cap))

    @rule(dataset=DATASETS, analyst=ANALYSTS, kind=KINDS, body=BODIES, worst=AMOUNTS, request=st.none() | KEYS)
    def reserve(self, dataset, analyst, kind, body, worst, request):
        self.both(lambda ledger: ledger.reserve(dataset, analyst, kind, body, worst, request))

    @rule(call=CALLS, price=AMOUNTS, hits=st.integers(0, 3), secret=SECRETS, other=st.none() | CALLS)
    def settle(self, call, price, hits, secret, other):
        secrets = {} if other is None else {other.call: secret}
        self.both(lambda ledger: ledger.settle(call, price, hits, 3, '"yes"', secret, secrets))

    @rule(data=st.data(), share=st.integers(0, 3), secret=SECRETS)
    def settle_an_open_call(self, data, share, secret):
        opened = [call for name in self.memory.datasets() for call in self.memory.calls(name.name) if not call.settled]
        if opened:
            call = data.draw(st.sampled_from(opened))
            price = Amount(call.worst.main * share // 3, call.worst.delta * share // 3)
            self.both(lambda ledger: ledger.settle(Reservation(call.number), price, share, 3, '"yes"', secret))

    @rule(call=CALLS)
    def void(self, call):
        self.both(lambda ledger: ledger.void(call))

    @rule(dataset=DATASETS, kind=KINDS)
    def note(self, dataset, kind):
        self.both(lambda ledger: ledger.note(dataset, kind, "{}"))

    @rule(dataset=DATASETS, analyst=ANALYSTS, request=KEYS, kind=KINDS, body=BODIES)
    def replay(self, dataset, analyst, request, kind, body):
        self.both(lambda ledger: ledger.replay(dataset, analyst, request, kind, body))

    @rule(dataset=DATASETS, kind=KINDS, body=BODIES)
    def last_settled(self, dataset, kind, body):
        self.both(lambda ledger: ledger.last_settled(dataset, kind, body))

    @rule()
    def reopen(self):
        self.sql.close()
        self.sql = open_ledger(self.path)

    @rule(number=st.integers(0, 25))
    def look(self, number):
        self.both(lambda ledger: ledger.call(number))
        self.both(lambda ledger: ledger.secret(number))

    @rule(dataset=DATASETS, after=st.integers(-1, 25), limit=st.none() | st.integers(0, 5))
    def list_calls(self, dataset, after, limit):
        self.both(lambda ledger: list(ledger.calls(dataset, after, limit)))

    @rule(dataset=DATASETS)
    def export(self, dataset):
        self.both(lambda ledger: list(ledger.export(dataset)))

    @invariant()
    def same_totals(self):
        self.both(lambda ledger: ledger.datasets())
        for dataset in ("visits", "trips"):
            self.both(lambda ledger, name=dataset: ledger.balance(name))
            self.both(lambda ledger, name=dataset: ledger.tally(name))
            self.both(lambda ledger, name=dataset: ledger.version(name))
            for analyst in ("ann", "bob"):
                self.both(lambda ledger, name=dataset, who=analyst: ledger.analyst_balance(name, who))

    @invariant()
    def caps_hold_and_totals_are_the_sums_of_the_entries(self):
        for terms in self.memory.datasets():
            balance = self.sql.balance(terms.name)
            assert balance.spent.fits_into(terms.capacity)
            assert balance.open.fits_into(balance.spent)
            lines = list(self.sql.export(terms.name))
            reserved = sum(line["main"] for line in lines if line["kind"] == "reserve")
            assert balance.spent.main == reserved - sum(line["back_main"] for line in lines)
            for analyst in ("ann", "bob"):
                own = self.sql.analyst_balance(terms.name, analyst)
                assert own.capacity is None or own.spent.fits_into(own.capacity)

    @rule()
    def verify(self):
        assert self.sql.verify().problems == []
        assert self.memory.verify().problems == []


MANY = settings(max_examples=50, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TestSideBySide = SideBySide.TestCase
TestSideBySide.settings = MANY


class SideBySideOnAServer(SideBySide):
    def begun(self):
        self.path, found = opened_anew()
        return found


@pytest.mark.usefixtures("server")
class TestOnAServer(SideBySideOnAServer.TestCase):
    settings = settings(MANY, max_examples=12)


def test_the_comparison_can_fail():
    machine = SideBySide()
    machine.memory.open(Terms("visits", "ab12", "{}", CAPACITY))
    with pytest.raises(AssertionError):
        machine.same_totals()
    machine.teardown()
