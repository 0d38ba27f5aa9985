"""The basic account beside the main one, in every ledger: admissions, totals, ends, and what a changed file shows."""

import random
import sqlite3
import threading
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from chary.amounts import LIMIT, Basic
from chary.errors import BudgetExceeded, LedgerCorrupted, LedgerMismatch
from chary.ledger import Amount, open_ledger
from chary.ledger.entries import GENESIS, ChainEntry, Kind, seal
from chary.ledger.locations import back_up, move

from .kit import ANSWER, KINDS, QUESTION, make, terms

MAIN, DELTA, BASIC = 100, 20, 50
TERMS = replace(terms("visits", MAIN, DELTA), basic=BASIC)


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    made = make(request.param, tmp_path, request)
    made.open(TERMS)
    yield made
    made.close()


def reserve(ledger, main, basic=LIMIT, delta=0, analyst="ann"):
    return ledger.reserve("visits", analyst, "count", QUESTION, Amount(main, delta), basic=basic)


def settle(ledger, call, main, delta=0):
    ledger.settle(call, Amount(main, delta), 1, 1, ANSWER)


class Plain:
    """The rule in plain words: sums of what every call holds, made anew each time, and what has ended for good."""

    def __init__(self, cap=None):
        self.calls, self.cap, self.ended, self.closed = {}, cap, False, False

    def sums(self, analyst=None):
        held = [call for call in self.calls.values() if analyst in (None, call[3])]
        return [sum(call[part] for call in held) for part in range(3)]

    def admits(self, main, delta, basic, analyst):
        whole = self.sums()
        if analyst == "cap" and not (self.sums("cap")[0] + main <= self.cap and self.sums("cap")[1] + delta <= DELTA):
            return False
        by_main = not self.ended and whole[0] + main <= MAIN
        counted = basic if analyst != "cap" or not basic else LIMIT
        by_basic = not self.closed and whole[2] + counted <= BASIC
        return whole[1] + delta <= DELTA and (by_main or by_basic)

    def reserve(self, number, main, delta, basic, analyst):
        whole = self.sums()
        self.ended |= whole[0] + main > MAIN
        self.closed |= whole[2] + basic > BASIC
        self.calls[number] = [main, delta, basic, analyst]


@pytest.mark.parametrize("seed", range(6))
def test_every_ledger_does_what_plain_sums_say(ledger, seed):
    random_, plain, waiting, refused = random.Random(seed), Plain(cap=60), [], 0
    ledger.set_quota("visits", "cap", Amount(60, DELTA))
    for _ in range(80):
        what = random_.random()
        if what < 0.6 or not waiting:
            main, delta = random_.choice([0, 1, 5, 20, 120]), random_.choice([0, 0, 0, 1])
            basic = random_.choice([0, 1, 2, 10, LIMIT] if seed % 2 else [1, 2, 10])
            analyst = random_.choice(["ann", "cap"])
            if plain.admits(main, delta, basic, analyst):
                call = reserve(ledger, main, basic, delta, analyst)
                plain.reserve(call.call, main, delta, basic, analyst)
                waiting.append(call)
            else:
                refused += 1
                with pytest.raises(BudgetExceeded):
                    reserve(ledger, main, basic, delta, analyst)
            continue
        call = waiting.pop(random_.randrange(len(waiting)))
        held = plain.calls[call.call]
        if what < 0.9:
            held[0] = random_.randint(0, held[0])
            settle(ledger, call, held[0], held[1])
        else:
            ledger.void(call)
            del plain.calls[call.call]
        found = ledger.balance("visits")
        assert [found.spent.main, found.spent.delta] == plain.sums()[:2]
        assert found.basic.alone == plain.ended
        assert found.basic.spent == (BASIC + 1 if plain.closed else plain.sums()[2])
    assert refused
    assert ledger.verify().problems == []


def test_one_account_at_most_is_passed(ledger):
    settle(ledger, reserve(ledger, 120, 20), 120)
    found = ledger.balance("visits")
    assert (found.basic.spent, found.basic.alone, found.left) == (20, True, Amount(0, DELTA))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 0, 31)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 0)
    settle(ledger, reserve(ledger, 1, 30), 0)
    reserve(ledger, 0, 0)
    assert ledger.verify().ok


def test_the_main_account_has_ended_also_where_the_call_missed_or_never_ran(ledger):
    ledger.void(reserve(ledger, 101, 10))
    found = ledger.balance("visits")
    assert (found.spent, found.basic.spent, found.basic.alone) == (Amount(0), 0, True)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 1)


def test_what_has_no_epsilon_closes_the_basic_account(ledger):
    settle(ledger, reserve(ledger, 1, 10), 1)
    settle(ledger, reserve(ledger, 1), 0)
    ledger.void(reserve(ledger, 1, 40))
    found = ledger.balance("visits")
    assert (found.basic.spent, found.basic.alone) == (BASIC + 1, False)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 100, 1)
    reserve(ledger, 99, 1)


def test_the_main_account_alone_admits_an_analyst_under_a_cap(ledger):
    """A cap counts main and delta, so epsilons would pass it by: they neither end the main account nor go on after."""
    ledger.set_quota("visits", "cap", Amount(60, DELTA))
    settle(ledger, reserve(ledger, 50, 1), 50)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 51, 1, analyst="cap")
    settle(ledger, reserve(ledger, 40, 1, analyst="cap"), 40)
    settle(ledger, reserve(ledger, 120, 10), 120)
    for main in (0, 1):
        with pytest.raises(BudgetExceeded):
            reserve(ledger, main, 1, analyst="cap")
    reserve(ledger, 0, 0, analyst="cap")
    assert ledger.verify().ok


def test_what_calls_under_keys_added_to_the_basic_account(ledger):
    keyed = [
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(main), key, basic=basic)
        for key, main, basic in [("k 1", 3, 10), ("k 2", 2, 5), ("k 3", 1, 4), ("other", 1, 20)]
    ]
    settle(ledger, keyed[0], 0)
    ledger.void(keyed[1])
    found = ledger.charged_under("visits", "ann", "k ")
    assert (found.spent, found.open, found.basic) == (Amount(1), Amount(1), Basic(BASIC, 14))


def test_delta_has_one_account(ledger):
    settle(ledger, reserve(ledger, 1, 1, DELTA), 1, DELTA)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 1, 1, 1)


def test_threads_are_admitted_one_after_another(ledger):
    admitted = []

    def ask():
        with suppress(BudgetExceeded):
            admitted.append(reserve(ledger, 120, 20))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 2
    assert ledger.verify().ok


def test_a_dataset_without_a_basic_account_stays_without(ledger):
    ledger.open(terms("old", 10, 10))
    ledger.open(replace(terms("old", 10, 10), basic=BASIC))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("old", "ann", "count", QUESTION, Amount(11), basic=0)
    call = ledger.reserve("old", "ann", "count", QUESTION, Amount(1), basic=3)
    assert ledger.call(call.call).basic == 0
    assert ledger.balance("old").basic is None
    with pytest.raises(LedgerMismatch, match=r"capacity\.basic"):
        ledger.open(replace(TERMS, basic=BASIC + 1))
    with pytest.raises(LedgerMismatch, match=r"capacity\.basic"):
        ledger.open(terms("visits", MAIN, DELTA))


def test_the_hash_has_the_basic_part_where_there_is_one():
    entry = ChainEntry(1, Kind.RESERVE, "visits", "ann", 1, "count", main=4)
    told = entry._replace(basic=7)
    assert len({seal(GENESIS, each) for each in (entry, told, told._replace(basic=8), told._replace(origin="7"))}) == 4


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE datasets SET spent_basic = 0",
        "UPDATE datasets SET spent_basic = 1000",
        "UPDATE datasets SET alone = 1 - alone",
        "UPDATE datasets SET capacity_basic = 0, spent_basic = 0",
        "UPDATE datasets SET capacity_basic = 5000",
    ],
)
@pytest.mark.parametrize("main", [20, 120])
def test_a_changed_account_is_found(tmp_path, change, main):
    path = tmp_path / "changed.ledger"
    with closing(open_ledger(path)) as ledger:
        ledger.open(TERMS)
        settle(ledger, reserve(ledger, main, 20), main)
        kept = open_ledger(path)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(change)
        raw.commit()
    with closing(kept):
        assert not kept.verify().ok
    if "capacity_basic = 5000" not in change and (main, change[-1]) != (20, "e"):
        with pytest.raises(LedgerCorrupted):
            open_ledger(path)


def test_an_earlier_version_does_not_open_it(tmp_path):
    """It would charge without adding to the basic account; a file without one it goes on with."""
    for each, format_ in ((TERMS, 2), (terms(), 1)):
        path = tmp_path / f"{format_}.ledger"
        with closing(open_ledger(path)) as ledger:
            ledger.open(each)
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("SELECT format FROM chain").fetchone() == (format_,)
        with closing(open_ledger(path)) as ledger:
            assert ledger.verify().ok


def test_a_moved_or_copied_ledger_has_both_accounts(tmp_path, postgres):
    path, url = tmp_path / "here.ledger", postgres.schema()
    with closing(open_ledger(path)) as ledger:
        ledger.open(TERMS)
        settle(ledger, reserve(ledger, 120, 20), 120)
        held = ledger.balance("visits")
    move(path, url)
    back_up(url, tmp_path / "copy.ledger")
    for place in (url, tmp_path / "copy.ledger"):
        with closing(open_ledger(place)) as ledger:
            assert ledger.balance("visits") == held
            assert ledger.verify().ok
            settle(ledger, reserve(ledger, 7, 30), 7)


def test_a_ledger_in_memory_is_the_same():
    ledger = open_ledger(":memory:")
    ledger.open(TERMS)
    assert [line["basic"] for line in ledger.export("visits")] == [BASIC]
