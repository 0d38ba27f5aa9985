"""`chary audit`: the table, the figures, and what it is told to audit."""

import json

import pytest

from chary.audit import Audited
from chary.audit import auditor as all_kinds
from chary.cli import run
from chary.cli.app import BAD_INPUT, OK


def test_it_shows_what_was_claimed_beside_what_was_shown(capsys):
    assert run(["audit", "label", "majority"]) == OK
    told = capsys.readouterr().out
    assert "caught" in told
    assert "Nothing was shown against any claim." in told


def test_its_figures_are_those_of_the_findings(capsys):
    assert run(["audit", "label", "--json"]) == OK
    [found] = json.loads(capsys.readouterr().out)["audits"]
    assert found["kind"] == "label"
    assert found["exact"]
    assert found["measured"] <= found["claimed"] == 1 < found["power"]


@pytest.mark.parametrize("words", [[], ["label", "--all"], ["no such kind"], ["label", "--transcripts", "1"]])
def test_it_must_be_told_what_to_audit(words, capsys):
    assert run(["audit", *words]) == BAD_INPUT
    assert capsys.readouterr().err


def test_a_broken_kind_is_named_and_is_no_success(monkeypatch, capsys):
    broken = Audited("label", 1.0, 0.0, 1.5, None, True, "an outcome", 0, 0.0)
    monkeypatch.setattr(all_kinds, "audit_case", lambda case, **options: broken)
    assert run(["audit", "label"]) == BAD_INPUT
    assert "Less private than claimed: label" in capsys.readouterr().out


def test_what_would_not_be_caught_is_said(monkeypatch, capsys):
    weak = Audited("label", 1.0, 0.0, 0.5, 0.9, False, "an outcome", 10, 0.0)
    monkeypatch.setattr(all_kinds, "audit_case", lambda case, **options: weak)
    assert run(["audit", "label"]) == OK
    assert "not caught" in capsys.readouterr().out
