"""`chary account noisy-max` and `above-threshold`: their JSON, what they print for people, and their errors."""

import math

import pytest

from chary.accounting import halted_epsilon_up, noisy_max_epsilon_up, running_epsilon_up
from tests.cli.kit import figures

ABOVE = "account above-threshold --steps 7 --sensitivity 0.01 --threshold-noise 0.1 --query-noise 0.2 --threshold 0.5"
RUN = {"sensitivity": "0.01", "threshold_noise": "0.1", "query_noise": "0.2", "threshold": "0.5"}


def test_noisy_max(call):
    line = "account noisy-max --queries 30 --sensitivity 0.01 --noise 0.2"
    assert figures(call, line) == {"epsilon": noisy_max_epsilon_up(30, sensitivity="0.01", noise="0.2")}
    wide = {"epsilon": noisy_max_epsilon_up(30, sensitivity="0.01", noise="0.2", spread="0.5")}
    assert figures(call, line + " --range 0.5") == wide


def test_above_threshold(call):
    assert figures(call, ABOVE) == {"epsilon": halted_epsilon_up(7, **RUN)}
    assert figures(call, ABOVE + " --running") == {"epsilon": running_epsilon_up(7, **RUN)}
    assert figures(call, ABOVE + " --low -1 --high 2") == {"epsilon": halted_epsilon_up(7, **RUN, low=-1, high=2)}


def test_a_tiny_epsilon_is_not_printed_as_nothing(call):
    code, out, _ = call("account noisy-max --queries 2 --sensitivity 1e-9 --noise 100")
    assert code == 0
    assert math.isclose(float(out.split()[-1]), noisy_max_epsilon_up(2, sensitivity="1e-9", noise=100), rel_tol=1e-5)
    assert call(ABOVE.replace("0.5", "11") + " --running")[1].split()[-1].endswith("e-287")


@pytest.mark.parametrize(
    "line",
    [
        "account noisy-max --queries 0 --sensitivity 0.01 --noise 1",
        "account noisy-max --queries 3 --sensitivity 0.01 --noise 0",
        "account noisy-max --queries 3 --sensitivity nan --noise 1",
        ABOVE + " --low 2",
        ABOVE.replace("0.2", "-1"),
        ABOVE.replace("--steps 7", "--steps 0"),
    ],
)
def test_bad_input_shows_a_call_that_works(call, line):
    code, out, error = call(line)
    assert (code, out) == (2, "")
    example = error.split("such as: chary ")[1]
    assert figures(call, example)["epsilon"] > 0


@pytest.mark.parametrize(
    "line", ["account noisy-max --queries 3", "account noisy-max --queries x", "account above-threshold"]
)
def test_usage_errors(call, line):
    assert call(line)[0] == 2
