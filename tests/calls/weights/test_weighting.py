"""Public histograms in a session: right without noise, free when easy, growing."""

import math
from dataclasses import dataclass
from fractions import Fraction

import pandas as pd
import pytest

import chary
from chary import Bins, Budget, BudgetExceeded
from chary.accounting import Targeted
from chary.calls import PMW
from chary.calls.public_histograms import HistogramMemory
from chary.calls.weights import PMWRun
from chary.core.plan import Data
from chary.data import NeighborRelation
from chary.errors import NotPriced
from chary.filters import ExactFilter
from chary.mechanisms import Laplace
from chary.mechanisms.weights import Change, MultiplicativeWeights, Transcript
from chary.noise import Seeded
from tests.adversary.told import with_fields
from tests.calls.weights.weighting_kit import QUESTIONS, true_share, weights_of
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent, visits

ROW = NeighborRelation("replace", None)


@pytest.mark.parametrize("update", ["projected", "published"])
def test_without_noise_answers_are_within_alpha_and_hard_ones_are_right(rows, update):
    session, frame = rows(budget=NO_NOISE, filter="pure"), visits()
    weights = weights_of(session, epsilon=50, update=update)
    for _ in range(3):
        for text in QUESTIONS[:3]:
            answer, truth = weights.ask(text), true_share(frame, text)
            assert answer.verified
            assert answer.share == pytest.approx(truth, abs=1e-12 if answer.hard else 0.04 + 1e-12)
            assert answer.error_bar == (None if answer.hard else 0.04)
            assert (answer.interval is not None) == answer.hard
            assert not answer.hard or answer.interval[0] <= truth <= answer.interval[1] + 1e-12
    assert weights.ask(None).share == pytest.approx(1)
    assert weights.ask("age < 30 AND clinic = 'north' AND clinic = 'south'").share == pytest.approx(0, abs=1e-12)


def test_a_projected_histogram_learns_what_a_hard_answer_said(rows):
    weights = weights_of(rows(budget=NO_NOISE, filter="pure"), epsilon=PLENTY)
    assert weights.state.estimate("clinic = 'north'") == pytest.approx(1 / 4)
    hard = weights.ask("clinic = 'north'")
    assert hard.hard
    assert weights.state.estimate("clinic = 'north'") == pytest.approx(hard.share, rel=1e-5)
    again = weights.ask("clinic = 'north'")
    assert (again.hard, again.share) == (False, weights.state.estimate("clinic = 'north'"))


def test_easy_answers_are_free_and_hard_ones_are_hits(rows):
    session = rows(unsafe_noise=Seeded(3), budget=Budget(epsilon=5, delta=1e-6), grain="0.2")
    weights = weights_of(session, alpha="0.3")
    assert spent(session).main == 0
    easy = weights.ask("age >= 20 AND age < 40")
    assert (easy.hard, spent(session).main) == (False, 0)
    hard = weights.ask("clinic IS NOT NULL AND age >= 20")
    assert hard.hard
    assert session.history[-1].hits == 1
    assert spent(session) == session.spine.filter.price(chary.accounting.Targeted("0.2")).hit
    assert weights.state.standing().hard == 1


def test_two_handles_see_each_others_answers(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    first = weights_of(session, epsilon=PLENTY)
    second = session.resume(first.call)
    assert first.ask(QUESTIONS[0]).hard
    assert not second.ask(QUESTIONS[0]).hard
    assert second.ask(QUESTIONS[1]).hard
    assert second.state.histogram().tobytes() == first.state.histogram().tobytes()


def test_without_room_for_a_hit_the_histogram_answers_alone(rows):
    seen = []
    session = rows(budget=Budget(epsilon="0.3", delta=1e-6), grain="0.2", on_step=seen.append)
    weights = weights_of(session, alpha="0.01")
    while weights.state.standing().hard_left:
        weights.ask(QUESTIONS[0])
    calls, paid = len(session.history), spent(session)
    seen.clear()
    answer = weights.ask(QUESTIONS[0])
    assert (answer.call, answer.verified, answer.hard, answer.error_bar) == (weights.call, False, False, None)
    assert answer.share == weights.state.estimate(QUESTIONS[0])
    assert (len(session.history), spent(session), seen) == (calls, paid, ["asked"])
    with pytest.raises(BudgetExceeded):
        weights.ask(QUESTIONS[0], must_verify=True)


def test_calls_follow_the_size(rows):
    session = rows(grain="0.2")
    following, fixed = weights_of(session), weights_of(session, follow_size=False)
    assert following.state.standing().epsilon == fixed.state.standing().epsilon == pytest.approx(0.2)
    session.append(pd.concat([visits()] * 3))
    quotes = following.state.standing(), fixed.state.standing()
    assert [quote.epsilon for quote in quotes] == pytest.approx([0.05, 0.2])
    assert quotes[0].hard_left > quotes[1].hard_left
    assert quotes[0].reached > quotes[1].reached
    assert "hard queries so far" in str(quotes[0])
    assert quotes[0].as_dict()["hard"] == 0


def test_growth_takes_new_rows_to_be_like_the_old_ones_but_for_a_part(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    known, uniform = weights_of(session, epsilon=PLENTY), weights_of(session, epsilon=PLENTY, mixing=1)
    before = known.ask(QUESTIONS[0]).share
    uniform.ask(QUESTIONS[0])
    session.append(visits())
    assert uniform.state.estimate(QUESTIONS[0]) == pytest.approx(before / 2 + 1 / 8, rel=1e-5)
    kept = MultiplicativeWeights("0.06").kept(120, 240)
    assert 0.9 < kept < 1
    assert known.state.estimate(QUESTIONS[0]) == pytest.approx(kept * before + (1 - kept) / 4, rel=1e-5)


def test_hits_choose_the_largest_calls_that_fit_where_sharp_tests_have_no_price(rows):
    session = rows(budget=Budget(epsilon=1), filter="pure")
    quote = weights_of(session, epsilon=None, hits=36).state.standing()
    assert (quote.hard_left, quote.epsilon) == (36, pytest.approx(1 / 36, rel=0.001))
    with pytest.raises(BudgetExceeded):
        weights_of(session, epsilon=None, hits=10**30)


def test_a_synthetic_table_comes_from_the_histogram(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    weights = weights_of(session, epsilon=PLENTY, alpha="0.02")
    for text in QUESTIONS * 3:
        weights.ask(text)
    before = spent(session)
    made = weights.state.synthetic(rows=20_000)
    assert weights.state.synthetic(rows=20_000) == made != weights.state.synthetic(rows=20_000, seed=1)
    frame = made.to_pandas()
    for text in QUESTIONS[:2]:
        known = true_share(frame, text)
        assert known == pytest.approx(weights.state.estimate(text), abs=6 * math.sqrt(0.25 / 20_000))
    assert set(frame.clinic.dropna()) <= set(CLINICS)
    assert frame.age.dropna().between(20, 80).all()
    assert (frame.age.dropna() % 1 == 0).all()
    assert spent(session) == before
    assert weights.state.histogram().shape == (4, 6)
    assert weights.state.histogram().sum() == pytest.approx(1)


@dataclass(frozen=True)
class Fixed(Laplace):
    """Noise that is what it is said to be."""

    drawn: int = 0

    def draw_one(self, source):
        return self.drawn


def law(rows_counted, epsilon, factor, size):
    """The exact law of one answer: the noise of every size, weighed, through the plan itself."""
    opening = PMW(universe={"age": Bins([0, 1, 2])}, alpha="0.3", epsilon=epsilon).law(None, ROW, 40)
    hits, run = opening.at(size), PMWRun(None, 1, {})
    run.law, run.memory = with_fields(opening, at=lambda size: hits), HistogramMemory(opening, {"age": "int64"})
    asked = run.planned(run.memory.asked("age >= 1", size))
    secret = Transcript((Change("age >= 1", 40, 1.0, 0.0, factor),)).dump()
    scale = hits.noise.scale
    outcomes, ratio, far = {}, math.exp(-1 / scale), int(36 * scale)
    for drawn in range(-far, far + 1):
        with_fields(hits, noise=Fixed(scale, 1, drawn=drawn))
        ran = asked.run(Data([rows_counted], None, secret, None, None))
        key = ("easy", ran.answer["share"]) if not ran.hits else ("hard", ran.answer["count"])
        assert (ran.hits == 1) == bool(ran.secrets)
        outcomes[key] = outcomes.get(key, 0) + ratio ** abs(drawn) * (1 - ratio) / (1 + ratio)
    return asked.event.epsilon, outcomes


@pytest.mark.parametrize("size", [40, 100])
@pytest.mark.parametrize(("epsilon", "factor"), [("0.2", 1.0), ("0.5", 4.0)])
def test_the_law_of_one_answer_is_epsilon_dp_and_tight(epsilon, factor, size):
    worst = 0
    for counted in range(8, 33, 8):
        (charged, one), (_, other) = (law(counted + more, Fraction(epsilon), factor, size) for more in (0, 1))
        ratios = [abs(math.log(one[key] / other[key])) for key in one.keys() & other.keys() if one[key] > 1e-14]
        assert sum(one.values()) == pytest.approx(1, abs=1e-12)
        assert sum(key[0] == "easy" for key in one) == 1
        worst = max(worst, *ratios)
    assert charged == Fraction(epsilon) * 40 / size
    assert 0.9 * charged < worst <= charged + Fraction(1, 10**9)


def test_what_is_easy_says_nothing_of_how_near_the_noisy_count_was(rows):
    session = rows()
    weights = weights_of(session, alpha="0.9")
    assert set(session.history[-1].answer) == {"size"}
    weights.ask(QUESTIONS[0])
    assert session.history[-1].answer == {"size": 120, "epsilon": "1/5", "hard": False, "share": 0.25}


def test_a_filter_without_a_price_refuses_the_opening(rows):
    session = rows(budget=Budget(epsilon=1, delta=1e-6), filter="exact", grain="0.02")
    with pytest.raises(NotPriced):
        weights_of(session, epsilon="0.05")


def test_an_easy_answer_on_a_histogram_that_moved_is_thrown_away_like_a_hard_one(opened, tmp_path):
    """Otherwise whether a call is run again would depend on what it found."""
    frame = pd.DataFrame({"s": ["a"] * 900 + ["b"] * 100})
    given = {"privacy_unit": None, "neighbors": "replace", "ledger": tmp_path / "ledger", "dataset": "data"}
    steps, moving = [], []

    def on_step(step):
        steps.append(step)
        if step == "ran" and moving:
            assert moving.pop().ask("s = 'a'").hard

    session = opened(frame, budget=Budget(epsilon=10), on_step=on_step, **given)
    weights = session.start(PMW(universe={"s": ["a", "b"]}, alpha="0.3", epsilon="0.5"))
    other = opened(frame, budget=None, **given)
    moving.append(other.resume(weights.call))
    steps.clear()
    assert not weights.ask("s IS NULL AND s = 'a'").hard
    assert steps.count("ran") == 2


def test_a_filter_without_a_price_is_not_taken_for_a_spent_budget(opened, monkeypatch):
    session = opened(
        pd.DataFrame({"s": ["a", "b"] * 100}),
        privacy_unit=None,
        neighbors="replace",
        budget=Budget(epsilon=1, delta=1e-6),
        filter="exact",
        grain="0.02",
    )
    weights = session.start(PMW(universe={"s": ["a", "b"]}, alpha="0.1", epsilon="0.02"))
    session.append(pd.DataFrame({"s": ["a"]}))
    smaller = session.spine.filter.price(Targeted("0.0199"))
    assert smaller.hit == session.spine.filter.price(Targeted("0.02")).hit

    def unpriced(self, event):
        raise NotPriced("no more")

    monkeypatch.setattr(ExactFilter, "cost", unpriced)
    with pytest.raises(NotPriced):
        weights.ask("s = 'a'")
