"""A session under an exact filter whose menu is the caller's: all that is listed is asked, and paid as listed."""

from fractions import Fraction

import pytest

from chary import Algorithm, Budget, InvalidParameter, LedgerMismatch, NotPriced, count
from chary.accounting import BoundaryCall, Pure, Targeted, TwiceCall, UnanimousCall
from chary.calls import (
    Boundary,
    Choose,
    Classify,
    Quantile,
    Release,
    RunAlgorithm,
    SparseVector,
    ThresholdTest,
)
from chary.filters import Listing
from tests.session.kit import CLINICS, spent

PLENTY = Budget(epsilon=3, delta=1e-6)
MENU = [
    Listing(Targeted("0.05"), 1),
    Listing(Targeted("0.05", "0.3"), 2),
    Listing(BoundaryCall("0.05"), 2),
    Listing(TwiceCall("0.05"), 2),
    Listing(UnanimousCall("0.05", 3), 1),
    Listing(Pure("0.1"), 2),
]


def even():
    law = [Fraction(401, 800), Fraction(399, 800)]
    return Algorithm(
        "even", lambda rows, source: "odd", "0.05", outcomes=["odd", "even"], probabilities=lambda rows: law
    )


def test_every_call_of_the_menu_is_asked_of_a_session_and_paid(opened, tmp_path):
    between = Classify(count(), low=-10, high=10, epsilon="0.05")
    place = tmp_path / "visits.ledger"
    session = opened(menu=MENU, grain="0.025", ledger=place, budget=PLENTY)
    asked = [
        (ThresholdTest(count(), above=-(10**9), epsilon="0.05"), Targeted("0.05")),
        (Boundary(even()), BoundaryCall("0.05")),
        (Boundary(even(), runs=3), UnanimousCall("0.05", 3)),
        (Boundary(even(), runs=2, publish=True), TwiceCall("0.05")),
        (Classify(count(), above=50, epsilon="0.05"), BoundaryCall("0.05", 2)),
        (between, Targeted("0.05", "0.3")),
        (RunAlgorithm(even(), target=["odd"], q="0.4"), Targeted("0.05", "0.4")),
        (Release(count(), epsilon="0.1"), Pure("0.1")),
    ]
    for call, event in asked:
        before, price = spent(session).main, session.spine.filter.price(event)
        session.ask(call)
        assert spent(session).main - before in (price.hit.main, price.miss.main)
    session.close()
    again = opened(menu=MENU, ledger=place, budget=PLENTY)
    assert again.spine.filter == session.spine.filter
    again.close()
    with pytest.raises(LedgerMismatch):
        opened(menu=MENU[:2], ledger=place, budget=PLENTY)


@pytest.mark.parametrize("options", [{"filter": "renyi"}, {"filter": "pure"}])
def test_a_menu_is_that_of_the_exact_filter(opened, options):
    with pytest.raises(InvalidParameter):
        opened(menu=MENU, **options)


def test_a_session_sells_what_its_menu_does_not_list(opened, tmp_path):
    """Releases of sizes that are no grains, quantiles, choices, sparse vectors; the same again from its ledger."""
    options = {"filter": "exact", "grain": "0.02", "ledger": tmp_path / "visits.ledger"}
    ages = {"bounds": (0, 120), "max_rows_per_unit": 1}
    asked = [
        lambda size: Release(count(), epsilon=size),
        lambda size: Quantile("age", 0.5, **ages, epsilon=size),
        lambda size: Choose(count().by("clinic", CLINICS, max_groups_per_unit=1), epsilon=size),
        lambda size: SparseVector(above=50, hits=1, epsilon=size),
    ]
    session = opened(**options)
    for make, size in zip(asked, ("0.05", "0.07", "0.1", "0.11"), strict=True):
        before, price = spent(session).main, session.spine.filter.price(Pure(size))
        call = make(size)
        (session.start if isinstance(call, SparseVector) else session.ask)(call)
        assert spent(session).main - before == price.hit.main == price.miss.main
    prices = [session.spine.filter.price(Pure(size)) for size in ("0.05", "0.3")]
    session.close()
    again = opened(**options)
    assert [again.spine.filter.price(Pure(size)) for size in ("0.05", "0.3")] == prices
    with pytest.raises(NotPriced, match="releases up to epsilon"):
        again.ask(Release(count(), epsilon="0.9"))
