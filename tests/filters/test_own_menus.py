"""The exact filter with a menu of the caller's: what it lists, what is a case of that, deltas, races, ledgers."""

import json
from fractions import Fraction

import pytest

from chary import Budget, InvalidParameter, NotPriced
from chary.accounting import (
    Approximate,
    Asymmetric,
    BestOf,
    BoundaryCall,
    DiscreteLaplace,
    ExPost,
    Extendable,
    MenuCall,
    NarrowChoice,
    Pure,
    Repeated,
    StatedLaws,
    Targeted,
    TwiceCall,
    UnanimousCall,
)
from chary.amounts import Amount
from chary.filters import ExactFilter, Listing, restore

BUDGET = Budget(epsilon=1, delta=1e-6)
STATED = StatedLaws.of([(("0.5", "0.5"), ("0.49", "0.51"))], [False, True])
MENU = [
    Targeted("0.05"),
    Targeted("0.05", "0.3"),
    BoundaryCall("0.05"),
    TwiceCall("0.05"),
    UnanimousCall("0.05", 3),
    Pure("0.1"),
    Asymmetric("0.2", "0.1"),
    STATED,
    BestOf(2),
]


@pytest.fixture(scope="module")
def menu():
    return ExactFilter.of_events(BUDGET, MENU, grain=Fraction(1, 40))


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        (Targeted("0.05"), 0),
        (Targeted("0.02"), 0),
        (Extendable("0.05"), 0),
        (NarrowChoice("0.05"), 0),
        (Targeted("0.05", "0.35"), 1),
        (Targeted("0.01", "0.3"), 1),
        (BoundaryCall("0.05"), 2),
        (BoundaryCall("0.03", 2), 2),
        (TwiceCall("0.05"), 3),
        (TwiceCall("0.001"), 3),
        (UnanimousCall("0.05", 3), 4),
        (Pure("0.1"), 5),
        (DiscreteLaplace(20, 2), 5),
        (Repeated(Pure("0.05"), 2), 5),
        (Asymmetric("0.2", "0.05"), 6),
        (STATED, 7),
        (BestOf(2), 8),
    ],
    ids=str,
)
def test_what_is_a_case_of_what_is_listed_has_its_price(menu, asked, listed):
    """But for releases, which cost no more, and races: those cost what the dearest hit has beyond one token, too."""
    entry, price = menu.menu[listed], menu.price(asked)
    tokens = entry.tokens + (max(each.tokens for each in menu.menu if each.free_misses) - 1 if listed == 8 else 0)
    if listed in (5, 6):
        assert price.hit == price.miss
        tokens = min(tokens, price.hit.main)
    assert (price.hit, price.miss) == (Amount(tokens), Amount(0 if entry.free_misses else tokens))
    assert entry.free_misses == (listed not in (5, 6, 8))


@pytest.mark.parametrize(
    "asked",
    [
        Targeted("0.06"),
        Targeted("0.05", "0.29"),
        Targeted("0.06", "0.3"),
        BoundaryCall("0.06"),
        TwiceCall("0.06"),
        UnanimousCall("0.05", 4),
        UnanimousCall("0.06", 3),
        Pure("0.9"),
        Asymmetric("0.9", "0.1"),
        BestOf(3),
        StatedLaws.of([(("0.5", "0.5"), ("0.1", "0.9"))], [False, True]),
        Targeted("0.05", None, "1e-9"),
        Approximate("0.1", "1e-9"),
    ],
    ids=str,
)
def test_what_is_no_case_of_it_has_none(menu, asked):
    with pytest.raises(NotPriced):
        menu.price(asked)


def test_the_cheapest_entry_counts():
    twice = ExactFilter.of_events(BUDGET, [Listing(Targeted("0.04"), 5), Listing(Targeted("0.02"), 2)])
    assert [twice.price(Targeted(size)).hit.main for size in ("0.01", "0.03")] == [2, 5]


def test_the_smallest_menu_is_that_of_the_closed_curve():
    own, usual = ExactFilter.of_events(BUDGET, [Targeted("0.02")]), ExactFilter(BUDGET, Fraction(1, 50))
    assert own.tokens == usual.tokens == 45


@pytest.mark.parametrize("parts", [2, 4])
def test_a_hit_of_several_tokens_is_paid_by_as_many_times_the_tokens(parts):
    one, more = (ExactFilter.of_events(BUDGET, [Listing(Targeted("0.02"), tokens)]) for tokens in (1, parts))
    assert more.tokens == parts * one.tokens + parts - 1


def test_calls_by_their_laws_afford_more_hits_than_as_targets():
    for event in (BoundaryCall("0.02"), TwiceCall("0.02")):
        own, target = (ExactFilter.of_events(BUDGET, [entry]).tokens for entry in (event, Targeted(*event.listed)))
        assert own > 1.5 * target


def test_a_race_costs_tokens_and_none_is_given_away():
    bare, race = (ExactFilter.of_events(BUDGET, [Targeted("0.02"), *more]) for more in ([], [BestOf(2)]))
    cheap = ExactFilter.of_events(BUDGET, [Listing(Targeted("0.02"), 1), Listing(BestOf(2), 1)])
    assert cheap.tokens < race.tokens <= bare.tokens
    assert race.menu[0].tokens == 1 < race.menu[1].tokens == race.price(BestOf(2)).hit.main


def test_a_race_costs_what_the_dearest_hit_has_beyond_one_token_as_well():
    """So it does, too, where a ledger was opened before: its tokens say what the curve was worked out from."""
    mixed = (Listing(Targeted("0.05"), 2), Listing(Targeted("0.1"), 5), Listing(Pure("0.1"), 7), Listing(BestOf(2), 3))
    old = restore(BUDGET, ExactFilter(BUDGET, Fraction(1, 40), mixed, tokens=9).body())
    assert (old.tokens, old.menu[3].tokens) == (9, 3)
    assert (old.price(BestOf(2)).hit, old.price(BestOf(2)).miss) == (Amount(7), Amount(7))
    usual = ExactFilter(BUDGET, Fraction(1, 50), (MenuCall(1, 1), MenuCall(3, 4), mixed[3]), tokens=9)
    assert usual.price(BestOf(2)).hit.main == 6


def test_a_release_of_no_smaller_epsilon_costs_a_hit_and_takes_none_away():
    """Prices at one Renyi order made a hit cost several times as much near the order at which it has none."""
    for budget, size, hits in ((BUDGET, "0.02", 45), (Budget(epsilon=8, delta="1e-3"), "0.25", 19)):
        both = ExactFilter.of_events(budget, [Targeted(size), Pure(size)])
        assert ([entry.tokens for entry in both.menu], both.tokens) == ([1, 1], hits)


def test_tokens_of_releases_leave_nearly_all_hits():
    pair = ExactFilter.of_events(BUDGET, [Targeted("0.02"), Pure("0.1")])
    assert pair.tokens >= Fraction(11, 12) * 45 * pair.menu[0].tokens
    assert pair.menu[1].tokens < 8 * pair.menu[0].tokens
    small = ExactFilter.of_events(BUDGET, [Targeted("0.04"), Pure("0.005")])
    assert small.menu[1].tokens * 20 < small.menu[0].tokens


def test_deltas_are_set_aside_and_add_up():
    filter_ = ExactFilter.of_events(BUDGET, [Targeted("0.05"), Pure("0.05")], delta_reserve=Fraction(1, 10**7))
    price = filter_.price(Targeted("0.05", None, "1e-8"))
    assert (price.hit.delta, price.miss.delta, price.free_miss) == (10**10, 10**10, True)
    assert filter_.price(Approximate("0.05", "1e-8")).miss.delta == 10**10
    assert filter_.capacity.delta == 10**11
    spare = ExactFilter.of_events(Budget(epsilon=1, delta="9e-7"), [Targeted("0.05"), Pure("0.05")])
    assert filter_.tokens == spare.tokens


@pytest.mark.parametrize("apart", [Fraction(1, 10**6), Fraction(1)])
def test_all_of_delta_cannot_be_set_aside(apart):
    for make in (
        lambda: ExactFilter.of_events(BUDGET, [Targeted("0.05")], delta_reserve=apart),
        lambda: ExactFilter.with_revisions(BUDGET, Fraction(1, 50), delta_reserve=apart),
    ):
        with pytest.raises(InvalidParameter):
            make()


def test_it_comes_back_from_a_ledger_as_it_was(menu, monkeypatch):
    monkeypatch.setattr("chary.accounting.menu_curve.lattice_curves", None)
    again = restore(BUDGET, json.loads(json.dumps(menu.body())))
    assert again == menu
    assert [again.price(event) for event in MENU] == [menu.price(event) for event in MENU]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExactFilter.of_events(BUDGET, []),
        lambda: ExactFilter.of_events(BUDGET, [BestOf(2)]),
        lambda: ExactFilter.of_events(BUDGET, ["0.05"]),
        lambda: ExactFilter.of_events(BUDGET, [Approximate("0.05", "1e-9")]),
        lambda: ExactFilter.of_events(BUDGET, [Targeted("0.05", None, "1e-9")]),
        lambda: Listing(Pure(1), 0),
        lambda: ExactFilter.of_events(BUDGET, [Targeted(3)]),
    ],
)
def test_what_cannot_be_listed_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_the_menus_words_are_those_of_its_events(menu):
    with pytest.raises(NotPriced, match=r"BoundaryCall\(0\.05\), TwiceCall\(0\.05\), UnanimousCall\(0\.05, 3\)"):
        menu.price(Pure(1))
    assert "menu of its own" in menu.describe()


@pytest.mark.parametrize("loss", [0, "0.01", "0.05", "0.5"])
def test_no_menu_covers_a_loss_known_only_afterwards(loss):
    """An outcome that loses 0.1 may be almost certain; of a call that is Pure(0.1) beforehand none is."""
    made = ExactFilter.of_events(BUDGET, [Pure("0.05"), Pure("0.5"), Targeted("0.05")])
    with pytest.raises(NotPriced):
        made.price(ExPost(loss))
