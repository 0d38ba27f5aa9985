"""When a private majority costs no reliability: the published rule, and what it costs by exact laws."""

from itertools import product
from math import prod

import pytest

from chary.errors import InvalidParameter
from chary.mechanisms import MajorityVote
from chary_research.published import majority_risks, majority_units


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "2"])
def test_the_published_number_is_the_least(epsilon):
    units = majority_units(epsilon)
    assert float(epsilon) >= 3 / units**0.5 - 1e-12
    assert float(epsilon) < 3 / (units - 1) ** 0.5


@pytest.mark.parametrize("rule", ["inverse", "noise"])
def test_risks_are_those_of_all_samples(rule):
    vote, share = MajorityVote("0.5", rule=rule), 0.7
    exact = private = 0.0
    for sample in product([0, 1], repeat=5):
        chance, lead = prod(share if each else 1 - share for each in sample), 2 * sum(sample) - 5
        exact += chance * (lead < 0)
        private += chance * (1 - vote.chance(lead))
    assert majority_risks(5, "0.5", "0.7", rule=rule) == pytest.approx((exact, private))


def test_the_vote_of_a_session_is_never_the_worse_one_and_both_cost_something():
    for epsilon in ("0.1", "0.3"):
        units = majority_units(epsilon) | 1
        share = 0.5 + units**-0.5
        (exact, slides), (_, ours) = (majority_risks(units, epsilon, share, rule=rule) for rule in ("inverse", "noise"))
        assert exact < ours < slides < 0.1


@pytest.mark.parametrize(("units", "share"), [(4, "0.6"), (5, "0.5"), (5, "1")])
def test_even_votes_and_shares_without_a_majority_are_refused(units, share):
    with pytest.raises(InvalidParameter, match="odd in number"):
        majority_risks(units, "0.5", share)
