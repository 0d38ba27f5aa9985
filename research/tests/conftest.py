"""Commands are run as those of the library are."""

from tests.cli.conftest import call

__all__ = ["call"]
