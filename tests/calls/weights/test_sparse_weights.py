"""Public histograms corrected in rounds of sparse vector: right without noise, paid once, used up, growing."""

import math
from contextlib import closing
from fractions import Fraction

import pandas as pd
import pytest

from chary import Budget, BudgetExceeded
from chary.accounting import Approximate, Pure, ZeroConcentrated
from chary.calls import PMW
from chary.calls.public_histograms import HistogramRound
from chary.calls.weights import SparseWeightsState, WeightsState
from chary.errors import RequestConflict
from chary.noise import Seeded
from tests.calls.weights.sparse_weights_kit import MOST, sure_of, weights_of
from tests.calls.weights.weighting_kit import QUESTIONS, UNIVERSE, true_share
from tests.session.kit import NO_NOISE, PUBLIC, SECRET_NAME, spent, visits


@pytest.mark.parametrize("update", ["projected", "published"])
def test_without_noise_answers_are_within_alpha_and_hard_ones_are_right(rows, update):
    session, frame = rows(budget=NO_NOISE, filter="pure", unsafe_noise=Seeded(1)), visits()
    weights = weights_of(session, epsilon=MOST, rounds=50, update=update)
    for text in QUESTIONS * 4:
        answer, truth = weights.ask(text), true_share(frame, text)
        assert answer.verified
        assert answer.share == pytest.approx(truth, abs=3 / 120 if answer.hard else 0.1 + 3 / 120)
        assert answer.error_bar == (1 / 120 if answer.hard else 0.1 + 3 / 120)
    quote = weights.state.standing()
    assert 2 <= quote.hard == len(weights.state.changes) < quote.most_hard
    assert weights.ask(None).share == pytest.approx(1, abs=0.1)


def test_published_constants_are_right_where_there_are_many_rows(opened):
    frame = pd.DataFrame({"s": ["a"] * 90_000 + ["b"] * 10_000})
    session = opened(frame, **PUBLIC, budget=NO_NOISE, filter="pure")
    given = {"alpha": "0.3", "update": "published", "mixing": 1, "constants": "published"}
    weights = session.start(PMW(prepaid=True, universe={"s": ["a", "b"]}, epsilon=MOST, **given))
    assert session.history[-1].question["constants"] == "published"
    answers = [weights.ask("s = 'a'") for _ in range(60)]
    assert 20 < sum(answer.hard for answer in answers) < weights.state.standing().most_hard
    for answer in answers:
        assert answer.share == pytest.approx(0.9, abs=0.1 if answer.hard else 0.3)
    assert not answers[-1].hard


def test_a_hit_on_the_low_side_lowers_the_histogram(rows):
    session = rows(budget=NO_NOISE, filter="pure", unsafe_noise=Seeded(1))
    weights = sure_of(session, alpha="0.06")
    for text, before in (("age < 30 OR age IS NULL", 2 / 6), ("clinic = 'north'", 1 / 4)):
        assert weights.state.estimate(text) == pytest.approx(before)
        answer = weights.ask(text)
        assert answer.hard
        assert answer.share == true_share(visits(), text.split(" OR ")[0])
        assert session.history[-1].answer["above"] == (answer.share > before)
        assert weights.state.estimate(text) == pytest.approx(answer.share, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "event"),
    [
        ({"epsilon": "0.2"}, Pure("0.2")),
        ({"epsilon": None, "rho": "0.002"}, ZeroConcentrated("0.002")),
        ({"constants": "published"}, Pure("0.2")),
        ({"constants": "published", "delta": "1e-7", "exponent": "1/3"}, Approximate("0.2", "1e-7")),
    ],
)
def test_the_opening_pays_for_everything(rows, options, event):
    session = rows(budget=Budget(epsilon=1, delta=1e-6), delta_reserve="1e-7", unsafe_noise=Seeded(2))
    weights = weights_of(session, **options)
    paid = spent(session)
    assert paid == session.spine.filter.price(event).hit
    for text in QUESTIONS * 2:
        weights.ask(text)
    session.append(visits())
    weights.ask(QUESTIONS[0])
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def test_rounds_that_are_used_up_come_back_when_the_table_grows(rows):
    seen = []
    session = rows(budget=NO_NOISE, filter="pure", on_step=seen.append)
    weights = weights_of(session, epsilon=MOST, rounds=1, alpha="0.06")
    assert weights.ask("clinic IS NULL").hard
    quote = weights.state.standing()
    assert (quote.hard, quote.hard_left, quote.reached) == (1, 0, math.inf)
    assert 120 < quote.more_at < 600
    assert str(quote) == f"1 hard queries so far: the histogram answers alone until there are {quote.more_at} rows"
    calls = len(session.history)
    seen.clear()
    answer = weights.ask("clinic = 'north'")
    assert (answer.call, answer.hard, answer.verified, answer.error_bar) == (weights.call, False, False, None)
    assert answer.share == weights.state.estimate("clinic = 'north'")
    assert (len(session.history), seen) == (calls, ["asked"])
    with pytest.raises(BudgetExceeded, match=f"round 2 may begin at {quote.more_at} rows at the earliest"):
        weights.ask("clinic = 'north'", must_verify=True)
    missing = quote.more_at - 120
    session.append(pd.concat([visits()] * 9).head(missing - 1))
    assert not weights.ask("clinic = 'north'").verified
    session.append(visits().head(1))
    assert weights.state.standing().hard_left == 1
    assert "one more at" in str(weights.state.standing())
    again = weights.ask("clinic = 'north'")
    assert (again.hard, again.verified) == (True, True)
    assert session.history[-1].answer["round"] == 2
    assert not weights.ask("clinic = 'north'").verified


def test_the_threshold_stays_hidden_and_the_same_until_a_hit(rows):
    session = rows(unsafe_noise=Seeded(4), budget=NO_NOISE, filter="pure")
    weights = weights_of(session, alpha="0.5", epsilon=20, rounds=60)

    def state():
        return HistogramRound.load(session.spine.ledger.secret(weights.call))

    assert state() == HistogramRound()
    hits, easy = 0, 0
    for text in QUESTIONS * 12:
        before, answer = state(), weights.ask(text)
        hits, easy = hits + answer.hard, easy + (not answer.hard and before.shift is not None)
        assert answer.hard == (state().shift is None)
        assert state().begun == before.begun + (before.shift is None)
        assert answer.hard or before.shift is None or state() == before
    assert hits > 3
    assert easy > 10
    shown = repr([state(), weights, weights.state]) + repr(session.history) + str(weights.state.standing())
    assert "shift" not in shown
    assert SECRET_NAME not in shown
    known = {"size", "round", "epsilon", "hard", "share", "above", "count", "error_bar"}
    assert all(entry.answer.keys() <= known for entry in session.history)


def test_the_noise_of_a_round_is_that_of_the_size_at_which_it_began(rows):
    """The published constants make it depend on the size as well as on the number of the round."""
    session = rows(budget=NO_NOISE, filter="pure")
    weights = weights_of(session, alpha="0.9", constants="published", epsilon=MOST)
    start, machine = weights.law.size, weights.law.machine
    session.append(pd.concat([visits()] * 3))
    size = weights.state.asked(QUESTIONS[0]).size
    begun, none = HistogramRound(begun=1, size=start, shift=3).next(size), HistogramRound().next(size)
    assert machine(*begun) == machine(1, start) != machine(1, size)
    assert machine(*none) == machine(1, size)


def test_a_round_keeps_its_noise_when_the_table_grows(rows):
    session = rows(unsafe_noise=Seeded(7), budget=NO_NOISE, filter="pure")
    weights = weights_of(session, alpha="0.9", constants="published", epsilon=MOST)
    first = weights.ask(QUESTIONS[0])
    epsilon = weights.state.standing().epsilon
    session.append(pd.concat([visits()] * 3))
    assert not first.hard
    assert weights.state.standing().epsilon == epsilon
    weights.ask(QUESTIONS[0])
    known = [Fraction(entry.answer["epsilon"]) for entry in session.history if entry.kind == "sparse_weights_ask"]
    assert known[0] == known[1]


@pytest.mark.parametrize("constants", ["exact", "published"])
def test_the_histogram_and_the_round_are_the_same_after_a_restart(rows, tmp_path, constants):
    place = tmp_path / "visits.ledger"
    options = {"ledger": place, "unsafe_noise": Seeded(9), "budget": NO_NOISE, "filter": "pure"}
    with closing(rows(**options)) as session:
        weights = weights_of(session, epsilon=MOST, constants=constants)
        for text in QUESTIONS:
            weights.ask(text)
        session.append(visits())
        answers = [weights.ask(text, request=text) for text in QUESTIONS]
        kept, bits = weights.state.changes, weights.state.histogram().tobytes()
        state, quote, paid = session.spine.ledger.secret(weights.call), weights.state.standing(), spent(session)
        assert kept
    both = pd.concat([visits(), visits()])
    again = rows(rows=both, ledger=place, budget=None)
    for opened in (again.resume(weights.call), again.resume(again.runs[0].call)):
        assert (opened.state.changes, opened.state.standing()) == (kept, quote)
        assert opened.state.histogram().tobytes() == bits
        assert [opened.ask(text, request=text) for text in QUESTIONS] == answers
    assert again.spine.ledger.secret(weights.call) == state
    assert spent(again) == paid
    with pytest.raises(RequestConflict):
        opened.ask(QUESTIONS[1], request=QUESTIONS[0])


def test_both_forms_are_listed(rows):
    session = rows(budget=Budget(epsilon=1, delta=1e-6), grain="0.2")
    sparse = weights_of(session, epsilon="0.1")
    other = session.start(PMW(universe=UNIVERSE, alpha="0.1", epsilon="0.1"))
    assert session.runs == [(sparse.call, "sparse_weights"), (other.call, "multiplicative_weights")]
    for run, state in ((sparse, SparseWeightsState), (other, WeightsState)):
        assert session.resume(run.call).kind == run.kind
        assert type(session.resume(run.call).state) is state
    assert sparse.state.synthetic(rows=50).num_rows == 50
    assert sparse.state.histogram().shape == (4, 6)


@pytest.mark.parametrize("easy", [True, False])
def test_an_answer_in_a_round_that_moved_meanwhile_is_worked_out_again(rows, easy):
    """Easy or hard: whether a call is run again does not depend on what it found."""
    moved, steps = [], []

    def move(step):
        steps.append(step)
        if moved and step == "ran":
            moved.pop()()

    session = rows(budget=NO_NOISE, filter="pure", on_step=move)
    weights, other = sure_of(session, alpha="0.06"), []
    moved.append(lambda: other.append(weights.ask(QUESTIONS[0])))
    steps.clear()
    answer = weights.ask("clinic = 'north' AND clinic = 'south'" if easy else QUESTIONS[0])
    assert other[0].hard
    assert not answer.hard
    assert steps.count("ran") == 3
    assert [entry.answer["round"] for entry in session.history[-2:]] == [2, 1]


def test_an_easy_answer_in_the_same_round_moves_nothing(rows):
    steps, moved = [], []

    def move(step):
        steps.append(step)
        if moved and step == "ran":
            moved.pop()()

    session = rows(budget=NO_NOISE, filter="pure", on_step=move)
    weights = sure_of(session, alpha="0.9")
    weights.ask(QUESTIONS[0])
    moved.append(lambda: weights.ask(QUESTIONS[1]))
    steps.clear()
    weights.ask(QUESTIONS[2])
    assert steps.count("ran") == 2


def test_what_the_noise_hides_has_a_bar_of_all_rows(rows):
    weights = weights_of(rows(), epsilon="0.01")
    told = {"hard": True, "count": 5, "size": 120, "error_bar": 7.5}
    assert weights.plan("age >= 40").present(told, 1).error_bar == 1
    assert weights.plan("age >= 40").present(told | {"error_bar": 0.5}, 1).error_bar == 0.5
    quote = weights.state.standing()
    assert 1 < quote.reached < math.inf
    assert "answers are all within 1" in str(quote)
