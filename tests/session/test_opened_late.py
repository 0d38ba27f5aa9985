"""Nothing is recorded before the first charge: no ledger, no dataset in it, no budget."""

import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidInput, LedgerMismatch, count
from chary.calls import DistinctSketch, Release, ThresholdTest
from chary.errors import LedgerError
from chary.ledger import open_ledger
from chary.session import plain_composition
from tests.session.kit import spent, visits

OTHER = Budget(epsilon=3)


@pytest.fixture(params=["no file", "an empty ledger", "another dataset"])
def place(request, tmp_path, opened):
    path = tmp_path / "visits.ledger"
    if request.param == "an empty ledger":
        open_ledger(path).close()
    if request.param == "another dataset":
        with opened(ledger=path, dataset="trips") as session:
            session.release(count(), epsilon="0.1")
    return path


def names(path):
    if not path.exists():
        return []
    ledger = open_ledger(path)
    found = [terms.name for terms in ledger.datasets()]
    ledger.close()
    return [name for name in found if name != "trips"]


FREE = {
    "quote": lambda s: s.quote(ThresholdTest(count(), above=5, epsilon="0.02")),
    "any quote": lambda s: s.quote(Release(count(), epsilon="0.02")),
    "looking": lambda s: (s.spent, s.remaining, s.history, s.statement(), s.versions, plain_composition(s), repr(s)),
    "verifying": lambda s: s.spine.ledger.verify(),
    "no call": lambda s: s.spine.ledger.replay("visits", "analyst", "key", "release", "{}"),
}
REFUSED = {
    "number": (lambda s: s.release(count(), epsilon=-1), InvalidInput),
    "column": (lambda s: s.release(count("nobody > 1"), epsilon="0.1"), InvalidInput),
    "budget": (lambda s: s.release(count(), epsilon=50), BudgetExceeded),
    "key": (lambda s: s.release(count(), epsilon="0.1", request=""), InvalidInput),
    "share": (lambda s: s.set_quota("", "0.5"), InvalidInput),
    "rows": (lambda s: s.append({"nobody": [1]}), InvalidInput),
}


@pytest.mark.parametrize("ask", FREE.values(), ids=FREE.keys())
def test_looking_and_quoting_record_nothing_and_fix_no_budget(opened, place, ask):
    with opened(ledger=place, dataset="visits") as session:
        before = names(place)
        ask(session)
        assert (before, names(place)) == ([], [])
    assert opened(ledger=place, dataset="visits", budget=OTHER).spine.filter.budget == OTHER


@pytest.mark.parametrize(("ask", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_records_nothing_and_fixes_no_budget(opened, place, ask, error):
    with opened(ledger=place, dataset="visits") as session:
        with pytest.raises(error):
            ask(session)
        assert names(place) == []
    with opened(ledger=place, dataset="visits", budget=OTHER) as session:
        session.release(count(), epsilon="0.1")


RECORDED = {
    "charge": lambda s: s.release(count(), epsilon="0.1"),
    "free call": lambda s: s.start(DistinctSketch(epsilon="0.01", registers=64)),
    "share": lambda s: s.set_quota("bob", "0.5"),
    "append": lambda s: s.append(visits()),
}


@pytest.mark.parametrize("act", RECORDED.values(), ids=RECORDED.keys())
def test_the_first_record_fixes_the_budget(opened, place, act):
    with opened(ledger=place, dataset="visits") as session:
        act(session)
        assert names(place) == ["visits"]
        assert session.spine.ledger.verify().ok
    with pytest.raises(LedgerMismatch):
        opened(ledger=place, dataset="visits", budget=OTHER)


def test_who_was_faster_is_seen_at_once(opened, place):
    first, second = (opened(ledger=place, dataset="visits", analyst=name) for name in ("ann", "bob"))
    answer = first.release(count(), epsilon="0.1", request="key")
    assert spent(second) == spent(first) != 0
    assert [entry.analyst for entry in second.history] == ["ann"]
    assert second.spine.ledger.replay("visits", "ann", "key", "release", second.spine.ledger.call(answer.call).body)


@pytest.mark.parametrize("look", [lambda s: s.spent, lambda s: s.release(count(), epsilon="0.1")])
def test_a_budget_that_others_fixed_meanwhile_is_not_passed_over(opened, place, look):
    late = opened(ledger=place, dataset="visits", budget=OTHER)
    with opened(ledger=place, dataset="visits") as faster:
        faster.release(count(), epsilon="0.1")
    with pytest.raises(LedgerMismatch, match=r"holds this dataset under epsilon .*, not epsilon 3"):
        look(late)


def test_a_second_dataset_that_others_opened_meanwhile_must_be_named(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    late = opened(ledger=path)
    with opened(ledger=path, dataset="visits") as faster:
        faster.release(count(), epsilon="0.1")
    with pytest.raises(LedgerMismatch, match="say dataset="):
        late.release(count(), epsilon="0.1")


def test_a_ledger_that_is_handed_in_is_left_alone_too(opened):
    ledger = open_ledger(":memory:")
    session = opened(ledger=ledger)
    session.quote(Release(count(), epsilon="0.1"))
    assert ledger.datasets() == []
    session.release(count(), epsilon="0.1")
    assert spent(session) == ledger.balance("data").spent


def test_a_closed_session_makes_no_ledger(opened, tmp_path):
    session = opened(ledger=tmp_path / "visits.ledger")
    session.close()
    for act in (lambda: session.spent, lambda: session.set_quota("bob", "0.5")):
        with pytest.raises(LedgerError, match="closed"):
            act()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["nowhere", "file"])
def test_a_place_where_no_ledger_can_be_is_told_at_once(tmp_path, folder):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="folder"):
        chary.open(visits(), privacy_unit="patient", ledger=tmp_path / folder / "a.ledger", budget=OTHER)
