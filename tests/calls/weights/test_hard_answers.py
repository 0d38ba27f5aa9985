"""How many answers are expected to be hard: near what comes where the example is right, and never from the rows."""

import numpy as np
import polars as pl
import pytest

import chary
from chary import Bins, Budget, InvalidParameter, InvalidQuery, count
from chary.calls import PMW
from chary.client.wire import in_typed, of_typed
from chary.core.forecast import ExpectedHard
from chary.data import average
from chary.noise import Seeded
from tests.calls.weights.weighting_kit import QUESTIONS, UNIVERSE, weights_of
from tests.paths import RAND
from tests.session.kit import visits

EDGES = {"mdvis": [0, 1, 2, 4, 8, 100], "xage": [0, 10, 20, 30, 40, 50, 70]}
CELLS = {column: Bins(edges) for column, edges in EDGES.items()} | {"female": [0, 1]}
TERMS = {"neighbors": "replace", "privacy_unit": None, "ledger": ":memory:", "budget": Budget(1, "1e-6")}
OPENINGS = [
    PMW(universe=CELLS, alpha="0.05", hits=100),
    PMW(universe=CELLS, alpha="0.05", epsilon="0.02"),
    PMW(universe=CELLS, alpha="0.1", prepaid=True, rho="0.02", rounds=60),
]


def asked(number):
    draw, found = np.random.default_rng(1), []
    for _ in range(number):
        columns = draw.choice(list(EDGES), draw.integers(1, 3), replace=False)
        ends = [sorted(draw.choice(len(EDGES[column]), 2, replace=False)) for column in columns]
        parts = [
            f"{column} >= {EDGES[column][low]} AND {column} < {EDGES[column][high]}"
            for column, (low, high) in zip(columns, ends, strict=True)
        ]
        found.append(" AND ".join([*parts, f"female = {draw.integers(2)}"]))
    return found


@pytest.mark.parametrize("opening", OPENINGS, ids=["sharp", "laplace", "prepaid"])
def test_it_is_near_what_comes_of_rows_like_the_example(opening):
    """The second and third year of the panel, expected from the first; the theorem allows many times as many."""
    panel, queries = pl.read_csv(RAND), asked(80)
    rows, example = panel.filter(pl.col("year").is_in([2, 3])), panel.filter(pl.col("year") == 1)
    came, later = [], []
    for seed in range(3):
        with chary.open(rows, unsafe_noise=Seeded(seed), **TERMS) as session:
            if seed == 0:
                expected = session.quote(opening, queries=queries, like=example).hard_answers
            run = session.start(opening)
            came.append([run.ask(each).hard for each in queries[:40]])
            later.append(run.expected_hard(queries[40:], like=example, simulations=2).expected)
            came[-1] += [run.ask(each).hard for each in queries[40:]]
    counts = [sum(each) for each in came]
    assert expected.expected == pytest.approx(np.mean(counts), rel=0.3)
    assert expected.least <= expected.expected <= expected.most <= 80 < expected.bound / 10
    assert np.mean(later) == pytest.approx(np.mean([sum(each[40:]) for each in came]), abs=4)
    assert np.mean(later) < expected.expected / 2


def test_an_example_that_is_not_like_the_rows_misleads(rows):
    """It says of the example what is true there: rows like the histogram are hardly ever hard."""
    session = rows(budget=Budget(1000, "1e-6"), unsafe_noise=Seeded(3))
    opening = PMW(universe={"clinic": ["north", "south"]}, alpha="0.1", hits=50)
    even = visits().assign(clinic=["north", "south", None] * 40)
    told = session.quote(opening, queries=["clinic = 'north'"] * 9, like=even).hard_answers
    run = session.start(opening)
    assert (told.expected, sum(run.ask("clinic = 'north'").hard for _ in range(9))) == (0, 1)


def test_the_rows_are_never_read(rows):
    """The same from any rows of the same number; nothing is asked, recorded or charged."""
    found, steps = [], []
    for frame in (visits(), visits().assign(clinic="south", age=20)):
        session = rows(frame, budget=Budget(1000, "1e-6"), on_step=steps.append)
        opening = PMW(universe=UNIVERSE, alpha="0.06", hits=50)
        queries = [*QUESTIONS, count("age >= 50"), average("age", bounds=(0, 100)), None]
        found.append(session.quote(opening, queries=queries, like=visits()))
        run = weights_of(session)
        run.learn("age >= 50", (0.3, 0.4))
        before = len(session.history)
        steps.clear()
        found.append(run.expected_hard(queries, like=visits()))
        assert steps == []
        assert len(session.history) == before
        assert session.spent.share == 0
    assert found[:2] == found[2:]
    assert found[0].hard_answers.expected > 0


def test_a_quote_says_it_beside_what_is_guaranteed(rows):
    session = rows(budget=Budget(1000, "1e-6"))
    opening = PMW(universe=UNIVERSE, alpha="0.06", hits=50)
    plain = session.quote(opening)
    quote = session.quote(opening, queries=QUESTIONS, like=visits())
    told = quote.hard_answers
    assert f"bout {told.expected:g} of 6 answers are expected to be hard" in str(quote)
    assert "an estimate, no guarantee. At most" in quote._repr_html_()
    assert quote.as_dict()["hard_answers"] == told.as_dict()
    assert told.bound == pytest.approx(session.start(opening).state.standing().most_hard)
    assert "hard_answers" not in plain.as_dict()
    assert "hard_answers" not in in_typed(plain)["fields"]
    assert of_typed(in_typed(quote)).hard_answers == told == ExpectedHard(**told.as_dict())


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ({"like": visits()}, InvalidParameter, "list the questions"),
        ({"queries": QUESTIONS}, InvalidParameter, "like=table"),
        ({"queries": "age >= 50", "like": visits()}, InvalidParameter, "list the questions"),
        ({"queries": 5, "like": visits()}, InvalidParameter, "list the questions"),
        ({"queries": iter(()), "like": visits()}, InvalidParameter, "list the questions"),
        ({"queries": QUESTIONS, "like": visits().head(0)}, InvalidParameter, "no rows"),
        ({"queries": QUESTIONS, "like": visits()[["age"]]}, InvalidQuery, "clinic"),
        ({"queries": QUESTIONS, "like": visits().assign(age="old")}, InvalidQuery, "age"),
        ({"queries": ["age >= 33"], "like": visits()}, InvalidQuery, "age"),
    ],
)
def test_what_cannot_be_simulated_is_refused(rows, said, error, told):
    with pytest.raises(error, match=told):
        rows().quote(PMW(universe=UNIVERSE, alpha="0.06", epsilon="0.2"), **said)


def test_other_calls_have_no_hard_answers(rows):
    with pytest.raises(InvalidParameter, match="are for PMW"):
        rows().quote(chary.calls.Release(count(), epsilon="0.1"), queries=QUESTIONS, like=visits())
