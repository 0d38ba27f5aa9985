"""What holds for every ledger, in memory and in a file."""

import json
import time
from hashlib import sha256

import pytest

from chary.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerError,
    LedgerMismatch,
    RequestConflict,
    RequestInFlight,
)
from chary.ledger import Amount, Balance, Ledger, RequestAnswered, Reservation, SecretMoved, State, Terms, canonical
from chary.ledger.entries import GENESIS, ChainEntry
from chary.ledger.records import CapReached, Tally

from .kit import ANSWER, QUESTION, ask, terms

NONE = Amount(0)


@pytest.mark.parametrize("second", [10**12, 2**40, 2**63, -(10**12)])
def test_a_clock_beyond_all_years_is_told_and_charges_nothing(ledger, monkeypatch, second):
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3))
    monkeypatch.setattr(time, "time_ns", lambda: second * 10**9)
    for write in (
        lambda: ledger.reserve("visits", "ann", "count", QUESTION, Amount(3)),
        lambda: ledger.settle(call, NONE, 0, 1, ANSWER),
        lambda: ledger.void(call),
        lambda: ledger.note("visits", "append", "{}"),
        lambda: ledger.open(terms("trips")),
    ):
        with pytest.raises(LedgerError, match="clock is outside of the years 1 to 9999"):
            write()
    assert (ledger.balance("visits").spent, ledger.call(call.call).state) == (Amount(3), State.RESERVED)


def test_is_a_ledger(ledger):
    assert isinstance(ledger, Ledger)


def test_ten_tenths_fit_into_one_and_the_eleventh_does_not(ledger):
    unit = 10**15
    ledger.open(terms("exact", unit, 0))
    for _ in range(10):
        ask(ledger, worst=unit // 10, price=unit // 10, dataset="exact")
    assert ledger.balance("exact") == Balance(Amount(unit), Amount(unit), NONE)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("exact", "ann", "count", QUESTION, Amount(unit // 10))


def test_reserving_charges_the_worst_and_settling_the_actual_price(ledger):
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4, 3))
    assert ledger.balance("visits") == Balance(Amount(10, 10), Amount(4, 3), Amount(4, 3))
    assert ledger.call(call.call).state == State.RESERVED
    ledger.settle(call, Amount(1, 0), 1, 7, ANSWER)
    assert ledger.balance("visits") == Balance(Amount(10, 10), Amount(1, 0), NONE)
    assert ledger.analyst_balance("visits", "ann") == Balance(None, Amount(1, 0), NONE)
    stored = ledger.call(call.call)
    assert (stored.state, stored.price, stored.hits, stored.tests, stored.answer) == (
        "settled",
        Amount(1, 0),
        1,
        7,
        ANSWER,
    )
    assert stored.created.endswith("+00:00")
    assert stored.created <= stored.settled


def test_a_refusal_says_what_was_asked_and_left_and_charges_nothing(ledger):
    ask(ledger, 8, 8)
    with pytest.raises(CapReached, match=r"asked for 3 \(delta 0\), but 2 \(delta 10\) is left") as refusal:
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(3))
    assert (refusal.value.asked, refusal.value.left, refusal.value.cap) == (Amount(3), Amount(2, 10), "dataset")
    assert ledger.balance("visits").spent == Amount(8)


def test_each_part_of_an_amount_is_a_cap_of_its_own(ledger):
    with pytest.raises(CapReached):
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(0, 11))
    ledger.reserve("visits", "ann", "count", QUESTION, Amount(10, 10))


def test_two_analysts_share_the_cap_of_the_dataset(ledger):
    ledger.set_quota("visits", "ann", Amount(7, 10))
    ledger.set_quota("visits", "bob", Amount(7, 10))
    ask(ledger, 6, 6, analyst="ann")
    with pytest.raises(CapReached) as refusal:
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(2))
    assert (refusal.value.cap, refusal.value.left) == ("analyst", Amount(1, 10))
    with pytest.raises(CapReached) as refusal:
        ledger.reserve("visits", "bob", "count", QUESTION, Amount(5))
    assert (refusal.value.cap, refusal.value.left) == ("dataset", Amount(4, 10))
    ask(ledger, 4, 4, analyst="bob")
    assert ledger.balance("visits").left == Amount(0, 10)


def test_a_share_lies_between_what_is_spent_and_the_capacity(ledger):
    ask(ledger, 5, 5)
    for cap in (Amount(4, 10), Amount(11, 10), Amount(10, 11)):
        with pytest.raises(InvalidParameter):
            ledger.set_quota("visits", "ann", cap)
    ledger.set_quota("visits", "ann", Amount(5))
    ledger.set_quota("visits", "ann", Amount(6))
    assert ledger.analyst_balance("visits", "ann").left == Amount(1)


def test_a_call_is_closed_once(ledger):
    settled = ask(ledger)
    voided = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4))
    ledger.void(voided)
    assert ledger.call(voided.call).state == State.VOIDED
    assert ledger.balance("visits").spent == Amount(1)
    for call, word in ((settled, "settled"), (voided, "voided"), (Reservation(99), "no call"), (Reservation(1), "no")):
        with pytest.raises(LedgerError, match=word):
            ledger.settle(call, NONE, 0, 0, ANSWER)
        with pytest.raises(LedgerError, match=word):
            ledger.void(call)


def test_a_price_above_the_reservation_is_a_mistake_and_leaves_it_open(ledger):
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4, 1))
    for price in (Amount(5), Amount(4, 2)):
        with pytest.raises(ValueError, match="at most"):
            ledger.settle(call, price, 0, 0, ANSWER)
    assert ledger.balance("visits").open == Amount(4, 1)


def test_replay_returns_the_settled_call_of_the_same_analyst(ledger):
    key = ("visits", "ann", "k1")
    assert ledger.replay(*key, "count", QUESTION) is None
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1), "k1")
    assert ledger.replay(*key, "count", QUESTION) is None
    ledger.settle(call, NONE, 0, 1, ANSWER)
    assert ledger.replay(*key, "count", QUESTION) == ledger.call(call.call)
    assert ledger.replay("visits", "bob", "k1", "count", QUESTION) is None


def test_a_crashed_call_stays_charged_and_its_retry_is_a_fresh_call(ledger):
    ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    assert ledger.replay("visits", "ann", "k1", "count", QUESTION) is None
    retry = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    ledger.settle(retry, Amount(1), 1, 1, ANSWER)
    assert ledger.replay("visits", "ann", "k1", "count", QUESTION).number == retry.call
    assert ledger.balance("visits").spent == Amount(4)


def test_a_key_in_flight_is_not_charged_again_and_is_answered_once(ledger):
    first = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    for amount in (Amount(3), Amount(10**6)):
        with pytest.raises(RequestInFlight):
            ledger.reserve("visits", "ann", "count", QUESTION, amount, "k1")
    for other in (("ann", "k2"), ("bob", "k1")):
        ledger.void(ledger.reserve("visits", other[0], "count", QUESTION, Amount(1), other[1]))
    ledger.settle(first, Amount(2), 1, 1, ANSWER)
    for _ in range(2):
        with pytest.raises(RequestAnswered):
            ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
        first.leave()
    assert ledger.replay("visits", "ann", "k1", "count", QUESTION).number == first.call
    assert ledger.balance("visits") == Balance(Amount(10, 10), Amount(2), NONE)


def test_a_key_that_was_left_can_be_reserved_again_and_both_are_charged(ledger):
    left = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    left.leave()
    voided = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    ledger.void(voided)
    kept = ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    with pytest.raises(RequestInFlight):
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    del kept
    ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), "k1")
    assert ledger.balance("visits").spent == Amount(9)


def test_a_reservation_that_was_refused_leaves_no_claim(ledger, tmp_path):
    with pytest.raises(CapReached):
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(11), "k1")
    made = ledger.reserve("visits", "ann", "count", QUESTION, Amount(10), "k1")
    ledger.settle(made, NONE, 0, 1, ANSWER)
    made.leave()
    assert [file.name for file in tmp_path.iterdir() if "-call-" in file.name] == []


@pytest.mark.parametrize(("kind", "body"), [("test", QUESTION), ("count", "{}")])
def test_a_request_key_belongs_to_one_question(ledger, kind, body):
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1), "k1")
    with pytest.raises(RequestConflict):
        ledger.replay("visits", "ann", "k1", kind, body)
    with pytest.raises(RequestConflict):
        ledger.reserve("visits", "ann", kind, body, Amount(1), "k1")
    ledger.void(call)
    assert ledger.replay("visits", "ann", "k1", kind, body) is None
    ledger.reserve("visits", "ann", kind, body, Amount(1), "k1")


def test_the_last_settled_call_of_a_question_is_found_among_all_others(ledger):
    ledger.open(terms("trips"))
    assert ledger.last_settled("visits", "count", QUESTION) is None
    first, last = ask(ledger), ask(ledger, analyst="bob")
    ask(ledger, dataset="trips")
    ledger.reserve("visits", "ann", "count", QUESTION, NONE)
    ledger.void(ledger.reserve("visits", "ann", "count", QUESTION, NONE))
    ledger.settle(ledger.reserve("visits", "ann", "test", QUESTION, NONE), NONE, 0, 1, ANSWER)
    ledger.settle(ledger.reserve("visits", "ann", "count", "{}", NONE), NONE, 0, 1, ANSWER)
    assert first.call < last.call
    assert ledger.last_settled("visits", "count", QUESTION) == ledger.call(last.call)
    with pytest.raises(LedgerError):
        ledger.last_settled("nobody", "count", QUESTION)


def test_what_calls_under_keys_of_one_beginning_were_charged_whatever_became_of_them(ledger):
    ledger.open(terms("trips"))
    for analyst, dataset, key in [("bob", "visits", "k at 1"), ("ann", "trips", "k at 1"), ("ann", "visits", "k as")]:
        ledger.reserve(dataset, analyst, "count", QUESTION, Amount(0, 3), key)
    answered, lost, given_back = (
        ledger.reserve("visits", "ann", "count", QUESTION, Amount(3), key) for key in ("k at 1", "k at 2", "k at 3")
    )
    ledger.settle(answered, Amount(1), 1, 1, ANSWER)
    ledger.void(given_back)
    lost.leave()
    assert ledger.charged_under("visits", "ann", "k at ") == Balance(None, spent=Amount(4), open=Amount(3))
    assert ledger.charged_under("visits", "ann", "k at 1") == Balance(None, spent=Amount(1), open=Amount(0))
    assert ledger.charged_under("visits", "ann", "k\n") == Balance(None, spent=Amount(0), open=Amount(0))
    with pytest.raises(LedgerError):
        ledger.charged_under("nobody", "ann", "k at ")


def test_tally_counts_settled_calls_by_kind(ledger):
    ask(ledger)
    ask(ledger)
    ledger.reserve("visits", "ann", "watch", QUESTION, Amount(1))
    assert ledger.tally("visits") == {"count": Tally(2, 2, 4, Amount(2))}


def test_notes_raise_the_version_of_their_dataset_only(ledger):
    ledger.open(terms("trips"))
    ledger.note("visits", "append", '{"rows":3}')
    ledger.note("visits", "append", '{"rows":1}')
    assert (ledger.version("visits"), ledger.version("trips")) == (2, 0)


def test_calls_are_paged_in_order_and_by_dataset(ledger):
    ledger.open(terms("trips", 10**6))
    mine = [ask(ledger, 1, 0).call for _ in range(3)]
    others = [ask(ledger, 1, 0, dataset="trips").call for _ in range(520)]
    assert [call.number for call in ledger.calls("visits")] == mine
    assert [call.number for call in ledger.calls("trips")] == others
    assert [call.number for call in ledger.calls("trips", after=others[4], limit=2)] == others[5:7]
    assert [call.number for call in ledger.calls("trips", limit=510)] == others[:510]
    assert list(ledger.calls("trips", limit=0)) == []
    assert [call.number for call in ledger.calls("trips", limit=500)] == others[:500]
    with pytest.raises(InvalidParameter):
        list(ledger.calls("trips", limit=-1))
    assert len(list(ledger.export("trips"))) == 1041


def test_reopening_under_other_terms_names_the_field(ledger):
    ledger.open(terms())
    with pytest.raises(LedgerMismatch, match=r'terms: unit is "patient" in the ledger, not "row"$'):
        ledger.open(terms(unit="row"))
    with pytest.raises(LedgerMismatch, match=r"capacity is 10 in the ledger, not 11$"):
        ledger.open(terms(main=11))
    with pytest.raises(LedgerMismatch, match="other columns, other types"):
        ledger.open(Terms("visits", "cd34", terms().conditions, Amount(10, 10)))
    assert ledger.datasets() == [terms()]


def test_conditions_that_compare_equal_in_python_still_differ(ledger):
    ledger.open(Terms("odd", "", '{"a": 1}', NONE))
    ledger.open(Terms("odd", "", '{"a":1}', NONE))
    for other in ('{"a": true}', '{"a": 1.0}', "1", "{}"):
        with pytest.raises(LedgerMismatch, match=r"terms: (a|conditions) is"):
            ledger.open(Terms("odd", "", other, NONE))


def test_the_export_lets_anyone_recompute_the_chain(ledger):
    ask(ledger)
    ledger.note("visits", "append", "{}", origin="token 1f")
    head = GENESIS
    lines = [json.loads(json.dumps(line)) for line in ledger.export("visits")]
    for line in lines:
        line["parts"] = [line["parts"]] if line["parts"] else ""
        known = [line[name] for name in ChainEntry._fields if name not in ("origin", "basic", "parts") or line[name]]
        fields = json.dumps(known, separators=(",", ":"))
        assert line["previous"] == head
        head = sha256((head + fields).encode()).hexdigest()
        assert line["hash"] == head
    assert [line["kind"] for line in lines] == ["open", "reserve", "settle", "note"]
    assert [line["answer"] for line in lines] == [None, None, ANSWER, None]
    assert lines[2]["answer_hash"] == sha256(ANSWER.encode()).hexdigest()


def test_verify_reports_progress(ledger):
    ask(ledger)
    seen = []
    verdict = ledger.verify(lambda done, total: seen.append((done, total)))
    assert (verdict.ok, verdict.entries) == (True, 3)
    assert seen[-1] == (3, 3)


def test_secrets_change_together_with_a_settle(ledger):
    first = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    assert ledger.secret(first.call) is None
    ledger.settle(first, NONE, 0, 1, ANSWER, secret=b"one")
    second = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(second, NONE, 0, 1, ANSWER, secret=b"two", secrets={first.call: b"new"})
    assert (ledger.secret(first.call), ledger.secret(second.call)) == (b"new", b"two")
    third = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(third, NONE, 0, 1, ANSWER, secrets={first.call: None})
    assert ledger.secret(first.call) is None


def test_an_erased_secret_is_never_set_again(ledger):
    """Two revisions at the same time: the one that published erased the secret, the other settles later."""
    held = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(held, NONE, 0, 1, ANSWER, secret=b"one")
    publishing, late = (ledger.reserve("visits", "ann", "count", QUESTION, Amount(1)) for _ in range(2))
    ledger.settle(publishing, NONE, 1, 1, ANSWER, secrets={held.call: None})
    ledger.settle(late, NONE, 0, 1, ANSWER, secrets={held.call: b"late"})
    assert ledger.secret(held.call) is None


def test_nothing_settles_on_a_secret_that_moved(ledger):
    held = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(held, NONE, 0, 1, ANSWER, secret=b"one")
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    for stale in (b"two", b"", None):
        with pytest.raises(SecretMoved):
            ledger.settle(call, NONE, 1, 1, ANSWER, b"own", {held.call: b"new"}, {held.call: stale})
    assert ledger.balance("visits").open == Amount(1)
    assert (ledger.secret(held.call), ledger.secret(call.call)) == (b"one", None)
    ledger.settle(call, NONE, 1, 1, ANSWER, None, {held.call: None}, {held.call: b"one"})
    last = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    with pytest.raises(SecretMoved):
        ledger.settle(last, NONE, 1, 1, ANSWER, None, {held.call: None}, {held.call: b"one"})
    ledger.settle(last, NONE, 1, 1, ANSWER, None, {held.call: None}, {held.call: None})


def test_a_secret_of_another_dataset_or_of_an_open_call_undoes_the_settle(ledger):
    ledger.open(terms("trips"))
    other = ask(ledger, dataset="trips").call
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    for wrong in (other, call.call, 99):
        with pytest.raises(LedgerError, match="settled call"):
            ledger.settle(call, NONE, 0, 1, ANSWER, secrets={wrong: b"x"})
    with pytest.raises(InvalidParameter):
        ledger.settle(call, NONE, 0, 1, ANSWER, secret="text")
    assert ledger.balance("visits").open == Amount(1)


def test_secrets_show_up_nowhere(ledger):
    secret = b"noisy-threshold-4711"
    call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(1))
    ledger.settle(call, NONE, 0, 1, ANSWER, secret=secret)
    shown = [ledger, *ledger.calls("visits"), *ledger.export("visits"), ledger.verify(), ledger.balance("visits")]
    text = " ".join(f"{each!r} {each!s}" for each in shown)
    assert "4711" not in text
    assert sha256(secret).hexdigest() not in text


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 3])
def test_texts_that_cannot_be_stored_are_refused(ledger, name):
    with pytest.raises(InvalidParameter):
        ledger.reserve("visits", name, "count", QUESTION, NONE)
    with pytest.raises(InvalidParameter):
        ledger.reserve("visits", "ann", name, QUESTION, NONE)
    with pytest.raises(InvalidParameter):
        ledger.reserve("visits", "ann", "count", QUESTION, NONE, name)
    with pytest.raises(InvalidParameter):
        ledger.balance(name)
    with pytest.raises(InvalidParameter):
        ledger.analyst_balance("visits", name)
    assert ledger.verify().entries == 1


@pytest.mark.parametrize("worst", [3, 0.5, None])
def test_what_is_no_amount_is_refused(ledger, worst):
    with pytest.raises(InvalidParameter):
        ledger.reserve("visits", "ann", "count", QUESTION, worst)
    with pytest.raises(InvalidParameter):
        ledger.set_quota("visits", "ann", worst)


@pytest.mark.parametrize("hits", [-1, 0.5, True, 2**31])
def test_hits_are_whole_numbers(ledger, hits):
    call = ledger.reserve("visits", "ann", "count", QUESTION, NONE)
    with pytest.raises(InvalidParameter):
        ledger.settle(call, NONE, hits, 1, ANSWER)


def test_unknown_datasets_and_calls_are_errors(ledger):
    for ask_for in (ledger.balance, ledger.tally, ledger.version):
        with pytest.raises(LedgerError, match="no dataset 'trips'"):
            ask_for("trips")
    with pytest.raises(LedgerError, match="no dataset"):
        list(ledger.export("trips"))
    for number in (0, -1, 99, 2**70):
        with pytest.raises(LedgerError):
            ledger.call(number)


def test_a_closed_ledger_answers_nothing(ledger):
    ledger.close()
    ledger.close()
    for act in (ledger.datasets, ledger.verify, lambda: ledger.open(terms()), lambda: ask(ledger)):
        with pytest.raises(LedgerError, match="closed"):
            act()


def test_canonical_json_is_one_text():
    assert canonical({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"\\u00e9"]}'
    for value in (float("nan"), float("inf"), {1, 2}, object()):
        with pytest.raises(InvalidParameter):
            canonical(value)
    for text in ("", "{", "NaN", '{"a":1,"a":2}', "1e999"):
        with pytest.raises(InvalidParameter):
            Terms("visits", "", text, NONE)


@pytest.mark.parametrize("main", [-1, 2**62 + 1, 0.5, True, "1", None])
def test_amounts_are_whole_numbers_in_range(main):
    with pytest.raises(InvalidParameter):
        Amount(main)
    with pytest.raises(InvalidParameter):
        Amount(0, main)


def test_the_largest_amounts_add_up(ledger):
    ledger.open(terms("large", 2**62, 2**62))
    for _ in range(5):
        ask(ledger, 2**62, 0, dataset="large")
    ask(ledger, 2**62, 2**62, dataset="large")
    assert ledger.verify().ok
    with pytest.raises(CapReached):
        ask(ledger, 1, 1, dataset="large")
