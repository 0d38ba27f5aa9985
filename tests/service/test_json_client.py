"""The client that needs httpx alone: what it asks in JSON is what the client of classes asks."""

import json
import subprocess
import sys
import tomllib

import pytest

from chary import BudgetExceeded, InvalidParameter, InvalidQuery, count
from chary.calls import Release
from chary.client import connect, connect_json
from tests.paths import ROOT
from tests.service.kit import token_of

DISTRIBUTION = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = {name.removesuffix(".__init__") for name in DISTRIBUTION["tool"]["setuptools"]["py-modules"]}
# What httpx brings, and nothing that happens to be installed beside it.
BROUGHT = {"httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio", "typing_extensions"}
COUNTED = {"kind": "release", "query": {"kind": "count"}, "epsilon": "0.1"}
ALONE = """
import json, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if name not in MODULES if root == "chary" else root not in sys.stdlib_module_names | BROUGHT:
            raise ModuleNotFoundError(f"no module named {name}", name=name)

MODULES, BROUGHT, address, token = json.loads(sys.stdin.read())
BROUGHT = set(BROUGHT)
sys.meta_path.insert(0, Nothing())
from chary import BudgetExceeded
from chary.client import connect_json

found = {}
with connect_json(address, token, dataset="visits") as remote:
    call = {"kind": "release", "query": {"kind": "count"}, "epsilon": "0.1"}
    found["quoted"] = remote.quote(call, confidence="0.9")
    found["asked"] = remote.ask(call, request="alone")
    try:
        remote.ask(call | {"epsilon": "50"})
    except BudgetExceeded as error:
        found["refused"] = [str(error), error.figures]
    run = remote.start({"kind": "sparse_vector", "above": "100000", "hits": 1, "epsilon": "0.1"})
    found["run"] = remote.question(run["run"], {"query": {"kind": "count"}})
    found["version"] = remote.append(ROWS.encode())
    found["calls"] = len(remote.pages("calls"))
    found["schema"] = remote.read("schema")
print(json.dumps(found | {"modules": sorted(sys.modules)}))
"""


@pytest.fixture
def token(service):
    return token_of(service, "dora", ["analyst", "custodian"])


def test_it_asks_reads_is_refused_and_appends_with_httpx_alone(service, address, token):
    rows = "patient,clinic,age,cost,note\n9001,north,70,3,none\n"
    script = f"ROWS = {rows!r}\n{ALONE}"
    said = json.dumps([sorted(MODULES), sorted(BROUGHT), address, token])
    ended = subprocess.run(
        [sys.executable, "-c", script], input=said, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    loaded = {name for name in found["modules"] if name.partition(".")[0] == "chary"}
    assert loaded <= MODULES
    assert "numpy" not in found["modules"]
    assert found["version"] == 1
    assert found["calls"] == 3
    assert "budget" in found["refused"][0]
    assert found["quoted"]["price_if_hit"] > 0
    assert found["run"]["above"] is False
    assert "age" in found["schema"]["schema"]
    with connect(address, token) as remote:
        answer = remote.ask(Release(count(), epsilon="0.1"), request="alone")
        assert answer.value == found["asked"]["value"]
    assert "typed" not in found["asked"]


def test_its_refusals_are_those_of_the_client_of_classes(address, token):
    with connect_json(address, token) as remote:
        with pytest.raises(InvalidQuery):
            remote.ask(COUNTED | {"query": {"kind": "count", "where": "nothing > 3"}})
        with pytest.raises(InvalidParameter) as told:
            remote.ask(COUNTED | {"epsilon": "-1"})
        assert told.value.field == "epsilon"
        with pytest.raises(BudgetExceeded):
            remote.ask(COUNTED | {"epsilon": "50"})
    with pytest.raises(InvalidParameter, match="name a dataset"):
        connect_json(address, token, dataset="other")


def test_rows_are_sent_from_a_file(address, token, tmp_path):
    file = tmp_path / "more.csv"
    file.write_text("patient,clinic,age,cost,note\n9002,north,71,4,none\n", encoding="utf-8")
    with connect_json(address, token) as remote:
        before = len(remote.pages("versions"))
        assert remote.append(file, request="file") == before + 1 == remote.append(file, request="file")
        assert remote.append(file) == before + 2 == remote.append(str(file))
        assert remote.append(file.read_bytes()) == before + 3
        with connect(address, token) as other:
            assert other.append(file) == before + 2
