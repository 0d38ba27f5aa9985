"""The main job on the built-in data."""

import json

from chary.cli import run
from chary.ledger import SqlLedger


def test_demo_tells_its_story_and_keeps_its_budget_and_can_be_played_again_for_people(tmp_path, capsys):
    assert run(["demo", "--output", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["seconds"] < 30
    assert figures["calls"] == 60
    assert 0 < figures["spent"]["share"] <= 1
    assert figures["plain_composition"] > 3
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    ledger = SqlLedger(tmp_path / "panel.ledger")
    assert ledger.verify().ok
    states = [str(call.state) for call in ledger.calls("panel.people")]
    ledger.close()
    assert states.count("reserved") == 1
    assert "one zper" in figures["statement"]
    assert run(["demo", "--output", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "interrupted" in told
    assert "plain composition" in told
