"""What stays open: found again after a restart, closed, priced and summed, for every kind of run."""

import pytest

from chary import Budget, BudgetExceeded, InvalidInput, InvalidParameter, InvalidQuery, NotWithheld, count
from chary.amounts import Amount
from chary.calls import IndividualTests, Rerun, ThresholdTest, kinds
from chary.calls.run import Opening, run_kinds, run_of
from chary.growth import CountsBox
from tests.calls.samples import SAMPLES, answering, one
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import visits

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
KEYS = count().by("clinic", ["north", "south"])
# How a run of each kind is asked; the second time the answer may be another one.
QUESTIONS = {
    "above_threshold": ((count(),), {}),
    "agreed_tests": ((count(),), {"above": -(10**9)}),
    "best_of": ((one(),), {"priors": {"a": 1, "b": 2}}),
    "continual_count": ((), {}),
    "growing_sparse_vector": ((), {}),
    "individual_stream": ((count(),), {"above": -(10**9)}),
    "multiplicative_weights": (("clinic = 'north'",), {}),
    "schedule": ((), {}),
    "self_reporting": ((count(),), {}),
    "sketch": ((), {"above": 0}),
    "sparse_vector": ((count(),), {"above": -(10**9)}),
    "sparse_weights": (("clinic = 'north'",), {}),
}
# The same, and a question before which another call is made.
ALL = {kind: (kind, *told, 1) for kind, told in QUESTIONS.items()}
ALL |= {"a round with its question": ("growing_sparse_vector", (count(),), {"above": "0.5"}, 2)}
# What is no longer there for the second question.
ONCE = {"above_threshold", "growing_sparse_vector", "schedule"}
FOLLOWING = {"continual_count", "schedule"}


@pytest.fixture(params=QUESTIONS)
def kind(request):
    return request.param


def brought(kind):
    return {"bring": SAMPLES[kind]().box} if kind == "schedule" else {}


def ask(run, kind, **options):
    question, said = QUESTIONS[kind]
    return run.ask(*question, **said, **options)


def test_every_kind_of_run_is_here():
    assert set(run_kinds()) == QUESTIONS.keys() == {name for name, kind in kinds().items() if issubclass(kind, Opening)}


def test_what_a_run_is_asked_is_declared(kind, opened):
    session = answering(kind, opened, **ROOM)
    run = session.start(SAMPLES[kind]())
    ask(run, kind)
    assert session.history[-1].kind in {asked.kind for asked in run_of(kind).questions}


def test_a_run_is_gone_on_with_after_a_restart(kind, opened, tmp_path):
    place = tmp_path / "visits.ledger"
    session = answering(kind, opened, ledger=place, **ROOM)
    run = session.start(SAMPLES[kind](), request="open")
    told = repr(ask(run, kind, request="monday"))
    assert repr(run) == f"Run({kind}, call={run.call})"
    spent, number = run.spent, run.call
    session.close()
    again = answering(kind, opened, ledger=place, **ROOM)
    assert [(run.call, run.kind) for run in again.runs] == [(number, kind)]
    found = again.resume(number, **brought(kind))
    assert (type(found), found.call, found.kind, found.spent) == (type(run), number, kind, spent)
    assert repr(ask(found, kind, request="monday")) == told
    assert again.start(SAMPLES[kind](), request="open").call == number
    if kind not in ONCE:
        ask(found, kind)
    assert found.state is not None
    assert again.spine.ledger.verify().ok


def test_a_closed_run_is_asked_no_more_and_can_be_resumed(kind, opened):
    session = answering(kind, opened, **ROOM)
    with session.start(SAMPLES[kind]()) as run:
        ask(run, kind)
    before = len(session.history)
    question, said = QUESTIONS[kind]
    for use in (run.ask, run.quote):
        with pytest.raises(InvalidParameter, match=rf"session\.resume\({run.call}\) goes on"):
            use(*question, **said)
    with pytest.raises(InvalidParameter, match="was closed"):
        run.follow()
    assert len(session.history) == before
    again = session.resume(run.call, **brought(kind))
    again.close()
    again.close()
    with pytest.raises(InvalidParameter, match="was closed"):
        ask(again, kind)
    if kind not in ONCE:
        ask(session.resume(run.call), kind)


def test_a_run_has_spent_what_its_calls_were_charged(kind, opened):
    session = answering(kind, opened, **ROOM)
    session.ask(ThresholdTest(count(), above=-(10**9), epsilon="0.01"))
    first = session.start(SAMPLES[kind]())
    ask(first, kind)
    other = session.start(SAMPLES[kind]())
    ask(other, kind)
    ledger = session.spine.ledger
    stored = [ledger.call(entry.call) for entry in session.history]
    opening = [call.number for call in stored].index(other.call)
    expected = {first: stored[1:opening], other: stored[opening:]}
    for run, calls in expected.items():
        assert len(calls) >= 2
        assert run.spent.amount == sum((call.charged for call in calls), start=Amount(0))
    assert stored[0].price.main > 0
    assert sum((run.spent.amount for run in expected), stored[0].charged) == session.spent.amount


def test_what_a_run_has_spent_is_added_up_once(opened, monkeypatch):
    """Later looks read what came since; a call under way is looked at again until it is settled."""
    session = opened(**ROOM)
    run = session.start(SAMPLES["best_of"]())
    ledger, looks = session.spine.ledger, []
    calls = type(ledger).calls
    monkeypatch.setattr(
        type(ledger), "calls", lambda self, *args, **kw: looks.append(kw["after"]) or calls(self, *args, **kw)
    )
    opening = ledger.call(run.call).charged
    for told in (f"{run.call}0", f'{run.call},"x":1', f'0,"x":{{"best_of":{run.call}}}'):
        ledger.reserve("data", "local", "best_of_call", f'{{"best_of":{told}}}', Amount(7), None)
    reserved = ledger.reserve("data", "local", "best_of_call", f'{{"best_of":{run.call}}}', Amount(100), None)
    assert run.spent.amount == opening + Amount(7 + 100)
    ledger.settle(reserved, Amount(30), 1, 1, "{}")
    assert run.spent.amount == opening + Amount(7 + 30)
    assert looks == [run.call - 1, reserved.call]


def test_a_question_that_was_given_back_cost_the_run_nothing(opened):
    stop = Interruption("reserved", armed=False)
    session = answering("best_of", opened, on_step=stop, **ROOM)
    run = session.start(SAMPLES["best_of"]())
    spent, stop.armed = run.spent, True
    with pytest.raises(Stop):
        ask(run, "best_of")
    last = session.spine.ledger.call(session.history[-1].call)
    assert (str(last.state), last.worst.main > 0, last.charged) == ("voided", True, Amount(0))
    assert run.spent == spent


def test_a_question_is_priced_without_being_asked(kind, opened):
    steps = []
    session = answering(kind, opened, on_step=steps.append, **ROOM)
    run = session.start(SAMPLES[kind]())
    before = list(session.spine.ledger.export("data"))
    steps.clear()
    question, said = QUESTIONS[kind]
    quote = run.quote(*question, **said)
    assert (steps, list(session.spine.ledger.export("data"))) == ([], before)
    spent = session.spent.amount
    ask(run, kind)
    asked = session.spine.ledger.call(session.history[-1].call)
    assert asked.kind == quote.kind
    whole = session.spine.filter.capacity.main
    assert (session.spent.amount - spent).main <= quote.most_charged * whole * (1 + 1e-12)


@pytest.mark.parametrize(("kind", "question", "said", "made"), ALL.values(), ids=ALL)
def test_all_that_a_question_is_charged_was_quoted_and_is_found_under_its_request(kind, question, said, made, opened):
    session = answering(kind, opened, **ROOM)
    run = session.start(SAMPLES[kind]())
    before, spent = len(session.history), session.spent.amount
    quote = run.quote(*question, **said)
    run.ask(*question, **said, request="monday")
    ledger = session.spine.ledger
    calls = [ledger.call(entry.call) for entry in session.history[before:]]
    assert len(calls) == made
    assert all(call.request.startswith("monday") for call in calls)
    charged = (session.spent.amount - spent).main
    assert charged == ledger.charged_under("data", session.spine.analyst, "monday").spent.main
    assert charged <= quote.most_charged * session.spine.filter.capacity.main * (1 + 1e-12)
    run.ask(*question, **said, request="monday")
    assert session.spent.amount.main == spent.main + charged


def test_a_run_that_is_used_up_is_quoted_no_more(opened):
    session = opened(**ROOM)
    run = session.start(SAMPLES["sparse_vector"]())
    for _ in range(2):
        assert run.ask(count(), above=-(10**9))
    with pytest.raises(BudgetExceeded, match="all 2 hits"):
        run.quote(count())


def test_what_has_to_wait_is_quoted(opened):
    """No rows came, so that it would be refused now; where it stands it waits for them."""
    run = answering("continual_count", opened, **ROOM).start(SAMPLES["continual_count"]())
    run.ask()
    with pytest.raises(InvalidParameter):
        run.ask(only_new=True)
    assert run.quote(only_new=True).most_charged == 0


def test_a_histogram_is_quoted_in_the_words_in_which_it_is_asked(opened):
    run = answering("multiplicative_weights", opened, **ROOM).start(SAMPLES["multiplicative_weights"]())
    assert run.quote("clinic = 'north'", must_verify=True) == run.quote("clinic = 'north'")


def test_only_numbers_of_openings_are_resumed(kind, opened):
    session = answering(kind, opened, **ROOM)
    run = session.start(SAMPLES[kind]())
    ask(run, kind)
    asked = session.history[-1].call
    for number in (asked, asked + 1000, 0, -1, True, "1", None, 1.5):
        with pytest.raises(NotWithheld):
            session.resume(number)


def test_runs_of_another_dataset_and_interrupted_ones_are_unknown(kind, opened, tmp_path):
    place = tmp_path / "visits.ledger"
    run = answering(kind, opened, ledger=place, **ROOM).start(SAMPLES[kind]())
    other = answering(kind, opened, ledger=place, dataset="other", **ROOM)
    with pytest.raises(NotWithheld):
        other.resume(run.call, **brought(kind))
    assert other.runs == []


def test_a_run_that_follows_is_asked_after_each_append(kind, opened):
    session = answering(kind, opened, **ROOM)
    if kind not in FOLLOWING:
        with pytest.raises(InvalidParameter, match="it does not follow arrivals"):
            session.start(SAMPLES[kind](), follow=True)
        return
    run = session.start(SAMPLES[kind](), follow=True)
    before = len(run.state.results)
    rows = visits()
    session.append(rows)
    session.append(rows)
    assert len(run.state.results) > before
    assert run.state.latest == run.state.results[-1]


def test_a_resumed_run_follows_too(opened):
    session = answering("continual_count", opened, **ROOM)
    run = session.start(SAMPLES["continual_count"]())
    session.append(visits())
    assert run.state.results == []
    session.resume(run.call, follow=True)
    session.append(visits())
    assert len(run.state.results) == 2


def test_a_closed_run_that_follows_does_not_fail_the_append(opened):
    session = answering("continual_count", opened, **ROOM)
    run = session.start(SAMPLES["continual_count"](), follow=True)
    told = len(run.state.results)
    run.close()
    with pytest.warns(RuntimeWarning, match="was closed"):
        session.append(visits())
    assert len(session.resume(run.call).state.results) == told


def test_a_black_box_is_brought_again(opened):
    session = answering("schedule", opened, **ROOM)
    run = session.start(SAMPLES["schedule"]())
    other = CountsBox(count("age >= 61"))
    for wrong in ({}, {"bring": other}, {"bring": 5}):
        with pytest.raises(InvalidParameter):
            session.resume(run.call, **wrong).ask()
    assert session.resume(run.call, bring=Rerun(SAMPLES["schedule"]().box, epsilon=1, beta="0.1").box).state.runs


def test_what_does_not_stay_open_is_not_started(opened):
    session = opened(**ROOM)
    for call in (ThresholdTest(count(), above=1, epsilon="0.01"), count(), None, IndividualTests):
        with pytest.raises(InvalidQuery, match="start what stays open"):
            session.start(call)
    assert session.history == []


def test_a_question_that_cannot_be_right_is_refused(opened):
    session = opened(**ROOM)
    run = session.start(SAMPLES["sparse_vector"]())
    before = len(session.history)
    for use in (run.ask, run.quote):
        with pytest.raises(InvalidInput):
            use("count")
        with pytest.raises(InvalidInput):
            use(count(), above=float("nan"))
        with pytest.raises(InvalidQuery):
            use(count("nobody > 1"))
    assert len(session.history) == before
