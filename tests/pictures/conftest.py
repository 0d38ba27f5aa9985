"""Sessions on the visits."""

from tests.session.conftest import opened

__all__ = ["opened"]
