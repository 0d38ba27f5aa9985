"""What happens when something breaks, before and after the data were touched."""

import pytest

import chary
from chary import Budget, EngineError, count, mean
from chary.accounting import Targeted
from chary.amounts import Amount
from chary.errors import LedgerLocked
from chary.session import STEPS
from tests.session.kit import CLINICS, SECRET_NAME, SECRET_NUMBER, error_texts, shows_data, spent

NEVER, SURE = 10**9, -(10**9)
COSTS = chary.sum("cost", bounds=(0, 10), max_rows_per_unit=1)
CALLS = {
    "release": lambda s: s.release(count(), epsilon="0.1"),
    "keyed": lambda s: s.release(count().by("clinic", CLINICS), epsilon="0.1"),
    "total": lambda s: s.release(COSTS, epsilon="0.1"),
    "mean": lambda s: s.release(mean("cost", bounds=(0, 10), max_rows_per_unit=1), epsilon="0.1"),
    "test": lambda s: s.test(count(), above=NEVER, epsilon="0.02"),
    "release_if": lambda s: s.release_if(count(), above=NEVER, epsilon="0.02"),
    "watch": lambda s: s.release_if(count().by("clinic", CLINICS), above=NEVER, epsilon="0.02"),
}


class At:
    """Do something when a step is reached, once it is armed."""

    def __init__(self, step, act):
        self.step, self.act, self.armed, self.seen = step, act, False, []

    def __call__(self, step):
        self.seen.append(step)
        if self.armed and step == self.step:
            self.armed = False
            self.act()


def drop_rows(session):
    with session.spine.rows.held.database.connection() as connection:
        connection.execute("DROP TABLE temp.main.chary_rows")


def poison(session):
    """Rows whose every reading fails with a message full of data."""
    with session.spine.rows.held.database.connection() as connection:
        connection.execute("ALTER TABLE temp.main.chary_rows RENAME TO chary_old")
        value = f"CASE WHEN note = 'none' THEN '{SECRET_NAME}' ELSE '{SECRET_NUMBER}' || note END"
        broken = ", ".join(
            f"CAST({value} AS {kind}) AS {name}"
            for name, kind in (("patient", "BIGINT"), ("age", "BIGINT"), ("cost", "DOUBLE"))
        )
        connection.execute(f"CREATE TEMP VIEW chary_rows AS SELECT {broken}, clinic, note FROM chary_old")


BREAKS = {
    "closed": lambda session: session.spine.rows.close(),
    "connection": lambda session: session.spine.rows.held.database._connection.close(),
    "dropped": drop_rows,
    "poisoned": poison,
}


@pytest.mark.parametrize("ask", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("damage", BREAKS.values(), ids=BREAKS.keys())
def test_a_failing_engine_shows_nothing_and_keeps_the_charge(opened, ask, damage):
    at = At("reserved", lambda: damage(session))
    session = opened(on_step=at)
    at.armed = True
    with pytest.raises(EngineError) as failure:
        ask(session)
    assert not shows_data(error_texts(failure.value))
    [entry] = session.history
    assert (entry.state, entry.answer, entry.hits) == ("reserved", None, 0)
    assert spent(session) != Amount(0)
    assert entry.share == session.spent.share
    assert "evaluated" not in at.seen


@pytest.mark.parametrize("ask", CALLS.values(), ids=CALLS.keys())
def test_an_interruption_inside_of_the_engine_is_no_failure_of_the_engine(opened, ask, monkeypatch):
    class Interrupted:
        def execute(self, *asked):
            raise RuntimeError("Query interrupted")

        def __getattr__(self, name):
            return lambda *given: None

    session = opened()
    with monkeypatch.context() as patched:
        patched.setattr(session.spine.rows.held.database, "_connection", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            ask(session)
    [entry] = session.history
    assert entry.state == "reserved"
    ask(session)


def test_an_interruption_is_told_even_where_the_reservation_cannot_be_given_back(opened):
    """It stays charged then, and the key is free all the same."""

    def broken(reservation):
        raise LedgerLocked("another process held the ledger for too long: try again")

    session = opened(on_step=At("reserved", lambda: 1 / 0))
    session.spine.ledger.void, session.spine.on_step.armed = broken, True
    with pytest.raises(ZeroDivisionError):
        session.release(count(), epsilon="0.1", request="key")
    assert [entry.state for entry in session.history] == ["reserved"]
    session.release(count(), epsilon="0.1", request="key")
    assert [entry.state for entry in session.history] == ["reserved", "settled"]


def test_an_interrupted_call_is_charged_its_worst_price(opened, place):
    at = At("evaluated", lambda: 1 / 0)
    session = opened(ledger=place, on_step=at, grain="0.02")
    at.armed = True
    with pytest.raises(ZeroDivisionError):
        session.release_if(count().by("clinic", CLINICS), above=NEVER, epsilon="0.02")
    assert spent(session) == session.spine.filter.price(Targeted("0.02")).hit.times(3)
    assert session.release_if(count().by("clinic", CLINICS), above=NEVER, epsilon="0.02").hits == 0


class Stop(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, Stop])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("ask", [CALLS["release"], CALLS["test"]], ids=["release", "test"])
def test_only_what_has_touched_no_data_is_given_back(opened, ask, step, error):
    def stop():
        raise error

    at = At(step, stop)
    session = opened(on_step=at)
    at.armed = True
    with pytest.raises(error):
        ask(session)
    states = [entry.state for entry in session.history]
    state = {"reserved": "voided", "evaluated": "reserved", "ran": "reserved", "settled": "settled"}
    assert states == ([] if step == "asked" else [state[step]])
    if step in ("asked", "reserved"):
        assert spent(session) == Amount(0)
    if step in ("evaluated", "ran"):
        assert spent(session) != Amount(0)
    before = spent(session)
    ask(session)
    assert len(session.history) == len(states) + 1
    assert spent(session).main >= before.main


def test_steps_are_told_in_order(opened):
    seen = []
    session = opened(on_step=seen.append)
    session.release(count(), epsilon="0.1")
    assert tuple(seen) == STEPS


def test_the_worst_price_is_charged_before_data_are_read(opened, place):
    charged = {}
    session = opened(ledger=place, on_step=lambda step: charged.setdefault(step, spent(session)))
    session.test(count(), above=NEVER, epsilon="0.02")
    hit = session.spine.filter.price(Targeted("0.02")).hit
    zero = Amount(0)
    assert charged == {"asked": zero, "reserved": hit, "evaluated": hit, "ran": hit, "settled": zero}


def test_a_failed_revision_keeps_the_outcome(opened):
    at = At("ran", lambda: 1 / 0)
    session = opened(on_step=at, grain="0.02")
    held = session.release_if(count(), above=NEVER, epsilon="0.01")
    before = session.spine.ledger.secret(held.call)
    at.armed = True
    with pytest.raises(ZeroDivisionError):
        held.widen(above=SURE)
    assert session.spine.ledger.secret(held.call) == before
    assert held.widen(above=SURE).published


@pytest.mark.parametrize("step", ["reserved", "ran"])
def test_of_two_revisions_at_once_one_publishes_and_the_other_is_given_back(opened, place, step):
    """The one that settles later has run for nothing, or is run again, and finds nothing held."""
    at = At(step, lambda: held.widen(above=SURE, request="other"))
    session = opened(on_step=at, grain="0.02", ledger=place)
    held = session.release_if(count(), above=NEVER, epsilon="0.01")
    at.armed = True
    with pytest.raises(chary.NotWithheld):
        held.widen(above=SURE)
    assert [entry.state for entry in session.history] == ["settled", "voided", "settled"]
    assert spent(session) == session.spine.filter.price(Targeted("0.01")).hit


def test_room_taken_by_another_between_looking_and_charging(opened):
    """A watch that takes what is left looks again when somebody was faster."""
    ledger = chary.ledger.open_ledger(":memory:")
    options = {"ledger": ledger, "filter": "exact", "grain": "0.02"}
    other, session = opened(**options), opened(**options)
    reserve, raced = ledger.reserve, []

    def race(*arguments, **options):
        if not raced:
            raced.append(True)
            other.test(count(), above=SURE, epsilon="0.02")
        return reserve(*arguments, **options)

    ledger.reserve = race
    room = session.spine.filter.capacity.main
    found = session.release_if(count().by("age", range(200)), above=SURE, epsilon="0.02")
    assert found.tested == room - 1
    assert spent(session) == session.spine.filter.capacity


def test_a_refusal_that_is_no_race_is_told_at_once(opened):
    session = opened(budget=Budget(epsilon=1))
    with pytest.raises(chary.BudgetExceeded) as refusal:
        session.release_if(count().by("age", range(200)), above=SURE, epsilon="0.02")
    assert "400 % of the budget" in str(refusal.value)
    assert session.history == []
