"""What an operator types, and the chary.toml that command and service both read."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import httpx
import pytest
import uvicorn

import chary
import chary.service
from chary import BudgetExceeded
from chary.cli import run
from chary.errors import InvalidParameter
from chary.ledger import open_ledger
from chary.ledger.locations import move
from chary.service.auth.tokens import BearerTokens, Principal
from chary.service.command import bound, tell_opened
from chary.service.config import service_config
from chary.service.core.audit_trail import AuditTrail
from chary.service.core.datasets import opened_datasets
from chary.service.state import opened_service
from chary.service.store import ServiceStore
from tests.paths import ROOT
from tests.service.kit import client_of, listening, token_of, wait_for
from tests.service.test_service_races import Killed, free_port
from tests.session.kit import visits

SOURCE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}

CONFIG = """
budget-delta = "1e-6"

[service]
store = "kept.db"

[dataset.visits]
file = "visits.csv"
unit = "patient"
budget-epsilon = 1
columns = {age = "BIGINT", patient = "BIGINT", cost = "DOUBLE"}
share-answers = true
shares = {alice = "0.25"}
"""


@pytest.fixture
def config(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "chary.toml").write_text(CONFIG)
    return tmp_path / "chary.toml"


def test_a_cap_that_a_custodian_changed_outlives_a_restart(config):
    """The shares of a chary.toml are for those who have no cap yet."""
    spent = []
    for share in (0.5, 0.75):
        served = opened_datasets(service_config(config))
        session = served["visits"].session
        capacity = session.spine.ledger.analyst_balance(session.spine.dataset, "alice").capacity
        spent.append(capacity.main / session.spine.filter.capacity.main)
        session.set_quota("alice", share)
        served.close()
    assert spent == pytest.approx([0.25, 0.5])


def test_a_quota_that_the_file_does_not_change_is_told_at_the_start(config, caplog):
    def started(share):
        config.write_text(CONFIG.replace("0.25", share))
        caplog.clear()
        service = opened_service(service_config(config))
        tell_opened(service)
        service.close()
        return [told for each in caplog.records if "quota of" in (told := each.getMessage())]

    assert started("0.7") == started("0.70") == []
    [told] = started("0.5")
    assert told == (
        "chary: warning: dataset visits: alice has a quota of 70 %, the file says 50 %: change it on the page or by "
        "PUT /v1/datasets/visits/shares/alice"
    )
    assert started("0.7") == []


def test_a_quota_for_a_name_without_a_token_is_told_at_the_start(config, caplog):
    """Written wrongly, it would cap nobody."""

    def started(*tokens):
        caplog.clear()
        service = opened_service(service_config(config))
        for analyst in tokens:
            service.tokens.make(analyst, roles=["analyst"], datasets=["visits"], days=1)
        tell_opened(service)
        service.close()
        return [told for each in caplog.records if "no token" in (told := each.getMessage())]

    [told] = started("alcie")
    assert told.startswith("chary: warning: dataset visits: alice has a quota and no token")
    assert started("alice") == []


def test_a_ledger_that_is_new_though_calls_were_asked_is_told_at_the_start(config, caplog):
    config.write_text(CONFIG.replace("shares", "# shares"))

    def started(ask=None):
        caplog.clear()
        service = opened_service(service_config(config))
        tell_opened(service)
        if ask:
            service.trail.add(Principal("1f", "alice", frozenset(), frozenset()), "visits", "ask", {}, "monday")
            service.datasets["visits"].asked_by("alice").release(chary.count(), epsilon="0.1")
        service.close()
        told = [each.getMessage() for each in caplog.records]
        return json.loads(told[0])["ledger"], [line for line in told if "second budget" in line]

    ledger = config.with_name("visits.csv.ledger")
    assert started(ask=True) == ("new ledger", [])
    charged, warned = started()
    assert (charged.endswith(" % charged"), warned) == (True, [])
    ledger.unlink()
    said, [warned] = started()
    assert (said, "dataset visits: its ledger is new, and the audit log has earlier calls" in warned) == (
        "new ledger",
        True,
    )


def test_a_token_is_made_listed_and_revoked(config, capsys):
    new = ["token", "new", "--analyst", "alice", "--role", "analyst", "--dataset", "visits", "--config", str(config)]
    assert run([*new, "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    tokens = BearerTokens(ServiceStore(config.parent / "kept.db"))
    assert tokens.recognise(token).analyst == "alice"
    assert run(["token", "list", "--config", str(config)]) == 0
    told = capsys.readouterr().out
    name = token.split("_")[1]
    assert name in told
    assert token.split("_", 2)[2] not in told
    assert [run(["token", "revoke", name, "--config", str(config)]) for _ in range(2)] == [0, 2]
    assert tokens.recognise(token) is None
    entries = AuditTrail(ServiceStore(config.parent / "kept.db")).entries()
    assert [(each.token, each.analyst, each.action) for each in entries] == 3 * [("", "operator", "tokens")]
    said = {"analyst": "alice", "datasets": ["visits"], "days": 30, "roles": ["analyst"]}
    assert json.loads(entries[0].asked) == said
    assert json.loads(entries[1].asked) == {"revoked": name}
    assert run([*new[:-4], "--dataset", "other", "--config", str(config)]) == 2
    assert run([*new[:4], "--role", "root", "--dataset", "visits", "--config", str(config)]) == 2


@pytest.mark.parametrize("first", ["command", "service"])
def test_a_dataset_called_otherwise_than_its_file_has_one_budget(config, capsys, first):
    config.write_text(CONFIG.replace("[dataset.visits]", "[dataset.homes]"))

    def commanded():
        assert run(["release", "homes", "--count", "--epsilon", "0.6", "--json", "--config", str(config)]) in (0, 3)
        capsys.readouterr()

    def served():
        datasets = opened_datasets(service_config(config))
        with suppress(BudgetExceeded):
            datasets["homes"].session.release(chary.count(), epsilon="0.6")
        datasets.close()

    for ask in (commanded, served) if first == "command" else (served, commanded):
        ask()
    with closing(open_ledger(config.parent / "visits.csv.ledger")) as ledger:
        (terms,) = ledger.datasets()
        (_,) = ledger.calls(terms.name)


def test_in_one_ledger_the_rows_of_another_dataset_keep_their_own_budget(config):
    visits().to_csv(config.parent / "second.csv", index=False)
    first = CONFIG.replace("[service]", '[service]\nledger = "all.ledger"')
    config.write_text(first)
    opened_datasets(service_config(config)).close()
    second = first.replace("[dataset.visits]", "[dataset.homes]")
    config.write_text(second + first.partition("store")[2].partition("\n")[2].replace("visits.csv", "second.csv"))
    datasets = opened_datasets(service_config(config))
    assert [datasets[name].session.spine.dataset for name in ("homes", "visits")] == ["homes", "visits"]
    datasets.close()


def test_datasets_are_opened_as_the_file_says_and_share_the_ledger_of_the_command(config, capsys):
    with chary.open(
        str(config.parent / "visits.csv"),
        privacy_unit="patient",
        columns={"age": "BIGINT", "patient": "BIGINT", "cost": "DOUBLE"},
        budget=chary.Budget(epsilon=1, delta="1e-6"),
        ledger=config.parent / "visits.csv.ledger",
    ) as session:
        session.release(chary.count(), epsilon="0.1", request="before")
    served = opened_datasets(service_config(config))
    assert len(served["visits"].session.history) == 1
    assert served["visits"].shared
    assert served["visits"].asked_by("alice").remaining.share == pytest.approx(0.25)
    served.close()
    line = [
        "release",
        str(config.parent / "visits.csv"),
        "--count",
        "--epsilon",
        "0.01",
        "--config",
        str(config),
    ]
    assert run(line) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[service]\nprot = 1", "no option 'service.prot'; the nearest is 'port'"),
        ("[service]\nstop_seconds = 1", "the nearest is 'stop-seconds'"),
        ("[service.webhook.ops]\nform = 'slack'\nsecret-fil = 'x'", "service.webhook.ops.*nearest is 'secret-file'"),
        ("[service.mail.night]\nfrm = 'x'", "the nearest is 'from'"),
        ("[dataset.visits]\nbudget_epsilon = 1\nbudget-epsilon = 2", "budget_epsilon and budget-epsilon are one"),
        ("budget_delta = 1\nbudget-delta = 2", "budget_delta and budget-delta are one option: say it once"),
        ("[service]\nport = 99999", "service.port"),
        ("[dataset.visits]\nfile = 'x.csv'\nepsilom = 1", "dataset.visits.epsilom"),
        ("[dataset.visits]\nunit = 'x'", "file"),
        ("engine = 'spark'\n[dataset.visits]\nfile = 'x.csv'\nunit = 'x'", "visits names an engine"),
        ("dataset = 1", "datasets are tables"),
        ("[service", "no TOML"),
        ("[service.webhook.ops]\nurl = 'file:///etc/passwd'\nsecret-file = 'x'", "service.webhook.ops.url"),
    ],
)
def test_what_a_file_cannot_say_is_named(tmp_path, said, words):
    (tmp_path / "chary.toml").write_text(said)
    with pytest.raises(InvalidParameter, match=words):
        service_config(tmp_path / "chary.toml")
    with pytest.raises(InvalidParameter, match="there is no"):
        service_config(tmp_path / "missing.toml")


def test_the_client_is_found_where_it_is_looked_for():
    assert chary.connect is chary.client.connect
    for name in chary.client.__all__:
        assert getattr(chary.client, name).__doc__
    with pytest.raises(AttributeError):
        chary.client.conect  # noqa: B018


def test_the_demonstration_is_there_soon_and_ends_when_it_is_asked_to():
    """By the processor time of the process, which others do not lengthen: 2.6 s here, 3.3 s where nothing is compiled
    yet. The bound finds what doubles it."""
    command = [
        sys.executable,
        "-m",
        "chary",
        "serve",
        "--demo",
        "--quiet",
        "--json",
        "--port",
        str(port := free_port()),
    ]
    with Killed(command, env=os.environ | SOURCE, stdout=subprocess.PIPE, text=True) as server:
        wait_for(lambda: is_ready(port), 240)
        used = sum(map(int, Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        with chary.connect(f"http://127.0.0.1:{port}", json.loads(server.stdout.readline())["token"]) as session:
            assert session.quote(chary.calls.ThresholdTest(chary.count(), above=5_000, hits=20)).most_charged < 1
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert used / os.sysconf("SC_CLK_TCK") < 8


def test_the_log_counts_the_cells_of_a_batch_that_became_null(tmp_path):
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as made:
        made.execute("CREATE TABLE visits (patient BIGINT, age BIGINT)")
    said = 'file = "visits.duckdb"\ntable = "visits"\nunit = "patient"\nbudget-epsilon = 1\nbudget-delta = "1e-6"\n'
    (tmp_path / "chary.toml").write_text(f"[service]\nport = {(port := free_port())}\n[dataset.visits]\n{said}")
    command, where = [sys.executable, "-m", "chary"], {"cwd": tmp_path, "env": os.environ | SOURCE, "text": True}
    named = "token new --analyst carol --role custodian --dataset visits --days 1 --json"
    token = json.loads(subprocess.run([*command, *named.split()], **where, check=True, stdout=subprocess.PIPE).stdout)[
        "token"
    ]
    with Killed([*command, "serve"], **where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        wait_for(lambda: is_ready(port), 240)
        with chary.connect(f"http://127.0.0.1:{port}", token) as session:
            for rows in (b"patient,age\n1,old\n2,\n3,44\n", b"patient,age\n1,x\n2,7\n"):
                (tmp_path / "rows.csv").write_bytes(rows)
                session.append(tmp_path / "rows.csv")
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=60)
    opened = json.loads(log.splitlines()[0])
    assert (opened["event"], opened["dataset"], opened["ledger"]) == ("opened", "visits", "new ledger")
    # Of a library that finds its modules alive when the interpreter ends.
    assert "leaked" not in log
    assert [line for line in log.splitlines() if line.startswith("chary: warning:")] == [
        "chary: warning: visits, version 1, column age: 1 of 2 cells are not BIGINT, and are NULL",
        "chary: warning: visits, version 2, column age: 1 of 2 cells are not BIGINT, and are NULL",
    ]


def is_ready(port):
    """Whether it says so; it says nothing else."""
    with suppress(httpx.TransportError):
        told = httpx.get(f"http://127.0.0.1:{port}/ready", timeout=30)
        assert told.json() == {"ready": told.status_code == 200}
        return told.status_code == 200
    return False


def test_processes_that_share_a_port_send_small_answers_at_once():
    with bound(uvicorn.Config("nothing", "127.0.0.1", 0, log_level="critical")) as taken:
        taken.listen()
        with socket.create_connection(taken.getsockname()), taken.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_ledger_that_lacks_what_was_asked_is_refused_until_it_is_accepted(config):
    """An older copy, or a new ledger, would pay a second time: at every start, not only at the first."""
    ledger, copy = config.with_name("visits.csv.ledger"), config.with_name("copy.ledger")

    def asked(key, accepted=()):
        service = opened_service(service_config(config), accepted)
        service.stopping = threading.Event()
        with listening(service) as address, client_of(address, token_of(service)) as client:
            call = {"kind": "release", "epsilon": "0.05", "query": {"kind": "count", "where": f"age < {len(key)}"}}
            sent = client.post("/v1/datasets/visits/calls", json=call, headers={"Idempotency-Key": key})
            assert sent.status_code == 200
            return service.trail.done("visits", "accept-ledger")

    assert asked("a") == asked("bb") == []
    copy.write_bytes(ledger.read_bytes())
    assert asked("ccc") == asked("dddd") == []
    lost = ledger.read_bytes()
    for other in (copy.read_bytes(), None):
        for _ in range(2):
            ledger.unlink(missing_ok=True)
            if other is not None:
                ledger.write_bytes(other)
            with pytest.raises(
                InvalidParameter, match=r"dataset visits: its ledger lacks calls .*--accept-ledger visits"
            ):
                opened_service(service_config(config))
            with pytest.raises(InvalidParameter, match="lacks calls"):
                opened_service(service_config(config), ["another"])
            assert ledger.exists() is (other is not None)  # a start that is refused makes none
    # The latest one is taken, and so is what the operator accepts; the audit log keeps that.
    ledger.write_bytes(lost)
    assert asked("eeeee") == []
    ledger.write_bytes(copy.read_bytes())
    [accepted] = asked("six or 6", ["visits"])
    assert (accepted.analyst, len(asked("seven or 7"))) == ("operator", 1)
    ledger.write_bytes(lost)
    with pytest.raises(InvalidParameter, match="lacks calls"):
        opened_service(service_config(config))
    ledger.unlink()
    opened_service(service_config(config), ["visits"]).close()
    opened_service(service_config(config)).close()  # as every process of several does, before anything is charged
    assert len(asked("eight or eight")) == 2
    assert len(asked("nine or nine or nine")) == 2


def test_a_ledger_that_moved_is_the_one_that_was_asked(config):
    config.write_text(CONFIG.replace("shares", "# shares"))
    service = opened_service(service_config(config))
    service.stopping = threading.Event()
    with listening(service) as address, client_of(address, token_of(service)) as client:
        call = {"kind": "release", "epsilon": "0.1", "query": {"kind": "count"}}
        for age in (20, 30):
            call["query"]["where"] = f"age < {age}"
            assert client.post("/v1/datasets/visits/calls", json=call).status_code == 200
    moved = config.with_name("moved.ledger")
    move(config.with_name("visits.csv.ledger"), moved)
    config.write_text(f'{config.read_text()}\nledger = "{moved}"\n')
    opened_service(service_config(config)).close()
