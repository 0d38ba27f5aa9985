"""A session whose calls are admitted by the better of two accounts: what is told, and what ends and closes which."""

import re
from dataclasses import replace

import pytest

from chary import Budget, BudgetExceeded, count
from chary.advise import advise_for
from chary.calls import IndividualTests, Quantile, Release, ReleaseIf, SparseVector, ThresholdTest
from chary.filters import largest_call_left
from chary.ledger import RequestUnanswered
from chary.noise import Seeded
from chary.session import Session
from tests.session.kit import CLINICS, USUAL, visits
from tests.session.test_advising import spend

BIG = Release(count(), epsilon="0.5")
NEVER = 10**9
RUNS = "Gaussian above threshold"


@pytest.fixture
def session(opened, place):
    return opened(ledger=place, budget=USUAL, grain="0.02", unsafe_noise=Seeded(5))


def test_a_filter_is_never_worse_than_epsilons_that_add_up(session):
    first = session.quote(BIG)
    assert (first.price_if_hit, first.most_charged, first.hits_left, first.left, first.left_after) == (
        0.5,
        0.5,
        2,
        1,
        0.5,
    )
    assert first.ends_free_misses
    assert "This call ends free misses" in str(first)
    answer = session.ask(BIG)
    assert (answer.charged.share, answer.left.share, session.spent.share) == (0.5, 0.5, 0.5)
    second = session.quote(BIG)
    assert (second.price_if_hit, second.hits_left, second.left_after, second.ends_free_misses) == (0.5, 1, 0, False)
    session.ask(BIG)
    assert [entry.share for entry in session.history] == [0.5, 0.5]
    with pytest.raises(BudgetExceeded, match=r"can cost 2 % of the budget .* and 0 % is left"):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert session.spine.ledger.verify().ok


def test_a_call_that_fits_beside_the_hits_ends_nothing(session):
    quote = session.quote(ThresholdTest(count(), above=NEVER, epsilon="0.02"))
    assert not quote.ends_free_misses
    assert quote.price_if_miss == 0
    for _ in range(60):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert session.spent.share == 0
    found = session.spine.accounts().basic
    assert (found.alone, found.spent) == (False, found.capacity + 1)
    # More epsilons were asked than the budget has, so only the account of hits is left.
    assert not session.quote(BIG).fits
    with pytest.raises(BudgetExceeded):
        session.ask(BIG)


def test_after_the_end_a_miss_is_charged(session):
    session.ask(BIG)
    quote = session.quote(ThresholdTest(count(), above=NEVER, epsilon="0.02"))
    assert (quote.price_if_hit, quote.price_if_miss, quote.hits_left) == (0.02, 0.02, 25)
    assert quote.misses_charged
    assert "misses are not free any more" in str(quote)
    for _ in range(25):
        assert not session.test(count(), above=NEVER, epsilon="0.02")
    with pytest.raises(BudgetExceeded):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert session.remaining.share == 0


def test_a_replay_says_of_what_fits_either_account_that_it_is_unanswered(session):
    replaying = Session(replace(session.spine, replays=True))
    for _ in range(2):
        # Only the epsilons have room for it, before the end and after.
        with pytest.raises(RequestUnanswered):
            replaying.ask(BIG, request="never")
        session.ask(BIG)
    with pytest.raises(BudgetExceeded):
        replaying.ask(BIG, request="never")
    assert len(session.history) == 2


def test_what_has_no_epsilon_is_for_the_main_account_alone(session):
    session.release(count(), rho="0.0001")
    assert not session.quote(BIG).fits


def test_what_has_no_epsilon_is_refused_after_the_end(session):
    session.ask(BIG)
    for asked in (Release(count(), rho="0.0001"), IndividualTests(epsilon="0.01", hits=1)):
        assert not session.quote(asked).fits
        with pytest.raises(BudgetExceeded):
            session.ask(asked)


def test_runs_that_were_paid_go_on_after_the_end(session):
    run = session.start(SparseVector(above=NEVER, hits=1, epsilon="0.1", tests=5))
    session.ask(Release(count(), epsilon="0.8"))
    assert session.spine.accounts().alone
    assert not run.ask(count()).hit
    assert session.spent.share == pytest.approx(0.9)


def test_every_part_of_a_watch_adds_its_epsilon(session):
    session.ask(BIG)
    asked = ReleaseIf(count().by("clinic", CLINICS), above=NEVER, epsilon="0.02")
    parts = asked.plan(session.spine).cost.parts
    assert session.quote(asked).most_charged == pytest.approx(0.02 * parts)
    session.ask(asked)
    assert session.history[-1].share == pytest.approx(0.02 * parts)


def test_rather_fewer_hits_than_the_end_of_free_misses(session):
    """A watch that may halt takes the hits that fit the main account; only where not one does it goes over."""
    asked = ReleaseIf(count().by("clinic", CLINICS), above=-NEVER, epsilon="0.02")
    while session.spine.left().main >= session.spine.filter.price(asked.plan(session.spine).event).hit.main:
        session.ask(asked)
    assert not session.spine.accounts().alone


def test_a_capped_analyst_keeps_to_the_cap(session):
    session.set_quota("bob", "0.25")
    bob = session.spine.accounts().own
    assert bob is None
    session.set_quota(session.spine.analyst, "0.25")
    assert not session.quote(BIG).fits
    with pytest.raises(BudgetExceeded):
        session.ask(BIG)


def test_a_capped_analyst_neither_ends_free_misses_nor_goes_on_after_them(opened, place):
    session = opened(ledger=place, budget=USUAL, grain="0.02", unsafe_noise=Seeded(5))
    run = session.start(SparseVector(above=NEVER, hits=1, epsilon="0.1", tests=5))
    bob = replace(session.spine, analyst="bob")
    first = Release(count(), epsilon="0.3")
    bob.perform(first.plan(bob))
    session.set_quota(session.spine.analyst, "1")
    # One of somebody without a cap would fit, by its epsilon alone.
    large = Release(count(), epsilon="0.4")
    assert session.spine.filter.price(large.plan(bob).event).hit.fits_into(session.spine.filter.capacity)
    assert not session.quote(large).fits
    assert not session.spine.accounts().alone
    with pytest.raises(BudgetExceeded):
        session.ask(large)
    bob.perform(large.plan(bob))
    assert session.spine.accounts().alone
    assert (session.remaining.share, bob.remaining().share) == (0, pytest.approx(0.2))
    with pytest.raises(BudgetExceeded, match="an analyst under a cap"):
        session.release(count(), epsilon="0.01")
    assert not run.ask(count()).hit  # it was paid


def test_hits_of_free_misses_are_those_that_fit_while_misses_are_free(session):
    asked = ThresholdTest(count(), above=NEVER, epsilon="0.02")
    fitting = session.spine.filter.price(asked.plan(session.spine).event).hit.copies_in(session.spine.filter.capacity)
    assert 20 < fitting < 50
    assert session.quote(asked).hits_left == fitting
    assert session.quote(BIG).hits_left == 2
    session.ask(BIG)
    assert session.quote(asked).hits_left == 25
    assert float(largest_call_left(session.spine.filter, session.spine.accounts(), 25)) == pytest.approx(0.02, rel=2e-3)


def test_what_ended_free_misses_and_all_after_it_say_so(session):
    ended = "free misses have ended"
    answer = session.release(count(), epsilon="0.02")
    assert ended not in str(answer) + session.statement()
    answer = session.ask(BIG)
    assert f"charged 50 %, 48 % left; {ended}: every call is charged its epsilon, hit or miss" in str(answer)
    assert ended in session.statement()
    assert ended in session.quote(IndividualTests(epsilon="0.01", hits=1)).lines()[1]
    with pytest.raises(BudgetExceeded, match=f"48 % is left; {ended}.* has no epsilon to be charged"):
        session.ask(IndividualTests(epsilon="0.01", hits=1))


def test_a_run_is_charged_of_the_account_that_lives(session):
    run = session.start(SparseVector(above=NEVER, hits=1, epsilon="0.1", tests=5))
    session.ask(Release(count(), epsilon="0.8"))
    run.ask(count())
    assert run.spent.share == pytest.approx(0.1)


@pytest.mark.parametrize("values", [True, False])
def test_advice_after_the_end_is_for_the_epsilons_that_are_left(opened, values):
    """Every call that is advised fits, is charged what was said, and leaves no room for another."""
    runs = {"values": False, "low": 0, "high": 51}
    for position in range(12):
        session = opened(budget=USUAL, grain="0.02", unsafe_noise=Seeded(5))
        session.ask(BIG)
        found = advise_for(session, tests=8, hits=2, **({"values": True} if values else runs))
        assert "free misses have ended" in {unfit.mechanism: unfit.reason for unfit in found.unfit}[RUNS]
        options = [option for option in found.options if option.code is not None]
        assert len(options) > 2
        assert {option.mechanism for option in options} >= {
            "plain composition, Laplace",
            "target charging, pure filter",
        }
        if position >= len(options):
            break
        spend(session, options[position], 8, 2)
        assert session.spent.share == pytest.approx(0.5 + options[position].share, rel=1e-6)
        assert options[position].share == pytest.approx(0.5, rel=0.01)


def test_what_else_would_do_after_the_end_costs_as_many_epsilons(session):
    session.ask(BIG)
    quote = session.quote(ThresholdTest(count(), above=NEVER, epsilon="0.02"), tests=4, hits=1)
    assert quote.price_if_miss == 0.02
    assert "plain composition, Laplace" in {each.mechanism for each in quote.alternatives}
    assert not any("sharp" in each.mechanism for each in quote.alternatives)


def test_an_exact_filter_has_it_too(opened):
    session = opened(budget=USUAL, filter="exact", grain="0.02")
    for _ in range(10):
        session.release(count(), epsilon="0.1")
    assert session.remaining.share == 0


def test_a_pure_filter_needs_none(opened):
    session = opened(budget=Budget(epsilon=1), filter="pure")
    assert session.spine.accounts().basic is None
    assert session.quote(BIG).hits_left == 2


def test_a_quote_counts_the_calls_that_fit_before_misses_are_charged(opened):
    session = opened(budget=Budget(epsilon=1, delta=1e-6))
    quote = session.quote(Release(count(), epsilon="0.1"))
    assert quote.hits_left == 10
    fits = quote.hits_before_end
    assert 0 < fits < 10
    assert f"pays for {fits} such calls, or 10 if free misses end" in str(quote)
    for _ in range(fits):
        assert not session.quote(Release(count(), epsilon="0.1")).ends_free_misses
        session.release(count(), epsilon="0.1")
    assert session.quote(Release(count(), epsilon="0.1")).ends_free_misses


def test_the_answer_before_the_one_that_ends_free_misses_warns_of_it(session):
    warned = "another such call does not fit, or ends free misses"
    assert warned not in str(session.release(count(), epsilon="0.02"))
    half = Release(count(), epsilon="0.2")
    told = []
    while not session.quote(half).ends_free_misses:
        told.append(warned in str(session.ask(half)))
    assert told == [False] * (len(told) - 1) + [True]
    assert warned not in str(session.ask(half))


def test_a_stored_answer_says_that_it_is_free_now(session):
    first, again = (session.release(count(), epsilon="0.02", request="one") for _ in range(2))
    assert (first.repeated, again.repeated, first == again) == (False, True, True)
    assert "charged 0.851 %" in str(first)
    assert str(again).endswith("; stored under this key before, free now, 99.1 % left")


AGAIN = re.compile(r"the same question as call (\d+), charged again: no idempotency key was given")


def repeats(answer):
    """The call whose question an answer says it repeats."""
    found = AGAIN.search(answer.price)
    return None if found is None else int(found[1])


def test_an_answer_says_which_call_it_repeats_without_a_key(opened, place):
    """So says every answer that was charged once more for what was known, and no other one."""
    office = opened(ledger=place, budget=Budget(epsilon=10, delta=1e-6), unsafe_noise=Seeded(5))
    first = office.release(count(), epsilon="0.1")
    second = office.release(count(), epsilon="0.1")
    third = office.release(count(), epsilon="0.1")
    assert [repeats(each) for each in (first, second, third)] == [None, first.call, second.call]
    others = [
        office.release(count(), epsilon="0.2"),
        office.release(count("age >= 65"), epsilon="0.1"),
        office.release(count(), epsilon="0.1", request="one more"),
        office.release(count(), epsilon="0.1", request="one more"),
        office.release_if(count(), above=NEVER, epsilon="0.01"),
        office.release_if(count(), above=NEVER, epsilon="0.01"),
    ]
    assert [repeats(each) for each in others] == [None] * len(others)
    # An answer under a key was the last one, and would have been found under it.
    assert repeats(office.release(count(), epsilon="0.1")) == others[2].call
    # Tests are meant to be asked again.
    hits = [office.release_if(count(), above=-NEVER, epsilon="0.01") for _ in range(2)]
    assert [repeats(each) for each in hits] == [None, None]
    medians = [office.ask(Quantile("age", 0.5, bounds=(0, 120), max_rows_per_unit=1, epsilon="0.1")) for _ in range(2)]
    assert [repeats(each) for each in medians] == [None, medians[0].call]


def test_rows_of_an_earlier_version_are_another_question(opened, place):
    office = opened(ledger=place, budget=Budget(epsilon=10, delta=1e-6))
    office.append(visits())
    before = office.as_of(1)
    old, new, again = (each.release(count(), epsilon="0.1") for each in (before, office, office))
    assert [repeats(each) for each in (old, new, again)] == [None, None, new.call]
    assert repeats(before.release(count(), epsilon="0.1")) is None
    office.append(visits())
    grown, known = (office.release(count(), epsilon="0.1") for _ in range(2))
    assert (repeats(grown), repeats(known)) == (None, grown.call)


def test_what_others_or_other_parts_were_asked_is_not_repeated(opened, place):
    office = opened(ledger=place, budget=Budget(epsilon=10, delta=1e-6))
    parts = office.partition("clinic", CLINICS[:2], max_parts_per_unit=1)
    north, south = (part.release(count(), epsilon="0.1") for part in parts.values())
    whole = office.release(count(), epsilon="0.1")
    other = Session(replace(office.spine, analyst="somebody else")).release(count(), epsilon="0.1")
    assert [repeats(each) for each in (north, south, whole, other)] == [None] * 4
    assert repeats(next(iter(parts.values())).release(count(), epsilon="0.1")) == north.call


def test_a_call_without_an_answer_is_not_repeated(opened, place):
    """What was interrupted is charged, but nobody had its answer."""
    office = opened(ledger=place, budget=Budget(epsilon=10, delta=1e-6))
    spine = office.spine

    def broken(step):
        if step == "reserved":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Session(replace(spine, on_step=broken)).release(count(), epsilon="0.1")
    assert repeats(office.release(count(), epsilon="0.1")) is None
