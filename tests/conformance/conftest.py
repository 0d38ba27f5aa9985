"""Sessions on the visits, as the tests of sessions open them."""

from tests.session.conftest import any_threshold, opened

__all__ = ["any_threshold", "opened"]
