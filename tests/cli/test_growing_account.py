"""Calculators of growing data and unequal composition in the command: what the functions say, and refusals."""

import json

import pytest

from chary.accounting import compose_unequal
from chary.accounting.schedules import Law, epochs_epsilon, epochs_rows, static_epsilon, static_rows


def told(call, line):
    code, out, _ = call(f"account {line} --json")
    assert code == 0
    return json.loads(out)


def test_unequal_computations_are_a_list(call):
    found = told(call, "compose --epsilon 0.1,0.2 --times 3 --budget-delta 1e-6")
    assert found == compose_unequal(epsilons=["0.1", "0.2"] * 3, delta="1e-6").as_dict()
    for wrong in ("0.1,x --times 3", "0.1,0.2 --times 0", "0.1,0.2 --times 5000"):
        assert call(f"account compose --budget-delta 1e-6 --epsilon {wrong}")[0]


def test_a_budget_for_an_accuracy(call):
    found = told(call, "budget --accuracy 0.05 --size 400000 --factor 2 --delta 1e-6")
    law, known = Law(1, 2), {"accuracy": "0.05", "beta": "0.05"}
    assert found["once"] == pytest.approx(static_epsilon(law, size=400_000, **known))
    assert found["epochs"] == pytest.approx(epochs_epsilon(law, start=400_000, delta="1e-6", **known))


def test_rows_of_a_law_with_powers_of_its_own(call):
    powers = "--size-power 1/2 --log-power 1/2 --size-log 1"
    found = told(call, f"rows --accuracy 0.3 --factor 2 --epsilon 1 {powers}")
    law, terms = Law(1, 2, log_power="1/2", size_power="1/2", size_log=1), {"accuracy": "0.3", "beta": "0.05"}
    assert found == {"once": static_rows(law, epsilon=1, **terms), "epochs": epochs_rows(law, epsilon=1, **terms)}
