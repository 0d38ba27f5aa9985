"""The whole OpenAPI document, tried by made-up requests: nothing fails unforeseen, and no answer holds a secret.

`REQUESTS=10000 python -m pytest tests/service/test_open_api.py` (`make open-api`) makes so many.
"""

import json
import os
from collections import Counter
from math import ceil

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from chary.calls import kinds
from chary.calls.fields import of_code
from chary.service.app import ROUTERS, application
from tests.service.kit import bearing, listening, serve_visits, service_at, token_of
from tests.session.kit import shows_data

STREAMS = "/events"
REQUESTS = int(os.environ.get("REQUESTS", "0"))
SENT = Counter()


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """A service that anything may be done to, and its document."""
    service = service_at(tmp_path_factory.mktemp("tried"))
    serve_visits(service)
    token = token_of(service, "alice", ["analyst", "custodian", "reader"])
    document = json.loads(json.dumps(application(service).openapi()))
    document["paths"] = {path: each for path, each in document["paths"].items() if not path.endswith(STREAMS)}
    named_visits(document)
    with listening(service) as address:
        yield address, token, document


@pytest.fixture(scope="module")
def schema(tried):
    """The document as what makes requests up reads it: once, which takes longer than the requests of an operation."""
    return schemathesis.openapi.from_dict(tried[2])


def named_visits(document):
    """Datasets of other names are not there: nearly all that is tried is of the one that is."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "dataset":
                    parameter["schema"] = {"type": "string", "enum": ["visits"]}


def test_routes_that_do_nothing_twice_say_how(tried):
    """The routes whose descriptions speak of the header, and all that ask, declare it."""
    declared = {
        path.removeprefix("/v1/datasets/{dataset}/")
        for path, each in tried[2]["paths"].items()
        for parameter in each.get("post", {}).get("parameters", ())
        if parameter["name"] == "Idempotency-Key"
    }
    runs = {"runs", "runs/{number}/questions", "runs/{number}/lessons"}
    assert declared == {"calls", "appends", "standing"} | runs
    said = {
        path
        for path, each in tried[2]["paths"].items()
        if "Idempotency-Key" in each.get("post", {}).get("description", "")
    }
    assert {path.removeprefix("/v1/datasets/{dataset}/") for path in said} <= declared


OPERATIONS = [
    (route.path, method.lower())
    for router in ROUTERS
    for route in router.routes
    for method in sorted(route.methods)
    if not route.path.endswith(STREAMS)
]


# Of some routes there are only a few different requests, or none that is wrong: the others are tried more often.
EACH = max(10, ceil(2 * REQUESTS / (2 * len(OPERATIONS))))


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_nothing_fails_unforeseen(tried, schema, path, method, mode):
    address, token, _ = tried
    headers, statuses = bearing(token) | {"Prefer": "wait=30"}, set()

    @given(schema[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=EACH, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    def tried_with(case):
        response = case.call(headers=headers, base_url=address)
        statuses.add(response.status_code)
        SENT[response.status_code] += 1
        assert response.status_code < 500
        assert not shows_data(response.text)
        if response.status_code >= 400:
            assert response.headers["content-type"] == ["application/problem+json"]
            assert response.json()["status"] == response.status_code

    try:
        tried_with()
    except Unsatisfiable:
        assert mode == schemathesis.GenerationMode.NEGATIVE  # nothing can be wrong where nothing is said
    else:
        assert statuses - {401, 403, 405, 421, 429}


@pytest.mark.skipif(REQUESTS == 0, reason="so many were asked for by REQUESTS= only")
def test_as_many_were_sent_as_were_asked_for(record_testsuite_property):
    record_testsuite_property("sent", json.dumps(dict(SENT)))
    assert SENT.total() >= REQUESTS


def test_the_document_has_a_schema_for_every_kind_that_json_can_say(tried):
    document = tried[2]
    calls, runs = (
        document["paths"][f"/v1/datasets/{{dataset}}/{route}"]["post"]["requestBody"]["content"]["application/json"]
        for route in ("calls", "runs")
    )
    listed = [*calls["schema"]["discriminator"]["mapping"], *runs["schema"]["discriminator"]["mapping"]]
    assert sorted(listed) == sorted(name for name, kind in kinds().items() if not of_code(kind) and name != "schedule")
    for name in listed:
        schema = document["components"]["schemas"][kinds()[name].__name__]
        assert schema["properties"]["kind"] == {"const": name}
        assert schema["description"]
