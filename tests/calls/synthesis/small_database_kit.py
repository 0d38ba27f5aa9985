"""What the tests of small databases share: queries about the visits, and calls for them."""

from chary import NeighborRelation
from chary.calls import SmallDatabase
from tests.calls.weights.weighting_kit import UNIVERSE

ROW = NeighborRelation("replace", None)
QUERIES = ["clinic = 'north'", "age >= 30 AND age < 50", "clinic = 'east' OR age < 30"]


def small(session, request=None, **options):
    given = {"universe": UNIVERSE, "queries": QUERIES, "epsilon": "0.2", "rows": 6} | options
    return session.ask(SmallDatabase(**given), request=request)
