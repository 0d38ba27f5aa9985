"""The document of the HTTP API: one line a route, a schema, and whatever else it says."""

import tempfile
from pathlib import Path

from chary.service.app import application
from tests.service.kit import service_at


def document():
    """All of it, as it is served at /openapi.json."""
    with tempfile.TemporaryDirectory() as folder:
        service = service_at(Path(folder))
        told = application(service).openapi()
        service.jobs.close(1)
        service.store.close()
    parts = told.pop("components")
    lines = [{"path": path} | found for path, found in sorted(told.pop("paths").items())]
    for part, named in sorted(parts.items()):
        lines += [{"part": part, "name": name, "is": found} for name, found in sorted(named.items())]
    return [*lines, told]
