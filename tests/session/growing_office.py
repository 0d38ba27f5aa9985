"""An office that asks a growing table in every way there is, for the tests of how these work together."""

import polars as pl

from chary import Budget, count
from chary.calls import PMW, ContinualCount, GrowingTests, Rerun
from chary.errors import BudgetExceeded
from chary.growth import CountsBox, MWEMBox, QuantilesBox, SmallDatabaseBox

UNIVERSE = {"ward": range(3), "ill": [True, False]}
QUERIES = ["ill", "ward = 1"]
BUDGET = Budget(epsilon=4, delta=1e-6)
EPSILON, BETA = "0.1", "0.05"
BOXES = {
    "counts": lambda schema: CountsBox(count().by("ward", range(3))),
    "quantiles": lambda schema: QuantilesBox("age", [0.5], bounds=(0, 100)),
    "small": lambda schema: SmallDatabaseBox(UNIVERSE, QUERIES, rows=4, schema=schema),
    "mwem": lambda schema: MWEMBox(UNIVERSE, QUERIES, rounds=2),
}
FILTERS = {
    "renyi": {"budget": BUDGET},
    "pure": {"budget": Budget(epsilon=4)},
    "exact": {"budget": Budget(epsilon=8, delta=1e-6), "filter": "exact", "grain": EPSILON},
    "approximate": {"budget": BUDGET, "delta_reserve": "5e-8"},
}


def people(first, last):
    numbers = range(first, last)
    columns = {"ward": [i % 3 for i in numbers], "age": [i % 90 for i in numbers], "ill": [i % 9 == 0 for i in numbers]}
    return pl.DataFrame(columns | {"household": [i // 2 for i in numbers]})


def opening(session, call):
    """Every kind that stays open: opened, or opened again by its number in `call`."""
    boxes = {name: box(session.schema) for name, box in BOXES.items()}
    if call:
        follow = {name: {"bring": box, "follow": True} for name, box in boxes.items()} | {"count": {"follow": True}}
        return {name: session.resume(number, **follow.get(name, {})) for name, number in call.items()}
    paid = {"epsilon": EPSILON, "beta": BETA, "growth": "0.5"}
    made = {name: session.start(Rerun(box, **paid), follow=True) for name, box in boxes.items()}
    histogram = {"universe": UNIVERSE, "alpha": "0.3", "epsilon": EPSILON}
    made["weights"] = session.start(PMW(**histogram, follow_size=False))
    made["rounds"] = session.start(PMW(prepaid=True, **histogram, rounds=2))
    made["above"] = session.start(GrowingTests(above="0.5", epsilon=EPSILON, values=True))
    made["count"] = session.start(ContinualCount("ill", steps=4, epsilon=EPSILON), follow=True)
    return made


def calls(made):
    return {name: each.call for name, each in made.items()}


def told(made):
    return {name: len(each.state.results) for name, each in made.items() if hasattr(each.state, "results")}


def exhaust(session):
    for size in ("2", "0.5", EPSILON, "0.01", "0.001", "0.0001"):
        try:
            while True:
                session.release(count("ill"), epsilon=size)
        except BudgetExceeded:
            continue
