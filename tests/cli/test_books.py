"""`chary ledger head|backup|verify` and `--checkpoint`: what is told, and the exit codes."""

import json
import os
import sqlite3

import pytest

from chary.cli import run
from chary.ledger import Head

ASK = "test {} --unit patient_id --columns= --budget-epsilon 1 --budget-delta 1e-6 --count --above 10 --epsilon 0.01"


@pytest.fixture
def ledger(call, visits):
    assert call(ASK.format(visits))[0] == 0
    return f"{visits}.ledger"


def test_a_head_is_printed_and_asked_for_later(call, visits, ledger):
    code, out, _ = call(f"ledger head {ledger}")
    head = Head.parse(out.strip())
    assert code == 0
    figures = json.loads(call(f"ledger head {ledger} --json")[1])
    assert figures == {"head": str(head), "hash": head.hash, "entries": head.entries}
    assert call(ASK.format(visits))[0] == 0
    assert call(f"ledger verify {ledger} --head {head}")[0] == 0
    code, out, _ = call(f"ledger verify {ledger} --head {head.hash}:{head.entries + 1} --json")
    verdict = json.loads(out)
    assert (code, verdict["ok"]) == (2, False)
    assert verdict["problems"] == [
        f"it does not hold entry {head.entries + 1} with that hash: it is an older copy, or another ledger"
    ]
    assert call(f"ledger verify {ledger} --head 12")[0] == 2


def test_a_backup_is_a_ledger_and_replaces_nothing(call, visits, ledger, tmp_path):
    copy = tmp_path / "copy.ledger"
    head = call(f"ledger head {ledger}")[1]
    assert call(f"ledger backup {ledger} {copy}") == (0, head, "")
    assert call(f"ledger verify {copy} --head {head.strip()}")[0] == 0
    code, _, err = call(f"ledger backup {ledger} {copy}")
    assert code == 2
    assert "already" in err
    assert call(f"ledger backup {tmp_path}/none.ledger {copy}")[0] == 2


def test_a_checkpoint_refuses_an_old_copy(call, visits, ledger, tmp_path):
    checkpoint = tmp_path / "elsewhere"
    assert call(f"{ASK.format(visits)} --checkpoint {checkpoint}")[0] == 2
    assert call(f"ledger head {ledger} --checkpoint {checkpoint}")[0] == 0
    with open(ledger, "rb") as file:
        old = file.read()
    assert call(f"{ASK.format(visits)} --checkpoint {checkpoint}")[0] == 0
    with open(ledger, "wb") as file:
        file.write(old)
    code, _, err = call(f"{ASK.format(visits)} --checkpoint {checkpoint}")
    assert code == 2
    assert "older or another copy" in err


@pytest.mark.parametrize("json_", [False, True])
def test_whatever_is_damaged_gives_exit_code_2_and_its_problem(call, ledger, json_):
    more = " --json" if json_ else ""
    # One bit of an index: nothing that an opening reads, and no row.
    with sqlite3.connect(ledger) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'calls_of_dataset'").fetchone()[0]
    with open(ledger, "r+b") as file:
        file.seek(root * size - 3)
        byte = file.read(1)
        file.seek(root * size - 3)
        file.write(bytes([byte[0] ^ 1]))
    code, out, _ = call(f"ledger verify {ledger}{more}")
    assert code == 2
    assert "calls_of_dataset" in out
    os.truncate(ledger, 5000)
    code, out, _ = call(f"ledger verify {ledger}{more}")
    assert code == 2
    assert json.loads(out)["ok"] is False if json_ else "0 entries: nothing could be verified" in out


def test_a_file_that_cannot_be_used_gives_exit_code_2(capsys, monkeypatch):
    def refuse(*_given, **_named):
        raise PermissionError(13, "Permission denied", "x.ledger")

    monkeypatch.setattr("chary.cli.ledger.open_ledger", refuse)
    monkeypatch.setattr("pathlib.Path.exists", lambda _path: True)
    assert run(["ledger", "verify", "x.ledger", "--json"]) == 2
    assert "Permission denied x.ledger" in capsys.readouterr().err
