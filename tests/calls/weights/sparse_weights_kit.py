"""What the tests of histograms in rounds of sparse vector share: openings over the universe of the visits."""

from chary.calls import PMW
from tests.calls.weights.weighting_kit import UNIVERSE

MOST = 4000


def weights_of(session, **options):
    given = {"universe": UNIVERSE, "alpha": "0.15", "epsilon": "0.2"} | options
    return session.start(PMW(prepaid=True, **given))


def sure_of(session, **options):
    """Practically without noise: few rounds, each with an epsilon above 60."""
    return weights_of(session, epsilon=MOST, rounds=12, **options)
