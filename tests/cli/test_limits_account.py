"""Calculators of limits and of rows from a shell: their JSON is that of the functions, and what they refuse."""

from fractions import Fraction

import pytest

from chary.accounting import exact_total, loss_down, not_prior_q, sharp_width, zero_concentrated_rho_down
from chary.accounting.accuracy import local_channels, people_needed
from chary.accounting.charging_curve import hits_needed
from chary.accounting.schedules import Law, epochs_rows, every_rows, population_risk_up, static_rows
from chary.accounting.sharp_widths import laplace_width
from chary.accounting.weights import published_weights_rows, sparse_weights_rows
from chary.filters import Budget, largest_call
from tests.cli.kit import figures

ROWS = "account rows --accuracy 0.2 --factor 2"
WEIGHTS = "account weights-rows --alpha 0.2 --cells 50 --queries 10 --epsilon 1"
QUERIES = "account queries --alpha 0.1 --cells 1000 --start 1000000000 --size 4000000000 --epsilon 1"
POPULATION = "account population --excess 0.001 --size 1000 --lam 0.5"
PEOPLE = "account people --values 10 --epsilon 1 --within 0.02"
TESTS = "account tests --budget-epsilon 1 --budget-delta 1e-6 --hits 3 --within 120"


def test_hits(call):
    found = figures(call, "account hits --overhead 0.5 --delta 1e-6 --epsilon 0.1")
    assert found == hits_needed(overhead="0.5", delta="1e-6", q=not_prior_q(0.1))._asdict()
    assert figures(call, "account hits --overhead 0.5 --delta 1e-6 --q 0.5")["exact"] == 65


def test_top_one(call):
    found = figures(call, "account top-one --epsilon 0.1 --candidates 500 --budget-delta 1e-6")
    assert found["without_delta"] == 50
    assert found["at_least"] <= found["one_hit"] < found["one_hit_of_twice"]
    assert found["one_hit_of_twice"] == exact_total(epsilon_per_call="0.2", hits=1, delta="1e-6")


def test_unbiased(call):
    found = figures(call, "account unbiased --epsilon 0.1 --units 100")
    assert found["squared_error"] == loss_down(epsilon="0.1", changes=range(1, 101))
    assert found["published"] < found["squared_error"] < found["variance"]


def test_rows(call):
    law = Law(1, 2)
    once = figures(call, ROWS + " --epsilon 1")
    asked = {"accuracy": "0.2", "beta": "0.05"}
    assert once == {
        "once": static_rows(law, epsilon=1, **asked),
        "epochs": epochs_rows(law, epsilon=1, **asked),
    }
    every = figures(call, ROWS + " --rho 0.02 --start 1000")
    assert every["every_size"] == every_rows(law, start=1000, exponent="0.1", rho="0.02", **asked)
    assert figures(call, ROWS + " --rho 0.02 --growth 0.1").keys() == {"epochs"}


def test_weights_rows(call):
    known = {"alpha": "0.2", "cells": 50, "queries": 10}
    assert figures(call, WEIGHTS) == {
        "published": published_weights_rows(epsilon=1, **known),
        "exact": sparse_weights_rows(epsilon=1, mixing="0.1", **known),
    }
    rho = zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert figures(call, WEIGHTS + " --delta 1e-6")["exact"] == sparse_weights_rows(rho=rho, mixing="0.1", **known)


def test_queries(call):
    found = figures(call, QUERIES)
    assert found == {"at_start": 1364, "at_size": 675980}


def test_population(call):
    terms = {"excess": "0.001", "size": 1000, "lam": "0.5", "beta": "0.05"}
    assert figures(call, POPULATION)["population"] == population_risk_up(**terms)
    assert figures(call, POPULATION + " --radius 2")["population"] == population_risk_up(radius=2, **terms)


def test_people(call):
    found = figures(call, PEOPLE)
    forms = local_channels(10, 1)
    asked = {"values": 10, "within": "0.02", "beta": Fraction(1, 20)}
    assert {name: found[name] for name in forms} == {name: people_needed(forms[name], **asked) for name in forms}
    assert found[found["best"]] == min(found[name] for name in forms)
    assert figures(call, PEOPLE + " --share 0.01")["optimised"] < found["optimised"]


def test_tests_are_within_turned_round(call):
    found = figures(call, TESTS)
    size = largest_call(Budget(1, "1e-6"), 3, "renyi")
    kept = {
        "sharp": lambda n: sharp_width(epsilon=1, delta="1e-6", tests=n, hits=3).within,
        "laplace": lambda n: laplace_width(size, tests=n),
    }
    for name, width in kept.items():
        assert width(found[name]) <= 120 < width(int(found[name] * 1.01) + 1)
    assert figures(call, TESTS.replace("120", "60"))["laplace"] is None
    assert found["sparse"] == 10**12
    assert figures(call, TESTS + " --misses-share 0.2")["sharp"] > found["sharp"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("account hits --overhead 0 --delta 1e-6", "overhead"),
        ("account hits --overhead 1 --delta 0", "delta"),
        ("account top-one --epsilon 0.1 --candidates 0 --budget-delta 1e-6", "candidates"),
        ("account unbiased --epsilon 0", "epsilon"),
        ("account unbiased --epsilon 1 --units 0", "units"),
        (ROWS, "one of --epsilon and --rho"),
        (ROWS + " --epsilon 1 --rho 1", "one of --epsilon and --rho"),
        (ROWS + " --epsilon 1 --base 0.3", "accuracy"),
        (WEIGHTS.replace("0.2", "1"), "alpha"),
        (QUERIES.replace("4000000000", "4"), "shrink"),
        (POPULATION + " --beta 1", "beta"),
        (TESTS.replace("120", "0"), "within"),
        (PEOPLE.replace("10", "1"), "values"),
        (PEOPLE + " --share 2", "share"),
        (TESTS + " --misses-share 1", "--misses-share"),
    ],
)
def test_bad_input_is_refused(call, line, told):
    code, out, error = call(line)
    assert (code, out) == (2, "")
    assert told in error
