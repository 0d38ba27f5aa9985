"""Sessions on the visits, command lines and services, as their own tests have them."""

from tests.cli.conftest import call, patients
from tests.service.conftest import address, http, service
from tests.session.conftest import any_threshold, opened

__all__ = ["address", "any_threshold", "call", "http", "opened", "patients", "service"]
