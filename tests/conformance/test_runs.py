"""What every kind of run must do, whatever it asks: see samples.py."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pandas as pd
import pytest

from chary import (
    Budget,
    BudgetExceeded,
    InvalidInput,
    InvalidParameter,
    InvalidQuery,
    LedgerLocked,
    NotWithheld,
    RequestConflict,
    count,
)
from chary.amounts import Amount
from chary.calls import IndividualTests, MultiTarget, Rerun, ThresholdTest, kinds
from chary.calls.run import Opening, run_kinds
from chary.data.queries.stored import current_kind
from chary.errors import CharyError
from chary.growth import CountsBox
from chary.ledger import SecretMoved
from chary.noise import Seeded
from chary.report import report
from chary.session import STEPS, findings
from tests.conformance.sample import NEIGHBORS, ROWS
from tests.conformance.samples import EXTREME, RUNS
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import ADDRESS, error_texts, recorded, shows_data, spent, visits

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
# The table of a sketch has a name of its own in each process.
TABLE = re.compile(rb'"table": "[0-9a-f]{32}"')
# What of a stored state is telling: numbers beyond all public ones here, and the keys of a sketch.
TELLING = re.compile(r"[0-9a-f]{32,}|\d{5,}")

pytestmark = pytest.mark.usefixtures("any_threshold")


@pytest.fixture(params=RUNS)
def form(request):
    return RUNS[request.param]


@pytest.fixture
def opening(opened):
    """Sessions that can open runs of a form."""

    def make(form, rows=None, **options):
        return opened(rows, **(ROOM | NEIGHBORS[form.rows] | options))

    return make


def resumed(session, form, number):
    return session.resume(number, **({} if form.box is None else {"bring": form.box}))


def secret(run):
    return run._spine.ledger.secret(run.call)


def seen(run, form):
    """What is public of a run, what its question would cost, and what is kept."""
    state = run.state
    shown = {name: getattr(state, name) for name in dir(state) if not name.startswith("_")}
    public = {name: value for name, value in shown.items() if not callable(value)}
    if hasattr(state, "histogram"):
        public["histogram"] = state.histogram().tobytes(), state.standing()
    return ADDRESS.sub("", repr((state, public))), form.question.quote(run), TABLE.sub(b"", secret(run)), run.spent


def stored(session):
    return [session.spine.ledger.call(entry.call) for entry in session.history]


def check_accounts(session, form, run, answers):
    """What a run, all that the session asked, used up and was charged is that of the answers that were given."""
    calls = stored(session)
    assert form.used(run) == form.took(answers)
    assert {str(call.state) for call in calls} <= {"settled", "voided"}
    assert run.spent.amount == sum((call.charged for call in calls if call.state == "settled"), Amount(0))
    told = [answer.call for answer in answers if answer is not None]
    kind = session.spine.ledger.call(told[0]).kind
    assert sorted(told) == [call.number for call in calls if (call.kind, str(call.state)) == (kind, "settled")]
    assert session.spine.ledger.verify().ok


def test_every_kind_of_run_is_here():
    openings = {name for name, kind in kinds().items() if issubclass(kind, Opening)}
    assert {form.opening().kind for form in RUNS.values()} == set(map(current_kind, run_kinds())) == openings


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_opening_keeps_its_worst_price_and_leaves_no_run(form, step, opening):
    stop = Interruption(step)
    session = opening(form, on_step=stop)
    with pytest.raises(Stop):
        session.start(form.opening(), request="open")
    stop.armed = False
    for call in stored(session) if step != "settled" else ():
        assert (str(call.state), call.charged) == (
            ("voided", Amount(0)) if step == "reserved" else ("reserved", call.worst)
        )
        told = "opened no run" if step == "reserved" else "was interrupted; open a new one"
        with pytest.raises(NotWithheld, match=told):
            resumed(session, form, call.number)
    assert len(session.runs) == (step == "settled")
    assert len(session.history) == (step != "asked")
    run = session.start(form.opening(), request="open")
    assert session.runs == [(run.call, run.kind)]
    form.question.ask(run)
    assert session.spine.ledger.verify().ok


@pytest.mark.parametrize("step", STEPS)
def test_an_interrupted_question_is_given_back_or_keeps_its_worst_price_and_the_run_goes_on(form, step, opening):
    stop = Interruption(step, armed=False)
    session = opening(form, on_step=stop)
    run = session.start(form.opening())
    paid, kept, cost = spent(session), secret(run), run.spent.amount
    stop.armed = True
    with pytest.raises(Stop):
        form.question.ask(run, request="one")
    stop.armed = False
    call = stored(session)[-1]
    if step != "settled":
        worst = Amount(0) if step in ("asked", "reserved") else call.worst
        state = {"asked": "settled", "reserved": "voided"}.get(step, "reserved")
        assert (str(call.state), spent(session), secret(run)) == (state, paid + worst, kept)
        assert run.spent.amount == cost + worst
    answer = form.question.ask(run, request="one")
    assert repr(form.question.ask(run, request="one")) == repr(answer)
    assert form.used(run) == form.took([answer])
    assert session.spine.ledger.verify().ok


def test_restarts_and_arrivals_change_nothing_that_is_told(form, opening, tmp_path):
    """Under the same noise a run that is found again after each answer tells the same as one that was kept."""

    def told(restarting):
        options = {"ledger": tmp_path / f"{restarting}.ledger"}
        rows, found = visits(), []
        session = opening(form, rows, unsafe_noise=Seeded(3), **options)
        run = session.start(form.opening(), request="open")
        for deed in ("first", "second", "third", "fourth"):
            if deed in ("second", "fourth"):
                session.append(visits())
                rows = pd.concat([rows, visits()])
            found.append(repr(form.question.ask(run, request=deed)))
            if not restarting:
                continue
            before, kept, noise = seen(run, form), run, session.spine.source
            session.close()
            session = opening(form, rows, unsafe_noise=noise, **options)
            run = resumed(session, form, kept.call)
            assert seen(run, form) == before
            assert (type(run), run.kind, repr(run)) == (type(kept), kept.kind, f"Run({kept.kind}, call={kept.call})")
            assert session.runs == [(run.call, run.kind)]
            assert repr(form.question.ask(run, request=deed)) == found[-1]
            assert session.start(form.opening(), request="open").call == run.call
            if form.other is not None:
                with pytest.raises(RequestConflict):
                    form.other.ask(run, request=deed)
            assert seen(run, form) == before
        return found, seen(run, form)

    assert told(restarting=True) == told(restarting=False)


def test_a_repeated_request_is_answered_from_the_ledger(form, opening):
    steps = []
    session = opening(form, on_step=steps.append)
    run = session.start(form.opening(), request="open")
    answer = repr(form.question.ask(run, request="one"))
    before, calls = seen(run, form), len(session.history)
    steps.clear()
    assert repr(form.question.ask(run, request="one")) == answer
    assert session.start(form.opening(), request="open").call == run.call
    if form.other is not None:
        with pytest.raises(RequestConflict):
            form.other.ask(run, request="one")
    other = MultiTarget(["c", "d"]) if form.end is None else form.end.opening()
    with pytest.raises(RequestConflict):
        session.start(other, request="open")
    assert set(steps) == {"asked"}
    assert (seen(run, form), len(session.history)) == (before, calls)


@pytest.mark.parametrize("form", [form for form in RUNS.values() if form.end], ids=lambda form: form.opening().kind)
def test_a_run_that_is_used_up_touches_nothing_and_names_the_call_that_would_work(form, opening):
    steps, answers = [], []
    session = opening(form, on_step=steps.append)
    run = session.start(form.end.opening())
    with suppress(BudgetExceeded, NotWithheld):
        while len(answers) < 100:
            answers.append(repr(form.question.ask(run, request=f"question {len(answers)}")))
    assert len(answers) == (form.end.answers or len(answers)) > 0
    before = secret(run), spent(session), len(session.history)
    steps.clear()
    for each in (run, resumed(session, form, run.call)):
        for use in (form.question.ask, form.question.quote):
            with pytest.raises((BudgetExceeded, NotWithheld), match=form.end.told):
                use(each)
    assert (secret(run), spent(session), len(session.history)) == before
    assert set(steps) <= {"asked"}
    assert repr(form.question.ask(run, request="question 0")) == answers[0]
    form.question.ask(session.start(form.end.opening()))


def test_a_closed_run_is_asked_no_more_and_can_be_resumed(form, opening):
    session = opening(form)
    with session.start(form.opening()) as run:
        form.question.ask(run)
    before = len(session.history)
    for use in (form.question.ask, form.question.quote):
        with pytest.raises(InvalidParameter, match=rf"session\.resume\({run.call}\) continues it"):
            use(run)
    with pytest.raises(InvalidParameter, match="was closed"):
        run.follow()
    assert len(session.history) == before
    again = resumed(session, form, run.call)
    form.question.ask(again)
    again.close()
    again.close()
    with pytest.raises(InvalidParameter, match="was closed"):
        form.question.ask(again)


@pytest.mark.parametrize("step", STEPS)
def test_what_another_asks_in_between_is_told_and_charged_once(form, step, opening, tmp_path):
    """An outcome on a state that moved meanwhile is thrown away, unseen, and worked out anew."""
    others, answers = [], []

    def interfere(reached):
        if reached == step and others:
            answers.append(form.question.ask(others.pop()))

    place = tmp_path / "visits.ledger"
    session = opening(form, ledger=place, on_step=interfere)
    run = session.start(form.opening())
    others.append(resumed(opening(form, ledger=place), form, run.call))
    answers.append(form.question.ask(run))
    assert len(answers) == 2
    check_accounts(session, form, run, answers)


def test_threads_are_told_and_charged_one_after_another_up_to_the_end(form, opening):
    session = opening(form)
    ends = form.end is not None and form.end.answers
    run = session.start(form.end.opening() if ends else form.opening())

    def ask(_):
        found = []
        while len(found) < 3:
            try:
                found.append(form.question.ask(run))
            except (LedgerLocked, SecretMoved):
                continue
            except (BudgetExceeded, NotWithheld):
                break
        return found

    with ThreadPoolExecutor(3) as pool:
        answers = [answer for found in pool.map(ask, range(3)) for answer in found]
    assert len(answers) == (ends or 9)
    check_accounts(session, form, run, answers)


def test_all_that_is_told_knows_the_run_and_nothing_shows_what_is_kept(form, opening):
    runs, kept = [], []
    session = opening(form, unsafe_noise=Seeded(2), on_step=lambda step: kept.extend(map(secret, runs)))
    run = session.start(form.opening())
    runs.append(run)
    answers = [form.question.ask(run) for _ in range(6)]
    asked, page = form.question.plan(run), report(session)
    shown = [run, run.state, vars(run), run.words, asked, form.question.quote(run), answers, session.runs]
    shown += [session.history, session.statement(), page, list(session.spine.ledger.export("data"))]
    assert {run.call, answers[0].call} <= {call.call for call in page.datasets[0].calls}
    if any(asked.publishes for asked in type(run).questions):
        assert findings(session, run=run.call).made == findings(session).made == len(answers)
    session.append(visits())
    run.close()
    session.spine.rows.held.database.close()
    for each in (run, resumed(session, form, run.call)):
        with pytest.raises(CharyError) as refused:
            form.question.ask(each)
        shown.append(error_texts(refused.value))
    texts = ADDRESS.sub("", repr(shown))
    assert not shows_data(texts)
    if callable(form.hidden):
        hidden = {word for state in kept for word in TELLING.findall(str(form.hidden(state)))}
        assert hidden
        assert not [word for word in hidden if re.search(rf"(?<![\d.]){word}(?!\d)", texts)]


def test_runs_are_known_to_their_dataset_alone_and_to_all_of_its_analysts(form, opening, tmp_path):
    place = tmp_path / "visits.ledger"
    session = opening(form, ledger=place, analyst="alice")
    run = session.start(form.opening(), request="open")
    answer = form.question.ask(run, request="one")
    other = recorded(opening(form, ledger=place, dataset="other"))
    with pytest.raises(NotWithheld, match="opened no run of this dataset"):
        resumed(other, form, run.call)
    assert other.runs == []
    colleague = opening(form, ledger=place, analyst="bob")
    assert colleague.runs == session.runs == [(run.call, run.kind)]
    assert colleague.start(form.opening(), request="open").call != run.call
    theirs = form.question.ask(resumed(colleague, form, run.call), request="one")
    assert form.used(run) == form.took([answer, theirs])
    assert {call.analyst for call in stored(session) if call.number > run.call} == {"alice", "bob"}


def test_a_run_has_spent_what_its_calls_were_charged(form, opening):
    session = opening(form)
    session.ask(ThresholdTest(count(), above=-EXTREME, epsilon="0.01"))
    first = session.start(form.opening())
    form.question.ask(first)
    other = session.start(form.opening())
    form.question.ask(other)
    calls = stored(session)
    place = [call.number for call in calls].index(other.call)
    expected = {first: calls[1:place], other: calls[place:]}
    for run, own in expected.items():
        assert len(own) >= 2
        assert run.spent.amount == sum((call.charged for call in own), start=Amount(0))
    assert calls[0].price.main > 0
    assert sum((run.spent.amount for run in expected), calls[0].charged) == session.spent.amount


def test_what_a_run_has_spent_is_added_up_once(opened, monkeypatch):
    """Later looks read what came since; a call under way is looked at again until it is settled."""
    session = opened(**ROOM)
    run = session.start(MultiTarget(["a", "b"]))
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


def test_a_question_is_priced_without_being_asked(form, opening):
    steps = []
    session = opening(form, on_step=steps.append)
    run = session.start(form.opening())
    before = list(session.spine.ledger.export("data"))
    steps.clear()
    quote = form.question.quote(run)
    assert (steps, list(session.spine.ledger.export("data"))) == ([], before)
    form.question.ask(run)
    assert quote.kind in [call.kind for call in stored(session)]
    assert session.history[-1].kind in {asked.kind for asked in type(run).questions}


def test_all_that_a_question_is_charged_was_quoted_and_is_found_under_its_request(form, opening):
    """Also where another call, such as the beginning of a round, is made before it."""
    session = opening(form)
    run = session.start(form.opening())
    before, paid = len(session.history), spent(session).main
    quote = form.question.quote(run)
    form.question.ask(run, request="monday")
    assert all(call.request.startswith("monday") for call in stored(session)[before:])
    charged = spent(session).main - paid
    ledger, analyst = session.spine.ledger, session.spine.analyst
    assert charged == ledger.charged_under("data", analyst, "monday").spent.main
    assert charged <= quote.most_charged * session.spine.filter.capacity.main * (1 + 1e-12)


def test_what_has_to_wait_is_quoted(opened):
    """No rows came, so that it would be refused now; where it stands it waits for them."""
    run = opened(**ROOM, **NEIGHBORS[ROWS]).start(RUNS["continual_count"].opening())
    run.ask()
    with pytest.raises(InvalidParameter):
        run.ask(only_new=True)
    assert run.quote(only_new=True).most_charged == 0


def test_a_histogram_is_quoted_in_the_words_in_which_it_is_asked(opened):
    run = opened(**ROOM, **NEIGHBORS[ROWS]).start(RUNS["multiplicative_weights"].opening())
    assert run.quote("clinic = 'north'", must_verify=True) == run.quote("clinic = 'north'")


def test_only_numbers_of_openings_are_resumed(form, opening):
    session = opening(form)
    run = session.start(form.opening())
    form.question.ask(run)
    asked = session.history[-1].call
    for number in (asked, asked + 1000, 0, -1, True, "1", None, 1.5):
        with pytest.raises(NotWithheld):
            session.resume(number)


def test_a_run_that_follows_is_asked_after_each_append(form, opening):
    session = opening(form)
    if not form.followed:
        with pytest.raises(InvalidParameter, match="it does not follow arrivals"):
            session.start(form.opening(), follow=True)
        return
    run = session.start(form.opening(), follow=True)
    before = len(run.state.results)
    rows = visits()
    session.append(rows)
    session.append(rows)
    assert len(run.state.results) > before
    assert run.state.latest == run.state.results[-1]


def test_a_resumed_run_follows_too(opened):
    session = opened(**ROOM, **NEIGHBORS[ROWS])
    run = session.start(RUNS["continual_count"].opening())
    session.append(visits())
    assert run.state.results == []
    session.resume(run.call, follow=True)
    session.append(visits())
    assert len(run.state.results) == 2


def test_a_closed_run_that_follows_does_not_fail_the_append(opened):
    session = opened(**ROOM, **NEIGHBORS[ROWS])
    run = session.start(RUNS["continual_count"].opening(), follow=True)
    told = len(run.state.results)
    run.close()
    with pytest.warns(RuntimeWarning, match="was closed"):
        session.append(visits())
    assert len(session.resume(run.call).state.results) == told


def test_a_black_box_is_brought_again(opened):
    session = opened(**ROOM, **NEIGHBORS[ROWS])
    run = session.start(RUNS["schedule"].opening())
    other = CountsBox(count("age >= 61"))
    for wrong in ({}, {"bring": other}, {"bring": 5}):
        with pytest.raises(InvalidParameter):
            session.resume(run.call, **wrong).ask()
    assert session.resume(run.call, bring=Rerun(RUNS["schedule"].opening().box, epsilon=1, beta="0.1").box).state.runs


def test_what_does_not_stay_open_is_not_started(opened):
    session = opened(**ROOM)
    for call in (ThresholdTest(count(), above=1, epsilon="0.01"), count(), None, IndividualTests):
        with pytest.raises(InvalidQuery, match="start what stays open"):
            session.start(call)
    assert session.history == []


def test_a_question_that_cannot_be_right_is_refused(opened):
    session = opened(**ROOM)
    run = session.start(RUNS["sparse_vector"].opening())
    before = len(session.history)
    for use in (run.ask, run.quote):
        with pytest.raises(InvalidInput):
            use("count")
        with pytest.raises(InvalidInput):
            use(count(), above=float("nan"))
        with pytest.raises(InvalidQuery):
            use(count("nobody > 1"))
    assert len(session.history) == before
