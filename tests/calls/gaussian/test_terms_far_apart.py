"""Runs of threshold tests whose terms lie far apart: refused in words, before anything is charged."""

import pytest

from chary.calls import GaussianAboveThreshold, SelfReporting
from chary.errors import InvalidParameter

FAR = {"threshold": 10**9, "threshold_noise": "1e-300", "low": 0, "high": 100}


@pytest.mark.parametrize(
    "call",
    [
        GaussianAboveThreshold(**FAR),
        GaussianAboveThreshold(**FAR, sensitivity=1, charged="hits"),
        SelfReporting(**FAR, sensitivity=1, epsilon="0.05"),
    ],
    ids=["above_threshold", "above_threshold by hits", "self_reporting"],
)
def test_noise_that_is_nothing_beside_the_threshold_is_refused(opened, call):
    session = opened()
    for ask in (session.quote, session.start):
        with pytest.raises(InvalidParameter, match="within a factor of"):
            ask(call)
    assert session.spent.share == 0
