"""Algorithms that report what an outcome lost: charged the worst, settled at what came out."""

import math
from fractions import Fraction
from itertools import product

import pytest

from chary import Algorithm, AlgorithmFailed, Budget, BudgetExceeded, InvalidParameter
from chary.accounting import ExPost, Pure
from chary.amounts import MAIN_STEPS, Amount
from chary.calls import MultiTarget, PublishIf, RunAlgorithm, When
from tests.session.kit import SECRET_NUMBER, error_texts, spent

MOST = Fraction(1, 20)
ORDER = Fraction(12)
# Outcomes and their chances under two neighbours; the losses are rounded up a little.
LAWS = {
    "far": (0.2 * math.exp(0.0499), 0.2),
    "back": (0.2, 0.2 * math.exp(0.0499)),
    "near": (0.3, 0.3 * math.exp(0.01)),
}
_REST = tuple(1 - sum(law[side] for law in LAWS.values()) for side in (0, 1))
LAWS["rest"] = _REST
LOST = {name: Fraction(abs(math.log(one / other)) + 1e-9) for name, (one, other) in LAWS.items()}


def telling(script, loss=LOST.get, name="reports"):
    """An algorithm whose next outcome is scripted, so that whole sessions can be gone through."""
    return Algorithm(name, lambda rows, source: script.pop(0), epsilon=MOST, loss=loss)


def leaves(opened, calls, **options):
    """All transcripts of sessions with these calls, with their chances and what was charged."""
    for outcomes in product(LAWS, repeat=len(calls)):
        session, script = opened(**options), list(outcomes)
        for call in calls:
            session.ask(call(script))
        chances = [math.prod(LAWS[outcome][side] for outcome in outcomes) for side in (0, 1)]
        yield chances, spent(session), session.spine.filter
        session.close()


MIXED = [
    lambda script: RunAlgorithm(telling(script)),
    lambda script: RunAlgorithm(telling(script, loss=None), prior="rest"),
    lambda script: RunAlgorithm(telling(script)),
]


def moment(found, order, steps=MAIN_STEPS):
    """The discounted moment of transcripts, in the dearer order of neighbours."""

    def of(first, second):
        a = float(order)
        return sum(
            chances[first] ** a * chances[second] ** (1 - a) * math.exp(-amount.main / steps)
            for chances, amount, _ in found
        )

    return max(of(0, 1), of(1, 0))


def test_what_was_charged_covers_the_loss_of_every_transcript(opened):
    for chances, amount, _ in leaves(opened, MIXED, budget=Budget(epsilon=9)):
        assert abs(math.log(chances[0] / chances[1])) <= amount.main / MAIN_STEPS
    cheapest = min(amount.main for *_, amount, _ in leaves(opened, MIXED[:1], budget=Budget(epsilon=9)))
    assert cheapest < MOST * MAIN_STEPS / 4


def test_at_a_renyi_order_reported_losses_are_a_supermartingale_beside_targets(opened):
    found = list(leaves(opened, MIXED, budget=Budget(epsilon=9, delta="1e-6")))
    order = found[0][2].order
    assert 0.95 < moment(found, order) <= 1
    less = [(chances, Amount(amount.main // 4), held) for chances, amount, held in found]
    assert moment(less, order) > 1


def test_whoever_reports_less_than_was_lost_is_found_out(opened):
    false = [lambda script: RunAlgorithm(telling(script, loss=lambda told: 0))] * 2
    found = list(leaves(opened, false, budget=Budget(epsilon=9, delta="1e-6")))
    assert moment(found, found[0][2].order) > 1


@pytest.mark.parametrize("most", ["0.02", "0.1", "0.5"])
@pytest.mark.parametrize("order", [Fraction(3, 2), ORDER, Fraction(25)])
def test_the_price_of_a_loss_is_attained(order, most):
    """By three outcomes: one that loses so much, and two that lose the most; of all prices by a chord none is lower."""
    a, worst = float(order), float(ExPost(most, most).log_moment_up(order))
    assert worst == pytest.approx(float(Pure(most).log_moment_up(order)), rel=1e-12)
    for part in (0.1, 0.5, 0.9):
        lost = Fraction(part) * Fraction(most)
        price, top = float(ExPost(lost, most).log_moment_up(order)), math.exp(float(Fraction(most)))
        attained = []
        for sign in (1, -1):
            ratio, other = math.exp(sign * float(lost)), top**-sign
            chance = (1 - other) / (ratio - other)
            attained.append(chance * ratio**a * math.exp(-price) + (1 - chance) * other**a * math.exp(-worst))
        assert max(attained) == pytest.approx(1, abs=1e-12)
        assert price < worst
        assert price <= float(ExPost(lost).log_moment_up(order))


def test_the_price_rises_with_the_loss_and_ends_at_that_of_a_release():
    prices = [ExPost(Fraction(place, 1000), "0.1").log_moment_up(ORDER) for place in range(0, 101, 5)]
    assert prices[0] == 0
    assert prices == sorted(prices)
    # Where chords are too steep for decimals a loss is charged as one that nobody bounded.
    assert ExPost("0.5", 5).log_moment_up(ORDER) == ExPost("0.5").log_moment_up(ORDER)


def test_the_worst_is_reserved_and_what_was_reported_is_charged(opened):
    session, script = opened(budget=Budget(epsilon=1)), ["near"]
    call = RunAlgorithm(telling(script))
    quote = session.quote(call)
    assert quote.price_if_hit == quote.price_if_miss == 0.05
    answer = session.ask(call, request="one")
    assert answer.value == "near"
    assert spent(session) == Amount(math.ceil(LOST["near"] * MAIN_STEPS))
    assert session.ask(call, request="one") == answer
    (stored,) = session.spine.ledger.calls("data")
    assert stored.worst == Amount(MAIN_STEPS // 20)
    free = RunAlgorithm(Algorithm("says nothing", lambda rows, source: 0, epsilon="0.9", loss=lambda told: 0))
    for _ in range(3):
        session.ask(free)
    assert len(session.history) == 4
    with pytest.raises(BudgetExceeded):
        session.ask(RunAlgorithm(Algorithm("large", lambda rows, source: 0, epsilon=1, loss=lambda told: 0)))


@pytest.mark.parametrize(
    "loss",
    [
        lambda told: -0.01,
        lambda told: 0.06,
        lambda told: math.nan,
        lambda told: math.inf,
        lambda told: None,
        lambda told: str(told),
        lambda told: 1 / 0,
        lambda told: {}[told],
    ],
)
def test_a_loss_that_is_none_is_charged_the_worst_and_told_without_data(opened, loss):
    session = opened(budget=Budget(epsilon=1))
    failing = Algorithm("failing", lambda rows, source: SECRET_NUMBER, epsilon=MOST, loss=loss)
    with pytest.raises(AlgorithmFailed, match="no loss from 0 to its epsilon; charged") as raised:
        session.ask(RunAlgorithm(failing), request="one")
    assert str(SECRET_NUMBER) not in error_texts(raised.value)
    assert spent(session) == Amount(MAIN_STEPS // 20)
    with pytest.raises(AlgorithmFailed, match="no loss from 0"):
        session.ask(RunAlgorithm(failing), request="one")
    assert spent(session) == Amount(MAIN_STEPS // 20)


def test_a_delta_is_paid_whatever_was_reported(opened):
    session = opened(budget=Budget(epsilon=1, delta="1e-6"), filter="pure", delta_reserve="1e-6")
    told = Algorithm("told", lambda rows, source: 7, epsilon="0.1", delta="1e-7", loss=lambda told: "0.01")
    session.ask(RunAlgorithm(told))
    assert spent(session) == Amount(MAIN_STEPS // 100, 10**11)


def test_tokens_pay_the_worst(opened):
    session = opened(budget=Budget(epsilon=1, delta="1e-6"), filter="exact", grain="0.05")
    session.ask(RunAlgorithm(telling(["near"])))
    assert spent(session) == session.spine.filter.price(Pure(MOST)).hit


def test_operators_and_targets_take_it_as_any_algorithm_of_its_epsilon(opened):
    session = opened(budget=Budget(epsilon=9, delta="1e-6"))
    assert session.ask(RunAlgorithm(telling(["near"]), prior="near")).charged.share == 0
    held = session.ask(PublishIf(telling(["near"]), when=When("never", lambda told: False)))
    assert held.value is None
    race = session.start(MultiTarget(["a", "b"]))
    before = spent(session)
    race.ask(RunAlgorithm(telling(["near"])), targets={"a": {}, "b": {"prior": "near"}})
    assert spent(session).main - before.main == session.spine.filter.price(ExPost(MOST, MOST)).hit.main


def test_an_algorithm_with_a_rho_reports_no_loss():
    for terms in ({"rho": "0.01", "loss": lambda told: 0}, {"epsilon": 1, "loss": 0}):
        with pytest.raises(InvalidParameter, match="losses are reported"):
            Algorithm("odd", lambda rows, source: 0, **terms)
