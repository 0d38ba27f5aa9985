"""A session under random calls, wrong and refused ones among them, beside a model that keeps its own books."""

import math
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import chary
from chary import Budget, BudgetExceeded, InvalidInput, InvalidParameter, NotPriced, NotWithheld, count
from chary.accounting import (
    DiscreteLaplace,
    Extendable,
    Repeated,
    Targeted,
    ZeroConcentrated,
    capacity_down,
    hit_price_up,
)
from chary.calls import Widen
from chary.noise import Seeded

STEP = 10**15
GRAIN = Fraction(1, 20)
BUDGET = Budget(epsilon=2, delta=1e-6)
SITES = ["a", "b", "c", "d"]
ROWS = pd.DataFrame({"person": [k // 2 for k in range(40)], "site": [SITES[k * k % 7 % 4] for k in range(40)]})
SIZES = st.sampled_from([GRAIN, 2 * GRAIN, GRAIN / 3, 5 * GRAIN, Fraction(1, 2), Fraction(3)])
BARS = st.sampled_from([-1000, -20, 0, 5, 20, 40, 1000])
SPREADS = st.sampled_from([1, 2, 3, None])


class Interrupt(BaseException):
    pass


class Line:
    """One call in the model's books."""

    def __init__(self, kind, charged, state="settled", hits=0):
        self.kind, self.charged, self.state, self.hits = kind, charged, state, hits

    def told(self):
        return self.kind, self.state, self.hits


class Books(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(["pure", "renyi", "exact"]), seed=st.integers(0, 999))
    def open(self, kind, seed):
        self.stop_at = None
        self.kind = kind
        self.session = chary.open(
            ROWS,
            privacy_unit="person",
            ledger=":memory:",
            budget=BUDGET,
            filter=kind,
            grain=GRAIN,
            unsafe_noise=Seeded(seed),
            on_step=self.step,
        )
        self.filter = self.session.spine.filter
        self.lines, self.floors, self.asked = [], {}, {}
        # A pure filter adds epsilons up itself: there is no second account.
        self.epsilons, self.ended, self.closed, self.most = 0, False, self.kind == "pure", None
        self.capacity = self.own_capacity()

    def step(self, step):
        if step == self.stop_at:
            self.stop_at = None
            raise Interrupt

    def own_capacity(self):
        if self.kind == "pure":
            return 2 * STEP
        if self.kind == "renyi":
            return math.floor(capacity_down(Fraction(2), Fraction(1, 10**6), self.filter.order) * STEP)
        return self.filter.capacity.main

    def price(self, event):
        """(hit, miss) in steps, or None where the filter has no price."""
        if isinstance(event, Extendable):
            return self.price_of_revision(event.epsilon)
        target = isinstance(event, Targeted)
        if self.kind == "pure":
            return None if event.epsilon is None else (math.ceil(event.epsilon * STEP),) * 2
        if self.kind == "renyi":
            if target and (hit := hit_price_up(event, self.filter.order)) is not None:
                return math.ceil(hit * STEP), 0
            return (math.ceil(event.log_moment_up(self.filter.order) * STEP),) * 2
        if event.epsilon is None:
            return None
        fitting = [call for call in self.filter.menu if (call.q is None) == target]
        tokens = [call.tokens for call in fitting if event.epsilon <= call.steps * GRAIN]
        beside = None if target else self.filter.unlisted.tokens(event.epsilon, GRAIN, Fraction(BUDGET.epsilon))
        tokens += [beside] if beside is not None and beside <= self.capacity else []
        return (min(tokens), 0 if target else min(tokens)) if tokens else None

    def price_of_revision(self, epsilon):
        """The hit of the first call, or nothing if it was paid."""
        price = self.price(Targeted(epsilon))
        return (0, 0) if price and price[1] else price

    @property
    def left(self):
        return self.capacity - sum(line.charged for line in self.lines)

    def attempt(self, kind, ask, event, *, parts=1, halts=False, hits_of=lambda answer: 0):
        """Ask, and expect what the model says; the answer, or None if there is none."""
        price = self.price(event)
        if price is None:
            with pytest.raises(NotPriced):
                ask()
            self.stop_at = None
            return None
        hit, miss = price
        most = min(parts, self.left // hit) if halts and miss == 0 else parts
        # Released epsilons add up beside the prices of hits; of a revision it is not said, so it closes that account.
        adds = None if event.epsilon is None or kind == "revise" else parts * math.ceil(event.epsilon * STEP)
        fits = not self.closed and adds is not None and self.epsilons + adds <= 2 * STEP
        main = not self.ended and most >= 1 and most * hit <= self.left
        self.most = most = most if main else parts
        if not main and not fits:
            with pytest.raises(BudgetExceeded) as refusal:
                ask()
            assert not isinstance(refusal.value, NotPriced)
            self.stop_at = None
            return None
        stopped = self.stop_at
        self.ended, self.closed = not main, self.closed or not fits
        self.epsilons += adds if fits and stopped != "reserved" else 0
        if stopped:
            with pytest.raises(Interrupt):
                ask()
            voided = stopped == "reserved"
            self.lines.append(Line(kind, 0 if voided else most * hit, "voided" if voided else "reserved"))
            return None
        answer = ask()
        hits = hits_of(answer)
        charged = min(hits, most) * hit + (most - min(hits, most)) * miss
        self.lines.append(Line(kind, charged, hits=hits))
        return answer

    @rule(step=st.sampled_from(["reserved", "evaluated", "ran"]))
    def next_call_is_interrupted(self, step):
        self.stop_at = step

    @rule(epsilon=SIZES)
    def release(self, epsilon):
        self.attempt("release", lambda: self.session.release(count(), epsilon=epsilon), DiscreteLaplace(1 / epsilon, 1))

    @rule(rho=st.sampled_from(["0.0001", "0.01", 3]))
    def release_gaussian(self, rho):
        self.attempt("release", lambda: self.session.release(count(), rho=rho), ZeroConcentrated(rho))

    @rule(epsilon=SIZES, spread=st.sampled_from([2, 3]))
    def release_keyed(self, epsilon, spread):
        query = count().by("site", SITES, max_groups_per_unit=spread)
        event = Repeated(DiscreteLaplace(spread / epsilon, 1), spread)
        self.attempt("release", lambda: self.session.release(query, epsilon=epsilon), event)

    @rule(epsilon=SIZES, above=BARS)
    def test(self, epsilon, above):
        ask = lambda: self.session.test(count(), above=above, epsilon=epsilon)  # noqa: E731
        self.attempt("test", ask, Targeted(epsilon), hits_of=int)

    @rule(epsilon=SIZES, above=BARS)
    def release_if(self, epsilon, above):
        ask = lambda: self.session.release_if(count(), above=above, epsilon=epsilon)  # noqa: E731
        answer = self.attempt("release_if", ask, Targeted(epsilon), hits_of=lambda found: int(found.published))
        if answer is not None:
            assert not answer.published or answer.value >= above
            self.floors[answer.call] = (None if answer.published else above, epsilon)

    @precondition(lambda self: self.floors)
    @rule(data=st.data(), above=BARS)
    def revise(self, data, above):
        call = data.draw(st.sampled_from(sorted(self.floors)))
        floor, epsilon = self.floors[call]
        ask = lambda: self.session.ask(Widen(call, above=above))  # noqa: E731
        if floor is None or above >= floor:
            with pytest.raises(NotWithheld if floor is None else InvalidParameter):
                ask()
            self.stop_at = None
            return
        answer = self.attempt("revise", ask, Extendable(epsilon), hits_of=lambda found: int(found.published))
        if answer is not None:
            assert answer.value is None or above <= answer.value < floor
            self.floors[call] = (None if answer.published else above, epsilon)

    @rule(epsilon=SIZES, above=BARS, spread=SPREADS)
    def watch(self, epsilon, above, spread):
        query = count().by("site", SITES, max_groups_per_unit=spread)
        ask = lambda: self.session.release_if(query, above=above, epsilon=epsilon, below_margin=True)  # noqa: E731
        parts = spread or len(SITES)
        found = self.attempt(
            "watch", ask, Targeted(epsilon), parts=parts, halts=True, hits_of=lambda result: result.hits
        )
        if found is None:
            return
        most = self.most
        assert found.hits <= most or most >= parts
        assert (found.tested == len(SITES)) or (found.hits == most < parts)
        assert all(value >= above for value in found.above.values())

    @rule(epsilon=SIZES, above=BARS, key=st.sampled_from(["k1", "k2"]))
    def ask_under_a_key(self, epsilon, above, key):
        ask = lambda: self.session.test(count(), above=above, epsilon=epsilon, request=key)  # noqa: E731
        known = self.asked.get(key)
        if known is None:
            before = len(self.lines)
            answer = self.attempt("test", ask, Targeted(epsilon), hits_of=int)
            if len(self.lines) > before and self.lines[-1].state != "voided":
                self.asked[key] = ((epsilon, above), answer)
            return
        self.stop_at = None
        question, answer = known
        if question != (epsilon, above):
            with pytest.raises(chary.RequestConflict):
                ask()
        elif answer is not None:
            assert ask() == answer

    @rule(epsilon=st.sampled_from([0, -1, float("nan"), True, "x"]))
    def wrong_call(self, epsilon):
        with pytest.raises(InvalidInput):
            self.session.test(count(), above=1, epsilon=epsilon)
        with pytest.raises(InvalidInput):
            self.session.release(count("nobody > 3"), epsilon="0.1")
        self.stop_at = None

    @rule(person=st.integers(100, 105))
    def append(self, person):
        self.session.append(pd.DataFrame({"person": [person], "site": ["a"]}))

    @invariant()
    def the_books_agree(self):
        if not hasattr(self, "session"):
            return
        amount = self.session.spent.amount
        assert (amount.main, amount.delta) == (self.capacity - self.left, 0)
        assert amount.main >= 0
        assert amount.main <= self.capacity if not self.ended else self.epsilons <= 2 * STEP
        assert self.session.spent.share <= 1
        history = self.session.history
        assert [(entry.kind, entry.state, entry.hits) for entry in history] == [line.told() for line in self.lines]
        if self.ended:
            assert self.session.spent.share == self.epsilons / (2 * STEP)
        else:
            assert [entry.share for entry in history] == [line.charged / self.capacity for line in self.lines]

    def teardown(self):
        if hasattr(self, "session"):
            assert self.session.spine.ledger.verify().ok
            self.session.close()


TestBooks = Books.TestCase
TestBooks.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
