"""Two analysts under one cap, and questions that are asked again."""

from fractions import Fraction

import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, RequestConflict, count
from chary.amounts import Amount
from chary.calls import Release
from chary.ledger import open_ledger
from tests.session.kit import USUAL, spent

NEVER, SURE = 10**9, -(10**6)


@pytest.fixture(params=["memory", "sql"])
def pair(request, opened, tmp_path):
    """Alice and Bob with one ledger."""
    ledger = open_ledger(":memory:") if request.param == "memory" else open_ledger(tmp_path / "visits.ledger")
    return [opened(ledger=ledger, budget=Budget(epsilon=1), analyst=name) for name in ("alice", "bob")]


def test_analysts_share_the_cap_of_the_dataset(pair):
    alice, bob = pair
    for _ in range(5):
        alice.release(count(), epsilon="0.1")
        bob.release(count(), epsilon="0.1")
    assert spent(alice) == spent(bob) == alice.spine.filter.capacity
    for session in pair:
        assert session.remaining.share == 0
        with pytest.raises(BudgetExceeded):
            session.release(count(), epsilon="0.1")
    assert {entry.analyst for entry in alice.history} == {"alice", "bob"}


def test_a_share_caps_one_analyst_only(pair):
    alice, bob = pair
    alice.set_quota("bob", "0.2")
    bob.release(count(), epsilon="0.2")
    with pytest.raises(BudgetExceeded) as refusal:
        bob.release(count(), epsilon="0.1")
    assert "0 % is left" in str(refusal.value)
    assert (bob.remaining.share, bob.quote(Release(count(), epsilon="0.1")).fits) == (0, False)
    assert alice.quote(Release(count(), epsilon="0.1")).fits
    alice.release(count(), epsilon="0.8")
    assert spent(alice) == alice.spine.filter.capacity


def test_a_share_may_be_raised_later(pair):
    alice, bob = pair
    alice.set_quota("bob", "0.1")
    bob.release(count(), epsilon="0.1")
    alice.set_quota("bob", 1)
    bob.release(count(), epsilon="0.9")


def test_a_share_halts_a_watch(opened):
    ledger = open_ledger(":memory:")
    alice, bob = (opened(ledger=ledger, filter="exact", grain="0.02", analyst=name) for name in ("alice", "bob"))
    alice.set_quota("bob", Fraction(5, alice.spine.filter.capacity.main))
    assert bob.release_if(count().by("age", range(40)), above=SURE, epsilon="0.02").tested == 5
    assert spent(alice) == Amount(5)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf"), "much", None, True])
def test_a_share_is_a_part(pair, share):
    with pytest.raises(InvalidParameter):
        pair[0].set_quota("bob", share)


def test_a_share_below_what_was_spent_is_refused(pair):
    alice, bob = pair
    bob.release(count(), epsilon="0.5")
    told = r"a quota of \d+ % of the budget is below what the analyst has already spent, 50 %"
    with pytest.raises(InvalidParameter, match=told):
        alice.set_quota("bob", "0.4")


def test_without_a_key_every_question_is_new(opened):
    session = opened()
    answers = {session.release(count(), epsilon="0.01").value for _ in range(10)}
    assert len(answers) > 1
    assert len(session.history) == 10


def test_a_key_belongs_to_one_question(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    session = opened(ledger=path)
    session.test(count(), above=51, epsilon="0.02", request="key")
    before = spent(session)
    others = [
        lambda s: s.test(count(), above=52, epsilon="0.02", request="key"),
        lambda s: s.test(count(), above=51, epsilon="0.03", request="key"),
        lambda s: s.test(count("age > 3"), above=51, epsilon="0.02", request="key"),
        lambda s: s.release(count(), epsilon="0.02", request="key"),
        lambda s: s.release_if(count(), above=51, epsilon="0.02", request="key"),
    ]
    for ask in others:
        with pytest.raises(RequestConflict):
            ask(session)
    session.close()
    again = opened(ledger=path)
    for ask in others:
        with pytest.raises(RequestConflict):
            ask(again)
    assert spent(again) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            lambda s: s.release(count(), epsilon=0.1, request="k"),
            lambda s: s.release(count(), epsilon="1/10", request="k"),
        ),
        (lambda s: s.release(count(), rho=0.001, request="k"), lambda s: s.release(count(), rho="0.0010", request="k")),
        (
            lambda s: s.test(count(), above=5.0, epsilon=0.1, request="k"),
            lambda s: s.test(count(), above=5, epsilon="0.10", request="k"),
        ),
    ],
    ids=["epsilon", "rho", "above"],
)
def test_the_same_numbers_written_otherwise_are_the_same_question(opened, one, other):
    session = opened()
    assert one(session) == other(session)
    assert len(session.history) == 1


def test_keys_of_different_analysts_do_not_meet(pair):
    alice, bob = pair
    alice.release(count(), epsilon="0.1", request="key")
    bob.release(count("age > 50"), epsilon="0.1", request="key")
    assert len(alice.history) == 2


@pytest.mark.parametrize("key", ["", 5, b"key", "a\0b", "\ud800"])
def test_a_key_is_a_text(opened, key):
    session = opened()
    with pytest.raises(InvalidParameter):
        session.release(count(), epsilon="0.1", request=key)
    assert spent(session) == Amount(0)


def test_a_voided_call_leaves_its_key_free(opened):
    interrupted = [True]

    def stop(step):
        if step == "reserved" and interrupted:
            interrupted.pop()
            raise KeyboardInterrupt

    session = opened(on_step=stop)
    with pytest.raises(KeyboardInterrupt):
        session.release(count(), epsilon="0.1", request="key")
    assert spent(session) == Amount(0)
    answer = session.release(count(), epsilon="0.1", request="key")
    assert session.release(count(), epsilon="0.1", request="key") == answer


def test_answers_are_equal_and_convertible(opened):
    session = opened()
    answer = session.release(count(), epsilon="0.1", request="key")
    assert isinstance(answer, chary.calls.Answer)
    assert float(answer) == answer.value
    assert session.spine.filter.budget == USUAL
