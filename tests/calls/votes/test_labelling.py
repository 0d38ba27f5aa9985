"""Labels from votes: exact laws between neighbours, what is paid, what zero noise answers, replays and refusals."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import chary
from chary import Budget
from chary.accounting import BoundaryCall, NarrowChoice, Pure, Targeted, ZeroConcentrated
from chary.calls import Agreement, Label, Labelled
from chary.calls.call import of_record
from chary.calls.choices import agreement_test, label_choice, label_event
from chary.calls.run import titled
from chary.data import Votes
from chary.errors import BudgetExceeded, EngineError, InvalidInput, InvalidQuery
from chary.mechanisms import Exponential
from chary.noise import Seeded
from chary.session import open_votes
from tests.session.kit import NO_NOISE, PLENTY, USUAL, error_texts, spent

EPSILON = Fraction(1, 10)
ORDERS = [Fraction(3, 2), Fraction(3), Fraction(6)]
ALPHA = 1e-6
OPTIONS = ("cat", "dog", "cow")
VOTES = {0: [20, 3, 2], 1: [8, 9, 8], 2: [0, 0, 25]}


def ballots(options=OPTIONS):
    return Votes(lambda question: np.array(VOTES[question]), options, voter="teacher")


@pytest.fixture
def opened():
    made = []

    def make(**options):
        given = {"dataset": "votes", "ledger": ":memory:", "budget": USUAL, "grain": "0.02"} | options
        made.append(open_votes(ballots(), **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture
def certain(opened):
    """A session in which noise is zero."""
    return opened(budget=NO_NOISE, grain=None)


def neighbours(voters, options):
    """All votes of so many voters, with all that differ in one vote."""
    for votes in itertools.product(range(voters + 1), repeat=options):
        if sum(votes) != voters:
            continue
        for giver, taker in itertools.permutations(range(options), 2):
            if votes[giver]:
                yield votes, tuple(count - (k == giver) + (k == taker) for k, count in enumerate(votes))


def moment(ours, theirs, order, charges):
    """`E_theirs[(ours/theirs)^order exp(-charge)]`."""
    return sum(p**order * q ** (1 - order) * math.exp(-c) for p, q, c in zip(ours, theirs, charges, strict=True))


def laws(mechanism, pair, low=()):
    return [mechanism.law([*votes, *low]).probabilities() for votes in pair]


@pytest.fixture(params=[(4, 2, ()), (4, 3, ()), (3, 3, (2,)), (60, 2, ())], ids=str)
def pairs(request):
    voters, options, low = request.param
    return [(pair, low) for pair in neighbours(voters, options)]


def label(**options):
    return label_choice(Label(0, epsilon=EPSILON, **options))


def clear():
    return label_choice(Label(0, epsilon=EPSILON, clear=True))


@pytest.mark.parametrize("flip", [False, True])
def test_a_label_is_epsilon_private(pairs, flip):
    mechanism = label(flip=flip)
    for pair, low in pairs:
        ours, theirs = laws(mechanism, pair, low)
        assert all(p <= q * math.exp(EPSILON) * (1 + 1e-12) for p, q in zip(ours, theirs, strict=True))


def test_the_factor_of_two_cannot_be_dropped():
    ours, theirs = laws(label(), ((120, 1), (121, 0)))
    assert max(math.log(p / q) for p, q in zip(ours, theirs, strict=True)) > 0.99 * EPSILON


def test_log_ratios_of_a_label_lie_in_an_interval_of_length_epsilon(pairs):
    for pair, low in pairs:
        ours, theirs = laws(label(), pair, low)
        ratios = [math.log(p / q) for p, q in zip(ours, theirs, strict=True)]
        assert max(ratios) - min(ratios) <= EPSILON * (1 + Fraction(1, 10**9))
        for order in ORDERS:
            most = float(ZeroConcentrated(EPSILON**2 / 8).log_moment_up(order))
            assert math.log(moment(ours, theirs, order, [0] * len(ours))) <= most


def test_permute_and_flip_is_not_so_concentrated():
    mechanism, order = label(flip=True), ORDERS[1]
    worst = max(moment(*laws(mechanism, pair), order, [0] * 2) for pair in neighbours(60, 2))
    assert math.log(worst) > float(ZeroConcentrated(EPSILON**2 / 8).log_moment_up(order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flip", [False, True])
def test_paying_only_for_other_labels_than_the_guess_covers_all(pairs, order, flip):
    asked = Label(0, epsilon=EPSILON, guess=OPTIONS[0], flip=flip)
    mechanism, psi = label_choice(asked), float(label_event(asked).hit_price_up(order))
    for pair, low in pairs:
        ours, theirs = laws(mechanism, pair, low)
        for guess in range(len(ours)):
            charges = [psi * (label != guess) for label in range(len(ours))]
            assert moment(ours, theirs, order, charges) <= 1 + 1e-12


@pytest.mark.parametrize("order", ORDERS)
def test_paying_only_for_boundaries_covers_all(pairs, order):
    mechanism, psi = clear(), float(BoundaryCall(EPSILON).hit_price_up(order))
    for pair, low in pairs:
        ours, theirs = laws(mechanism, pair, low)
        assert all(p <= q * math.exp(BoundaryCall(EPSILON).epsilon) for p, q in zip(ours, theirs, strict=True))
        charges = [psi, *[0] * (len(ours) - 1)]
        assert moment(ours, theirs, order, charges) <= 1 + 1e-12


def test_a_tenth_of_the_price_of_a_boundary_would_not_cover_all():
    mechanism, order = clear(), ORDERS[1]
    psi = float(BoundaryCall(EPSILON).hit_price_up(order)) / 10
    assert max(moment(*laws(mechanism, pair), order, [psi, 0, 0]) for pair in neighbours(120, 2)) > 1


def test_a_little_less_than_the_price_of_another_label_would_not_cover_all():
    mechanism, order = label(), ORDERS[1]
    psi = float(NarrowChoice(EPSILON).hit_price_up(order)) * 0.98
    assert max(moment(*laws(mechanism, pair), order, [0, psi]) for pair in neighbours(120, 2)) > 1


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("free", [0, 1])
def test_paying_only_for_the_unexpected_level_covers_all(order, free):
    mechanism = agreement_test(Agreement(0, above=3, epsilon=EPSILON))
    psi = float(Targeted(EPSILON).hit_price_up(order))
    for pair in neighbours(4, 3):
        ours, theirs = [mechanism.law(max(votes)).probabilities() for votes in pair]
        assert moment(ours, theirs, order, [psi * (level != free) for level in (0, 1)]) <= 1 + 1e-12


def test_labels_are_drawn_by_the_law_and_not_by_one_of_another_scale(opened):
    session = opened(budget=Budget(epsilon=10**6), filter="pure", grain=None, unsafe_noise=Seeded(5))
    drawn = Counter(session.ask(Label(0, epsilon="0.3")).option for _ in range(1500))
    seen = [drawn[option] for option in OPTIONS]
    expected = np.array(Exponential("0.3", sensitivity=1).law(VOTES[0]).probabilities()) * 1500
    other = np.array(Exponential("0.3", sensitivity=1, monotone=True).law(VOTES[0]).probabilities()) * 1500
    assert chisquare(seen, expected, sum_check=False).pvalue > ALPHA
    assert chisquare(seen, other, sum_check=False).pvalue < ALPHA


def test_without_noise_the_most_votes_win(certain):
    assert [certain.ask(Label(k, epsilon=PLENTY)).option for k in VOTES] == ["cat", "dog", "cow"]
    assert [certain.ask(Label(k, epsilon=PLENTY, clear=True)).option for k in VOTES] == ["cat", "dog", "cow"]
    assert [certain.ask(Label(k, epsilon=PLENTY, flip=True)).option for k in VOTES] == ["cat", "dog", "cow"]
    assert [certain.ask(Agreement(k, above=20, epsilon=PLENTY)).value for k in VOTES] == [True, False, True]


def test_without_noise_a_bar_holds_labels_back(certain):
    for clear in (False, True):
        found = [certain.ask(Label(k, epsilon=PLENTY, low=15, clear=clear)) for k in VOTES]
        assert [(label.state, label.option) for label in found] == [("label", "cat"), ("low", None), ("label", "cow")]


def test_an_answer_that_no_option_has_enough_votes_is_another_one_than_the_guess(opened):
    session = opened(unsafe_noise=Seeded(3))
    price = session.spine.filter.price(NarrowChoice("0.02"))
    assert price.free_miss
    labels = [session.ask(Label(0, epsilon="0.02", low=1000, guess="cat")) for _ in range(3)]
    assert labels == [Labelled(entry.call, "low", None, paid=True) for entry in session.history]
    assert [entry.hits for entry in session.history] == [1] * 3
    assert spent(session).main == 3 * price.hit.main
    before = spent(session)
    clear = session.ask(Label(0, epsilon="0.02", low=2000, clear=True))
    assert clear == Labelled(session.history[-1].call, "low", None, paid=False)
    assert spent(session) == before


def test_votes_that_tie_are_a_boundary_one_time_in_three(certain):
    VOTES[3] = [9, 9, 0]
    try:
        states = Counter(certain.ask(Label(3, epsilon=PLENTY, clear=True)).state for _ in range(300))
    finally:
        del VOTES[3]
    assert 50 < states["boundary"] < 150
    assert states["label"] + states["boundary"] == 300


def test_every_label_is_paid_by_the_cheaper_of_two_true_prices(opened):
    for options in ({}, {"filter": "pure", "budget": Budget(epsilon=1)}, {"filter": "exact"}):
        session = opened(**options)
        epsilon = Fraction(1, 50)
        assert session.ask(Label(0, epsilon=epsilon)).charged
        event = Pure(epsilon) if options else ZeroConcentrated(epsilon**2 / 8)
        assert spent(session) == session.spine.filter.price(event).hit


def test_a_guess_in_a_call_too_large_for_a_price_of_hits_is_paid_as_every_label(opened):
    session, size = opened(), Fraction(1, 5)
    assert not session.spine.filter.price(Targeted(size)).free_miss
    assert {session.ask(Label(2, epsilon=size, guess="cow")).paid for _ in range(2)} == {True}
    assert spent(session).main == 2 * session.spine.filter.price(ZeroConcentrated(size**2 / 8)).hit.main
    flipped = opened()
    flipped.ask(Label(2, epsilon=size, guess="cow", flip=True))
    assert spent(flipped) == flipped.spine.filter.price(Pure(size)).hit


def test_as_many_options_as_there_are_can_be_flipped():
    many = Votes(lambda question: np.arange(100), [*range(100)], voter="teacher")
    with open_votes(many, dataset="votes", ledger=":memory:", budget=NO_NOISE) as session:
        assert session.ask(Label(0, epsilon=PLENTY, flip=True)).option == 99


def test_permute_and_flip_is_paid_as_a_pure_call(opened):
    session = opened()
    session.ask(Label(0, epsilon="0.02", flip=True))
    assert spent(session) == session.spine.filter.price(Pure("0.02")).hit


def test_only_what_the_guess_got_wrong_is_paid(opened):
    session = opened(unsafe_noise=Seeded(3))
    labels = [session.ask(Label(0, epsilon="0.02", guess="cat")) for _ in range(40)]
    wrong = sum(label.option != "cat" for label in labels)
    assert [label.paid for label in labels] == [label.option != "cat" for label in labels]
    assert 0 < wrong < 40
    price = session.spine.filter.price(NarrowChoice("0.02")).hit
    assert spent(session).main == wrong * price.main
    assert sum(entry.hits for entry in session.history) == wrong


def test_only_boundaries_are_paid(opened):
    session = opened(unsafe_noise=Seeded(4))
    labels = [session.ask(Label(k % 3, epsilon="0.02", clear=True)) for k in range(60)]
    boundaries = sum(label.state == "boundary" for label in labels)
    assert [label.paid for label in labels] == [label.state == "boundary" for label in labels]
    assert 0 < boundaries < 60
    assert spent(session).main == boundaries * session.spine.filter.price(BoundaryCall("0.02")).hit.main


@pytest.mark.parametrize("expect", ["high", "low"])
def test_only_the_unexpected_level_is_paid(opened, expect):
    session = opened(unsafe_noise=Seeded(4))
    found = [session.ask(Agreement(k % 3, above=15, epsilon="0.02", expect=expect)) for k in range(30)]
    paid = sum(high.value != (expect == "high") for high in found)
    assert [high.hit for high in found] == [high.value != (expect == "high") for high in found]
    assert 0 < paid < 30
    assert spent(session).main == paid * session.spine.filter.price(Targeted("0.02")).hit.main


def test_ledgers_hold_a_label_that_is_free_where_it_is_clear_by_a_kind_of_its_own(opened):
    session, call = opened(), Label(0, epsilon="0.02", low=5, clear=True)
    session.ask(call)
    [stored] = session.history
    said = {"epsilon": "1/50", "low": 5, "query": session.spine.rows.poll(0).body()}
    assert (stored.kind, stored.question) == ("label_clear", said)
    assert of_record(stored.kind, stored.question | {"question": 0}) == call
    assert (session.quote(call).kind, titled(stored.kind)) == ("label", "Label")


def test_budget_and_quota_hold(opened):
    session = opened(budget=Budget(epsilon="0.1", delta=1e-6), grain="0.01")
    affordable = session.spine.filter.price(ZeroConcentrated("0.0003125")).hit.copies_in(session.spine.filter.capacity)
    assert affordable == 1
    for _ in range(2):  # what the moments have no room for, the epsilons have
        session.ask(Label(0, epsilon="0.05"))
    with pytest.raises(BudgetExceeded):
        session.ask(Label(0, epsilon="0.05"))
    assert 0.5 < session.spent.share <= 1
    session = opened()
    session.set_quota("analyst", "0.001")
    with pytest.raises(BudgetExceeded):
        session.ask(Label(0, epsilon="0.1"))
    assert session.spent.share == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.ask(Label(0, epsilon=-1)),
        lambda session: session.ask(Label(0, epsilon=math.nan)),
        lambda session: session.ask(Label(0, epsilon="0.1", guess="horse")),
        lambda session: session.ask(Label(0, epsilon="0.1", guess=0)),
        lambda session: session.ask(Label(0, epsilon="0.1", low=-1)),
        lambda session: session.ask(Label(True, epsilon="0.1")),
        lambda session: session.ask(Label(None, epsilon="0.1")),
        lambda session: session.ask(Label(0, epsilon=0, clear=True)),
        lambda session: session.ask(Label(0, epsilon="0.1", guess="cat", clear=True)),
        lambda session: session.ask(Label(0, epsilon="0.1", flip=True, clear=True)),
        lambda session: session.ask(Label(0, epsilon="0.1", low=1.5, clear=True)),
        lambda session: session.ask(Agreement(0, above=-1, epsilon="0.1")),
        lambda session: session.ask(Agreement(0, above=5, epsilon="0.1", expect="middle")),
    ],
)
def test_what_cannot_be_right_is_refused_free(opened, ask):
    session = opened()
    with pytest.raises(InvalidInput):
        ask(session)
    assert session.spent.share == 0
    assert not session.history


def test_one_is_not_true_among_the_options():
    with open_votes(ballots((0, 1, 2)), dataset="votes", ledger=":memory:", budget=USUAL) as session:
        assert isinstance(session.ask(Label(0, epsilon="0.1", guess=1)), Labelled)
        with pytest.raises(InvalidInput):
            session.ask(Label(0, epsilon="0.1", guess=True))


def test_a_table_holds_no_votes():
    frame = pd.DataFrame({"age": [1, 2]})
    with (
        chary.open(frame, privacy_unit=None, ledger=":memory:", budget=USUAL) as session,
        pytest.raises(InvalidQuery, match="votes"),
    ):
        session.ask(Label(0, epsilon="0.1"))


def test_voters_that_fail_stay_charged_and_say_nothing(opened):
    session = opened()
    with pytest.raises(EngineError) as caught:
        session.ask(Label(987654321, epsilon="0.02"))
    assert "987654321" not in error_texts(caught.value).split("Label(987654321")[0]
    assert session.spent.share > 0
