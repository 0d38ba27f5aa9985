"""Any order of questions, restarts and interruptions: a run keeps to a model of two numbers, what is left and spent."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chary
from chary import Budget, BudgetExceeded, count
from chary.calls import PrepaidTests
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import CLINICS, visits

FAR, TESTS, HITS = 10**6, 12, 5
QUERIES = {1: count(), 2: count().by("clinic", CLINICS, max_groups_per_unit=2), 3: count().by("clinic", CLINICS)}
ASKED = st.tuples(
    st.sampled_from(sorted(QUERIES)), st.booleans(), st.sampled_from([None, None, None, "evaluated", "ran"])
)


class Model:
    """Tests that are left, and steps of the budget that are."""

    def __init__(self, session, run):
        charges = run.agreed.charges
        self.hit, self.left = charges.hit, TESTS
        self.room = session.spine.filter.capacity.main - TESTS * charges.miss

    def reserved(self, taken):
        """Steps that a question reserves: as many hits as fit, of those that can be charged; None if it is refused."""
        fit = min(taken, self.room // self.hit)
        return None if taken > self.left or fit == 0 else fit * self.hit

    def answered(self, taken, hits):
        """A question that was answered with so many hits."""
        self.left -= taken
        self.room -= min(hits, taken) * self.hit


def opened(place, stop):
    return chary.open(visits(), privacy_unit="patient", budget=Budget(1, "1e-6"), ledger=place, on_step=stop)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(ASKED, st.just("restart")), min_size=4, max_size=14))
def test_a_run_keeps_to_its_model(acts):
    with tempfile.TemporaryDirectory() as folder:
        place, stop = Path(folder) / "visits.ledger", Interruption(None)
        session = opened(place, stop)
        run = session.start(PrepaidTests(tests=TESTS, hits=HITS, misses="0.3"))
        model = Model(session, run)
        for act in acts:
            if act == "restart":
                session.close()
                session = opened(place, stop)
                run = session.resume(run.call)
            else:
                ask(run, stop, model, *act)
            assert run.state.left == model.left
            assert session.spine.left().main == model.room
        assert session.spine.ledger.verify().ok
        session.close()


def ask(run, stop, model, taken, hits, step):
    """One question, far on either side of its bar, maybe interrupted after it has read."""
    reserved, above, stop.step = model.reserved(taken), -FAR if hits else FAR, step
    if reserved is None:
        with pytest.raises(BudgetExceeded):
            run.ask(QUERIES[taken], above=above)
    elif step is not None:
        with pytest.raises(Stop):
            run.ask(QUERIES[taken], above=above)
        model.room -= reserved
    else:
        found = run.ask(QUERIES[taken], above=above)
        assert bool(found.hit) is hits
        model.answered(taken, found.hits if taken > 1 else int(found.hit))
    stop.step = None
