"""Role by route: every route has one guard, and every cell of the table is tried."""

import pytest
from fastapi.routing import APIRoute

from chary.service.app import ROUTERS
from chary.service.auth.tokens import ACTIONS, Role
from chary.service.http.admission import May, On
from tests.service.kit import bearing, client_of, token_of

UNTOKENED = {"/health", "/ready"}
ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
FILLED = {"dataset": "visits", "number": "1", "job": "0" * 16, "token": "0" * 16, "analyst": "bob", "name": "0" * 16}
CELLS = [
    (method, route.path, role)
    for route in ROUTES
    if route.path not in UNTOKENED
    for method in sorted(route.methods)
    for role in [*Role, None]
]


def action_of(route):
    """The action that its guard asks for."""
    found = [each.call for each in route.dependant.dependencies if isinstance(each.call, (May, On))]
    nested = [inner.call for each in route.dependant.dependencies for inner in each.dependencies]
    found += [call for call in nested if isinstance(call, (May, On))]
    assert len({call.action for call in found}) == 1, route.path
    return found[0].action


ACTION = {
    (method, route.path): action_of(route)
    for route in ROUTES
    if route.path not in UNTOKENED
    for method in route.methods
}


@pytest.fixture(scope="module")
def tokens(service):
    return {role: token_of(service, f"some {role}", [role]) for role in Role}


def status_of(address, method, path, token):
    """The status alone: streams are not read."""
    place = path.format(**FILLED)
    with client_of(address, token) as client, client.stream(method, place, json={}) as response:
        return response.status_code


@pytest.mark.parametrize(("method", "path", "role"), CELLS, ids=str)
def test_a_role_may_what_the_table_says_and_nothing_else(address, tokens, method, path, role):
    status = status_of(address, method, path, tokens.get(role))
    if role is None:
        assert status == 401
    elif role in ACTIONS[ACTION[method, path]]:
        assert status not in (401, 403, 405, 500)
    else:
        assert status == 403


def test_every_action_is_one_of_some_route():
    assert set(ACTION.values()) == set(ACTIONS)


@pytest.mark.parametrize("path", sorted({path for _, path in ACTION if "{dataset}" in path}))
def test_a_dataset_of_others_is_not_there(address, service, path):
    token = token_of(service, "alice", list(Role), ["votes"])
    for method in (method for method, known in ACTION if known == path):
        with client_of(address, token) as client:
            found, missing = (
                client.request(method, path.format(**(FILLED | {"dataset": name})), json={})
                for name in ("visits", "no such dataset")
            )
        assert (found.status_code, found.json()) == (404, missing.json())


def test_a_route_without_a_token_tells_nothing(address):
    with client_of(address) as client:
        assert client.get("/health").json() == {"healthy": True}
        assert client.get("/ready").json() == {"ready": True}
        assert client.get("/v1/datasets", headers=bearing("x")).status_code == 401


def test_metrics_of_all_datasets_are_for_tokens_of_all(service, address):
    for datasets, status in ((["visits"], 403), (["*"], 200)):
        with client_of(address, token_of(service, "rae", ["reader"], datasets)) as client:
            assert client.get("/metrics").status_code == status
