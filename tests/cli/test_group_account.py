"""`chary account group` and `sampler`, as a user types them."""

import json

import pytest

from chary.accounting import group_privacy_up, sampler_delta_up
from chary.cli import run


def asked(line, capsys):
    assert run(["account", *line.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_household(capsys):
    found = asked("group --units 4 --epsilon 0.5 --delta 1e-6", capsys)
    epsilon, delta = group_privacy_up(epsilon="0.5", delta="1e-6", units=4)
    assert found == {"epsilon": float(epsilon), "delta": float(delta)}
    assert found["epsilon"] == 2
    assert found["delta"] > 4e-6


def test_a_sampler(capsys):
    assert asked("sampler --distance 1e-9", capsys) == {"delta": float(sampler_delta_up(epsilon=1, distance="1e-9"))}
    assert asked("sampler --distance 0 --delta 1e-6", capsys) == {"delta": 1e-6}


def test_small_deltas_are_not_printed_as_nothing(capsys):
    assert run(["account", "sampler", "--distance", "1e-12"]) == 0
    assert "e-12" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["group --units 0", "group --units 2 --epsilon -1", "sampler --distance 2"])
def test_bad_input(line, capsys):
    assert run(["account", *line.split()]) == 2
    assert capsys.readouterr().err
