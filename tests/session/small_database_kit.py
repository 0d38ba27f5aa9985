"""What the tests of small databases share: a universe of the visits, queries, and calls for them."""

from chary import Bins, Neighbouring
from tests.session.kit import CLINICS

ROW = Neighbouring("replace", None)
UNIVERSE = {"clinic": CLINICS, "age": Bins([20, 30, 40, 50, 60, 81])}
QUERIES = ["clinic = 'north'", "age >= 30 AND age < 50", "clinic = 'east' OR age < 30"]


def small(session, **options):
    return session.small_database(**({"universe": UNIVERSE, "queries": QUERIES, "epsilon": "0.2", "rows": 6} | options))
