"""How far easy answers are off: the exact law of a miss, skewed rows by simulation, and what is said of it."""

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary import Bins, Budget, InvalidParameter
from chary.accounting import LaplaceLaw
from chary.accounting.weights import EQUAL_QUESTIONS, EQUAL_ROUNDS, easy_chance, easy_error_up
from chary.calls import PMW
from chary.calls.public_histograms import PrepaidPMWLaw, SharpHits
from chary.core.quote import NOT_KEPT, warns
from chary.data import NeighborRelation
from chary.filters import RenyiFilter
from chary.noise import Seeded

ROW, SIZE = NeighborRelation("replace", None), 2000
AGES = {"age": Bins([0, 1, 2])}
WARDS = {name: [f"{name}{number}" for number in range(many)] for name, many in (("a", 3), ("b", 3), ("c", 7))}
FORMS = [
    PMW(prepaid=True, universe=AGES, alpha="0.3", epsilon="0.5", rounds=3),
    PMW(prepaid=True, universe=AGES, alpha="0.3", rho="0.001", rounds=3, exponent="1/3"),
    PMW(prepaid=True, universe=AGES, alpha="0.3", epsilon="500", constants="published"),
    PMW(universe=AGES, alpha="0.3", epsilon="0.05"),
    PMW(universe=AGES, alpha="0.3", hits=40),
]


FILTER = RenyiFilter.best(Budget(epsilon=1, delta=1e-6))


def opened(call):
    """The law of an opening, and what is kept beside it."""
    law = call.prepaid_law(ROW, SIZE) if call.prepaid else call.law(FILTER, ROW, SIZE)
    return law, law.kept()


def missed(opening, beyond):
    """The chance that a count so far beyond the last easy one is called easy, from the law of what is drawn."""
    if isinstance(opening, PrepaidPMWLaw):
        noise = opening.machine(1, SIZE).sizes
        steps = np.arange(-30_000, 30_001)
        test, hidden = (np.exp(-np.abs(steps) / float(scale)) for scale in (noise.test, noise.threshold))
        below = np.cumsum(test / test.sum())  # P(test noise <= step)
        # Not a hit: beyond - 1 + test noise < threshold noise.
        places = np.clip(steps - beyond + 30_000, -1, 60_000)
        return float((hidden / hidden.sum()) @ np.where(places < 0, 0, below[places]))
    if isinstance(opening.hits, SharpHits):
        sharp = opening.hits.sharpness
        return 1 - float(sharp.sampler.table.hit_chance(beyond - 1 + sharp.bar))
    return float(LaplaceLaw(1 / opening.hits.epsilon).at_least_up(beyond))


@pytest.mark.parametrize("call", FORMS, ids=lambda call: call.kind)
@pytest.mark.parametrize("place", [1, 3000])
def test_a_count_beyond_the_error_is_missed_with_the_chance_that_is_left(call, place):
    """One step nearer it would be missed oftener. At alpha it mostly is: alpha is no bar of these noises."""
    opening, held = opened(call)
    told, _ = opening.now(held, SIZE)
    error, chance = opening.easy_error(told, place, size=SIZE), easy_chance(place, told.get("round"))
    least = round((error - 0.2) * SIZE)
    # An easy answer is off by 2 alpha/3 and `least` rows at most: one row more is a miss.
    assert missed(opening, least + 1) <= float(chance) * (1 + 1e-9)
    assert missed(opening, least) > float(chance) * (1 - 1e-9)
    assert error > 0.2


def test_the_chances_of_all_questions_in_all_rounds_are_what_is_left():
    """Of each doubling the last has the chance of all."""
    for first, chance in ((EQUAL_QUESTIONS, easy_chance), (EQUAL_ROUNDS, lambda number: easy_chance(1, number))):
        whole = first * chance(first) + sum(
            first * 2**doublings // 2 * chance(first * 2**doublings) for doublings in range(1, 60)
        )
        each = Fraction(1, 20) if chance is easy_chance else easy_chance(1)
        assert whole < each == whole + each / 2**60
    falling = [easy_chance(place) for place in (1, 1024, 1025, 2048, 2049, 4097)]
    assert falling == sorted(falling, reverse=True)
    assert easy_chance(7, 5, "0.9") == 2 * easy_chance(7, 5)
    for place in (0, 1.5):
        with pytest.raises(InvalidParameter):
            easy_chance(place)


def test_without_noise_an_easy_answer_is_within_two_thirds_of_alpha():
    known = {"alpha": "0.3", "size": 1000, "chance": easy_chance(1)}
    assert easy_error_up(LaplaceLaw(Fraction(1, 1000)), **known) == 0.2
    assert easy_error_up(LaplaceLaw(Fraction(1, 1000)), rounding=0.5, **known) == 0.2005
    assert easy_error_up(LaplaceLaw(1000), **known) > 1


def skewed(rows):
    """Rows of which 85 in 100 are alike."""
    drawn = random.Random(3)
    alike = {name: values[0] for name, values in WARDS.items()}
    return [
        alike if drawn.random() < 0.85 else {name: drawn.choice(values) for name, values in WARDS.items()}
        for _ in range(rows)
    ]


def asked(seed, questions):
    """Conditions on one to three columns."""
    drawn = random.Random(seed)
    for _ in range(questions):
        names = drawn.sample(list(WARDS), drawn.randint(1, 3))
        yield {name: drawn.sample(WARDS[name], drawn.randint(1, len(WARDS[name]) - 1)) for name in names}


@pytest.mark.parametrize(
    ("options", "worse"),
    [({"rho": "0.0243"}, True), ({"epsilon": "0.5", "rounds": 40}, True), ({"rho": "0.4", "rounds": 60}, False)],
)
def test_all_easy_answers_of_skewed_rows_are_within_their_bars(options, worse):
    """`worse`: alpha itself, which they once said, would be wrong for more than one in ten."""
    rows, outside, off = skewed(3000), 0, []
    for seed in range(5):
        session = chary.open(
            pa.Table.from_pylist(rows),
            privacy_unit=None,
            neighbors="replace",
            budget=Budget(epsilon=8, delta=1e-6),
            ledger=":memory:",
            unsafe_noise=Seeded(seed),
        )
        run = session.start(PMW(prepaid=True, universe=WARDS, alpha="0.1", **options))
        for question in asked(seed, 25):
            lists = (f"{name} IN ({', '.join(map(repr, values))})" for name, values in question.items())
            answer = run.ask(" AND ".join(lists))
            truth = sum(all(row[name] in values for name, values in question.items()) for row in rows) / len(rows)
            if not answer.hard:
                off.append(abs(answer.share - truth))
                outside += off[-1] > answer.error_bar
    assert outside == 0
    assert len(off) > 40
    assert (np.mean(np.array(off) > 0.1) > 0.1) is np.bool_(worse)


def opened_on(rows, **budget):
    return chary.open(
        pa.Table.from_pylist(skewed(rows)),
        privacy_unit=None,
        neighbors="replace",
        budget=Budget(**({"epsilon": 1, "delta": 1e-6} | budget)),
        ledger=":memory:",
        unsafe_noise=Seeded(1),
    )


def test_what_the_noise_hides_is_said_before_it_is_paid_and_afterwards():
    session, opening = opened_on(500), PMW(prepaid=True, universe=WARDS, alpha="0.1", rho="0.01")
    lines = session.quote(opening).lines()
    assert any(warns(line) and "any error" in line for line in lines)
    run = session.start(opening)
    assert any(warns(line) for line in run.quote("a = 'a0'").lines())
    assert NOT_KEPT in str(run.state.standing())
    easy = next(answer for answer in (run.ask("a = 'a1'") for _ in range(40)) if not answer.hard)
    assert (easy.verified, easy.error_bar, easy.interval) == (True, 1.0, None)
    assert easy.interval_says == "no interval: the noise hides everything, so the histogram may be off by anything"


@pytest.mark.parametrize("how", [{"prepaid": True, "rho": 300, "rounds": 30}, {"epsilon": 1}, {"price": 0.5}])
def test_what_is_kept_is_said_in_the_same_figures_everywhere(how):
    session = opened_on(2000, epsilon=2000)
    opening = PMW(universe=WARDS, alpha="0.3", **how)
    quoted = session.quote(opening)
    run = session.start(opening)
    assert run.quote("a = 'a0'").interval == quoted.interval
    assert "easy answers are all within 0.2" in quoted.interval
    assert NOT_KEPT not in str(quoted) + str(run.state.standing())
    easy = next(answer for answer in (run.ask("a = 'a1'") for _ in range(9)) if not answer.hard)
    assert f"easy answers are all within {chary.numbers.plain(easy.error_bar)}" in quoted.interval
    assert easy.error_bar <= run.state.standing().reached <= 0.3
    assert "with 95 % confidence, all easy answers of the run" in easy.interval_says


def test_a_later_question_has_a_wider_bar():
    """However many come, all bars hold together: what is left for later ones gets less and less."""
    session = opened_on(2000)
    run = session.start(PMW(universe=WARDS, alpha="0.3", epsilon="0.05"))
    question = run.plan("a = 'a0'")
    told = {"hard": False, "share": 0.5, "size": 2000, "epsilon": "1/20"}
    bars = [question.present(told, run.call + place).error_bar for place in (1, 1024, 1025, 10**6)]
    assert bars[0] == bars[1] < bars[2] < bars[3] < 1


def test_a_linear_query_is_off_by_half_a_row_more():
    session = opened_on(2000)
    run = session.start(PMW(universe={"a": WARDS["a"]}, alpha="0.3", epsilon="0.05"))
    linear, counted = (run.plan(where) for where in (chary.data.weighted({"a = 'a0'": "0.5"}), "a = 'a0'"))
    told = {"hard": False, "share": 0.5, "size": 2000, "epsilon": "1/20"}
    difference = linear.present(told, run.call + 1).error_bar - counted.present(told, run.call + 1).error_bar
    assert difference == pytest.approx(0.5 / 2000)
