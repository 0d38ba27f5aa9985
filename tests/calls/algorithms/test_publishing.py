"""Outcomes of any algorithm that are published under a condition, held otherwise, and published by extensions."""

import math
import pickle
from fractions import Fraction
from functools import cache
from itertools import combinations

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, BudgetExceeded, InvalidParameter, NotWithheld, count
from chary.accounting import Targeted
from chary.amounts import Amount
from chary.calls import Disclosure, PublishIf, Select, When, Widen, compute
from chary.calls.call import named, of_record
from chary.calls.compute import extending, publishing
from chary.calls.history import History
from chary.calls.run import titled
from chary.core.plan import Data, PerHit
from chary.core.plan import Result as PlanResult
from chary.filters import Price, PureFilter, RenyiFilter
from chary.noise import Seeded, discrete_laplace
from chary.session import findings, plain_composition
from tests.adversary.kit import Ask, Best, Moment, Result, World
from tests.conformance.samples import fixed
from tests.session.kit import SECRET_NUMBER, error_texts, hit_of, shows_data, spent

NEVER, ALWAYS = When("never", lambda outcome: False), When("always", lambda outcome: True)
FILTER = RenyiFilter(Budget(epsilon=30, delta="0.01"), order=Fraction(2))


def above(bar):
    return When(f"above {bar}", lambda outcome: outcome > bar)


def raises(outcome):
    raise ValueError(outcome)


# What is published


@pytest.mark.parametrize("outcome", [None, 7, "text", 0.1, 2**70, [1, {"a": None}]])
def test_an_outcome_is_held_free_and_published_as_it_was(session, outcome):
    held = session.ask(PublishIf(fixed(outcome), when=NEVER))
    assert (held.value, held.published, held.hit, held.held) == (None, False, False, held.call)
    assert spent(session) == Amount(0)
    assert not held.widen(when=When("nor this", lambda outcome: False)).published
    shown = held.widen(when=ALWAYS)
    assert (shown.value, shown.published, shown.held) == (outcome, True, held.call)
    assert spent(session) == hit_of(session, Targeted("0.01")) == shown.charged.amount
    assert session.ask(PublishIf(fixed(outcome), when=ALWAYS)).value == outcome


def test_the_condition_says_what_is_published(session):
    near = When("near 50", lambda outcome: abs(outcome - 50) < 5)
    assert session.ask(PublishIf(fixed(52), when=near)).value == 52
    held = session.ask(PublishIf(fixed(40), when=near))
    assert not held.widen(when=When("46 to 60", lambda outcome: 46 <= outcome <= 60)).published
    assert held.widen(when=When("at most 46", lambda outcome: outcome <= 46)).value == 40


def test_the_outcome_is_drawn_once(opened):
    def noisy(rows, source):
        return int(discrete_laplace(source, Fraction(1000), 1)[0])

    session = opened(grain="0.02", unsafe_noise=Seeded(4))
    held = session.ask(PublishIf(Algorithm("noisy", noisy, epsilon="0.01"), when=NEVER))
    for bar in (10**6, 10**5):
        assert not held.widen(when=above(bar)).published
    session.spine.rows.close()
    value = held.widen(when=ALWAYS).value
    other = opened(grain="0.02", unsafe_noise=Seeded(4), ledger=":memory:")
    assert other.ask(PublishIf(Algorithm("noisy", noisy, epsilon="0.01"), when=ALWAYS)).value == value


def test_it_is_held_over_a_restart_and_repeated(opened, tmp_path):
    first = opened(grain="0.02", ledger=tmp_path / "visits.ledger")
    held = first.ask(PublishIf(fixed([3, "a"]), when=NEVER), request="one")
    first.close()
    again = opened(grain="0.02", ledger=tmp_path / "visits.ledger")
    assert again.ask(PublishIf(fixed([4, "b"]), when=NEVER), request="one") == held
    shown = again.ask(Widen(held.held, when=ALWAYS), request="two")
    assert shown.value == [3, "a"]
    assert again.ask(Widen(held.held, when=ALWAYS), request="two") == shown
    with pytest.raises(NotWithheld):
        shown.widen(when=ALWAYS)
    assert again.spine.ledger.secret(held.held) is None


# What stays secret


def test_what_is_held_is_shown_nowhere_and_has_one_length(session):
    held = [session.ask(PublishIf(fixed(value), when=NEVER)) for value in (SECRET_NUMBER, 0, "x" * 4000, None)]
    spine = session.spine
    shown = [session, session.history, plain_composition(session), held, spine.ledger.call(held[0].call)]
    shown += [vars(held[0]), held[0].to_dict(), list(spine.ledger.export("data"))]
    assert not any(str(SECRET_NUMBER) in f"{thing} {thing!r}" for thing in shown)
    lengths = {len(spine.ledger.secret(each.held)) for each in held}
    assert len(lengths) == 1
    held[0].widen(when=above(10**30))
    assert {len(spine.ledger.secret(held[0].held))} == lengths


def test_an_outcome_without_room_is_a_hit_that_failed(session):
    asked = PublishIf(fixed("x" * 99), when=NEVER, room=100)
    for _ in range(2):
        with pytest.raises(AlgorithmFailed):
            session.ask(asked, request="long")
    assert spent(session) == hit_of(session, Targeted("0.01"))
    with pytest.raises(NotWithheld):
        session.ask(Widen(session.history[0].call, when=ALWAYS))
    assert session.ask(PublishIf(fixed("x" * 99), when=ALWAYS, room=100)).value == "x" * 99
    assert not session.ask(PublishIf(fixed("x" * 98), when=NEVER, room=100)).published


@pytest.mark.parametrize("value", [SECRET_NUMBER, math.nan])
def test_what_fails_is_charged_and_tells_nothing(session, value):
    with pytest.raises(AlgorithmFailed) as failed:
        session.ask(PublishIf(fixed(value), when=When("raises", raises)))
    assert not shows_data(error_texts(failed.value))
    assert spent(session) == hit_of(session, Targeted("0.01"))
    assert session.history[0].hits == 1


def test_an_extension_that_fails_is_charged_and_ends_what_was_held(session):
    held = session.ask(PublishIf(fixed(SECRET_NUMBER), when=NEVER))
    for _ in range(2):
        with pytest.raises(AlgorithmFailed, match="condition") as failed:
            session.ask(Widen(held.held, when=When("raises", raises)), request="monday")
        assert not shows_data(error_texts(failed.value))
    assert spent(session) == hit_of(session, Targeted("0.01"))
    with pytest.raises(NotWithheld):
        held.widen(when=ALWAYS)


def test_a_condition_cannot_change_what_is_held(session):
    held = session.ask(PublishIf(fixed([1, 2]), when=When("clears", lambda outcome: outcome.clear())))
    assert held.widen(when=ALWAYS).value == [1, 2]


# What is charged


def test_a_delta_is_paid_once_hit_or_miss(opened):
    session = opened(grain="0.02", delta_reserve="5e-7")
    held = session.ask(PublishIf(fixed(7, delta="1e-7"), when=NEVER))
    assert spent(session) == Amount(0, 10**11)
    held.widen(when=ALWAYS)
    assert spent(session) == Amount(hit_of(session, Targeted("0.01")).main, 10**11)


def test_where_the_first_call_was_paid_extensions_are_free(opened):
    session = opened(budget=Budget(epsilon=3), filter="pure", grain=None)
    held = session.ask(PublishIf(fixed(7), when=NEVER))
    paid = spent(session)
    assert paid == hit_of(session, Targeted("0.01")) != Amount(0)
    assert held.widen(when=ALWAYS).value == 7
    assert spent(session) == paid


def test_ledgers_hold_what_widens_under_kinds_of_their_own(session):
    released = session.release_if(count(), above=10**9, epsilon="0.01")
    algorithm = session.ask(PublishIf(fixed(7), when=NEVER))
    selected = session.ask(Select([fixed([1, "a"])], above=5, room=64))
    steps = [
        ("revise", Widen(released.call, above=-(10**9)), {"held": released.call, "above": str(-(10**9))}),
        ("extend", Widen(algorithm.call, when=ALWAYS), {"held": algorithm.call, "when": "always"}),
        ("reselect", Widen(selected.call, above=0), {"held": selected.call, "above": "0"}),
    ]
    for kind, call, body in steps:
        assert session.quote(call).kind == "widen"
        found = session.ask(call)
        record = session.spine.ledger.call(found.call)
        assert (record.kind, record.question, found.hit) == (kind, body, True)
        assert (titled(kind), named(kind)) == ("Widen", "widen")
        rebuilt = History(session.spine).rebuilt(record).answer
        assert rebuilt == (record.outcome if kind == "extend" else found)
        if "above" in body:
            assert of_record(kind, body) == call
    [revised] = (entry.call for entry in session.history if entry.kind == "revise")
    assert [finding.call for finding in findings(session)] == [revised]


def test_an_extension_that_does_not_fit_keeps_what_is_held(session):
    held = session.ask(PublishIf(fixed(7, epsilon="0.02"), when=NEVER))
    again = PublishIf(fixed(7, epsilon="0.02"), when=ALWAYS)
    while session.quote(again).fits:
        session.ask(again)
    before = spent(session)
    with pytest.raises(BudgetExceeded):
        held.widen(when=ALWAYS)
    assert spent(session) == before
    assert session.spine.ledger.secret(held.held) is not None


def test_only_what_such_a_call_holds_is_extended(session):
    released = session.release_if(count(), above=10**9, epsilon="0.01")
    published = session.ask(PublishIf(fixed(7), when=NEVER))
    with pytest.raises(InvalidParameter, match="give above="):
        session.ask(Widen(released.held, when=ALWAYS))
    with pytest.raises(InvalidParameter, match="give when="):
        session.ask(Widen(published.held, above=1))
    with pytest.raises(NotWithheld):
        session.ask(Widen(99, when=ALWAYS))
    assert len(session.history) == 2
    copied = pickle.loads(pickle.dumps(published))
    assert copied == published
    for without in (copied, Disclosure(1, None, False, 1)):
        with pytest.raises(NotWithheld, match="Widen"):
            without.widen(when=ALWAYS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PublishIf(fixed(1), when=lambda outcome: True),
        lambda: PublishIf(fixed(1), when=ALWAYS, room=0),
        lambda: PublishIf(fixed(1), when=ALWAYS, room=2**40),
        lambda: PublishIf(Algorithm("zcdp", lambda rows, source: 1, rho="0.01"), when=ALWAYS),
        lambda: Widen(1, when="always"),
    ],
)
def test_what_cannot_be_right_is_refused_free(session, make):
    session.ask(PublishIf(fixed(7), when=NEVER))
    with pytest.raises(InvalidParameter):
        session.ask(make())
    assert len(session.history) == 1


# The best analyst, on three outcomes


OUTCOMES = (0, 1, 2)
SETS = [frozenset(chosen) for size in range(4) for chosen in combinations(OUTCOMES, size)]


def failing(bad, outcome):
    """A condition that holds for nothing and raises for one outcome."""
    if outcome == bad:
        raise ValueError


CONDITIONS = [When(str(sorted(chosen)), chosen.__contains__) for chosen in SETS]
CONDITIONS += [When(f"fails at {bad}", lambda outcome, bad=bad: failing(bad, outcome)) for bad in OUTCOMES]


class Publications:
    """Up to `most` publications of an outcome of three under any condition, extended by any other in any order.

    The outcome is randomized response with the less likely answer split in two, `shares` of it, so that sets of several
    outcomes are as hard as can be.
    """

    def __init__(self, filter_, epsilon, most=1, share=0.5):
        self.filter, self.epsilon, self.most = filter_, Fraction(epsilon), most
        likely = 1 / (1 + math.exp(-float(epsilon)))
        chances = (likely, (1 - likely) * share, (1 - likely) * (1 - share))
        opposite = (1 - likely, likely * share, likely * (1 - share))
        self.chances = (chances, opposite)
        self.start = ((), tuple(World(side, 1.0, ()) for side in (0, 1)))
        self.published, self.extended = cache(self._published), cache(self._extended)

    def asks(self, seen):
        """A new outcome under any condition, or any condition on one that is held."""
        if len(seen) < self.most:
            yield from (self._publish(place, seen) for place in range(len(CONDITIONS)))
        for held in (held for held, open_ in enumerate(seen) if open_):
            yield from (self._extend(held, place, seen) for place in range(len(CONDITIONS)))

    def _publish(self, place, seen):
        made = self._asked(place, 0)

        def play(side, kept):
            for outcome in OUTCOMES:
                told, charged, secret = self.published(place, outcome)
                yield Result(self.chances[side][outcome], told, charged, (*seen, secret is not None), (*kept, secret))

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _asked(self, place, outcome):
        algorithm = Algorithm("told", lambda rows, source: outcome, epsilon=self.epsilon)
        return publishing(PublishIf(algorithm, when=CONDITIONS[place], room=64), algorithm, PureFilter(Budget(1)))

    def _published(self, place, outcome):
        ran, charged = self._run(self._asked(place, outcome), None)
        return str(ran.answer), charged, ran.secret

    def _extend(self, held, place, seen):
        made = self._extension(place)

        def play(side, kept):
            told, charged, secret = self.extended(place, kept[held])
            states = (*kept[:held], secret, *kept[held + 1 :])
            yield Result(1.0, told, charged, (*seen[:held], secret is not None, *seen[held + 1 :]), states)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _extension(self, place):
        original = {"epsilon": str(self.epsilon), "room": 64, "algorithm": "told"}
        return extending(Widen(1, when=CONDITIONS[place]), original)

    def _extended(self, place, secret):
        ran, charged = self._run(self._extension(place), secret)
        return str(ran.answer), charged, ran.secrets[1]

    def _run(self, made, secret):
        price = made.price(self.filter)
        ran = made.run(Data([None], None, secret, None, price))
        return ran, made.cost.final(price, ran, made.cost.most).main


@pytest.mark.parametrize(("epsilon", "most", "calls"), [("0.4", 1, 3), ("0.4", 2, 3), ("1", 1, 3)])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_an_outcome_is_paid_once_by_whatever_condition_it_is_published(epsilon, most, calls, share):
    found = Best(Publications(FILTER, epsilon, most, share), Moment(2)).value(calls)
    assert 1 - 1e-9 <= found <= 1 + 1e-9


def test_cheaper_extensions_are_found_out(monkeypatch):
    price = PerHit.price

    def half(self, event, filter_):
        found = price(self, event, filter_)
        return Price(Amount(found.hit.main // 2), Amount(0)) if self.extends else found

    monkeypatch.setattr(PerHit, "price", half)
    assert Best(Publications(FILTER, "0.4"), Moment(2)).value(3) > 1.01


def test_a_free_failure_is_found_out(monkeypatch):
    running = compute.running

    def lenient(*given):
        return running(*given, failed=PlanResult({"failed": True}, hits=0, tests=1))

    monkeypatch.setattr(compute, "running", lenient)
    assert Best(Publications(FILTER, "0.4"), Moment(2)).value(1) > 1.01
