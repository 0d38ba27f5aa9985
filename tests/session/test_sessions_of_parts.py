"""A session that reads some parts of a partition alone: what it is charged, what it is told is left, and what it may go
on with."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from chary import Budget, count
from chary.calls import OnChange, Release, SparseVector
from chary.calls.run import run_of
from chary.cli import run
from chary.errors import BudgetExceeded, InvalidQuery, NotWithheld, RequestConflict
from chary.ledger import Parts
from chary.report import report
from chary.session.session import Session

NORTH, SOUTH, BOTH = (Parts("clinic", 1, names) for names in (("north",), ("south",), ("north", "south")))
ONE = Release(count(), epsilon="0.4")


@pytest.fixture
def of_parts(opened):
    """A session of all rows, and how one of some parts is made of it."""
    whole = opened(budget=Budget(epsilon=1))
    return whole, lambda parts: Session(replace(whole.spine, parts=parts))


def test_each_part_is_charged_its_own_and_the_dearest_counts(of_parts):
    whole, of = of_parts
    of(NORTH).ask(ONE)
    of(NORTH).ask(ONE)
    of(SOUTH).ask(ONE)
    assert [each.share for each in (whole.spent, of(NORTH).spent, of(SOUTH).spent)] == [0.8, 0.8, 0.4]
    assert [round(each.remaining.share, 9) for each in (whole, of(NORTH), of(SOUTH))] == [0.2, 0.2, 0.6]
    assert [whole.spine.ledger.call(entry.call).parts for entry in whole.history] == [NORTH, NORTH, SOUTH]


def test_quotes_and_refusals_are_about_the_part(of_parts):
    whole, of = of_parts
    of(NORTH).ask(ONE)
    of(NORTH).ask(ONE)
    told = [
        (session.quote(ONE).fits, session.quote(ONE).hits_left) for session in (whole, of(NORTH), of(SOUTH), of(BOTH))
    ]
    assert told == [(False, 0), (False, 0), (True, 2), (False, 0)]
    with pytest.raises(BudgetExceeded, match=r"20 % is left.*epsilon=0.2 would fit"):
        of(NORTH).ask(ONE)
    with pytest.raises(BudgetExceeded, match="100 % is left"):
        of(SOUTH).ask(Release(count(), epsilon="1.1"))
    of(SOUTH).ask(ONE)


def test_an_analyst_s_quota_counts_the_dearest_part(of_parts):
    whole, of = of_parts
    whole.set_quota(whole.spine.analyst, Fraction(1, 2))
    for parts in (NORTH, SOUTH):
        of(parts).ask(ONE)
        assert round(of(parts).remaining.share, 9) == 0.1
    for session in (whole, of(SOUTH)):
        with pytest.raises(BudgetExceeded):
            session.ask(ONE)


def test_a_plan_may_name_its_parts(of_parts):
    whole, _ = of_parts
    plan = replace(ONE.plan(whole.spine), parts=BOTH)
    whole.spine.perform(plan)
    assert {name: str(amount) for name, amount in whole.spine.ledger.partitions("data")[0].parts.items()} == {
        "north": "400000000000000 (delta 0)",
        "south": "400000000000000 (delta 0)",
    }


def test_the_same_question_elsewhere_is_another_one(of_parts):
    whole, of = of_parts
    first = of(NORTH).ask(ONE, request="monday")
    assert of(NORTH).ask(ONE, request="monday") == first
    for session in (whole, of(SOUTH)):
        with pytest.raises(RequestConflict):
            session.ask(ONE, request="monday")
    assert whole.spent.share == 0.4


def test_what_is_tracked_is_tracked_for_each_part(of_parts):
    whole, of = of_parts
    track = OnChange(count(), step=1, epsilon="0.1")
    of(NORTH).ask(track)
    of(SOUTH).ask(track)
    kept = whole.spine.ledger.last_settled("data", "track", track.plan(whole.spine).body, SOUTH)
    assert kept.number == whole.history[-1].call


@pytest.mark.parametrize("where", [None, NORTH])
def test_a_run_goes_on_only_where_it_was_opened(opened, where):
    """It was paid by the units there: asked about other rows, they would pay nothing."""
    whole = opened(budget=Budget(epsilon=8, delta=1e-6))
    run = Session(replace(whole.spine, parts=where)).start(SparseVector(above=30, epsilon=2, hits=1))
    charged = whole.spent
    for other in {None, NORTH, SOUTH, BOTH} - {where}:
        elsewhere = Session(replace(whole.spine, parts=other))
        with pytest.raises(NotWithheld, match=f"call {run.call} opened a run of"):
            elsewhere.resume(run.call)
        # Nor does the transaction, whoever made the run.
        moved = run_of(run.kind)(elsewhere.spine, run.call, run._terms)
        with pytest.raises(InvalidQuery, match=f"call {run.call} keeps what was read of .*: ask it where"):
            moved.ask(count())
    assert whole.spent == charged
    run.ask(count())
    assert whole.spine.ledger.verify().ok


def test_statement_report_and_books_tell_what_each_part_holds(opened, tmp_path, capsys):
    path = tmp_path / "visits.ledger"
    whole = opened(privacy_unit="patient", budget=Budget(epsilon=1), ledger=path)
    for parts, epsilon in ((NORTH, "0.4"), (SOUTH, "0.3"), (BOTH, "0.1"), (None, "0.2")):
        Session(replace(whole.spine, parts=parts)).ask(Release(count(), epsilon=epsilon))
    said = whole.statement()
    assert "70 % of this budget is charged so far" in said
    shares = "of the parts of 'clinic' the most expensive counts, since a unit is in no more: north 50 %, south 40 %"
    assert shares in said
    told = report(whole)
    found = told.datasets[0]
    assert [round(share, 9) for _, share in found.steps] == [0.4, 0.4, 0.5, 0.7]
    assert [call.question.rpartition(",")[2] for call in found.calls[:3]] == [
        " in north of clinic",
        " in south of clinic",
        " in north and south of clinic",
    ]
    for page in (told.html(), told.markdown()):
        assert "north 50 %" in page.replace("\\", "")
    run(["ledger", "show", str(path)])
    shown = capsys.readouterr().out
    assert re.search("north .* 50 %", shown)
    assert "analysts of" not in shown
    run(["ledger", "show", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)[0]
    assert found["partitions"] == [
        {"partition": "clinic", "most": 1, "spent": 0.5, "parts": {"north": 0.5, "south": 0.4}}
    ]
    assert found["analysts"] == [{"analyst": "analyst", "calls": 4, "charged": 0.7, "cap": None, "of_the_cap": None}]


def test_books_tell_what_each_analyst_holds(opened, tmp_path, capsys):
    path = tmp_path / "visits.ledger"
    whole = opened(privacy_unit="patient", budget=Budget(epsilon=1), ledger=path)
    for name, epsilon in (("ann", "0.4"), ("bob", "0.3"), ("ann", "0.1"), ("[/c]", "0.1")):
        Session(replace(whole.spine, analyst=name)).ask(Release(count(), epsilon=epsilon))
    whole.spine.ledger.set_quota(whole.spine.dataset, "bob", whole.spine.filter.shares.cap(Fraction(1, 2)))
    run(["ledger", "show", str(path)])
    shown = capsys.readouterr().out
    assert re.search("ann .* 2 .* 50 % .* -", shown)
    assert re.search("bob .* 1 .* 30 % .* 50 % .* 60 %", shown)
    assert re.search(r"\[/c\] .* 1 .* 10 %", shown)
    run(["ledger", "show", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)[0]["analysts"] == [
        {"analyst": "[/c]", "calls": 1, "charged": 0.1, "cap": None, "of_the_cap": None},
        {"analyst": "ann", "calls": 2, "charged": 0.5, "cap": None, "of_the_cap": None},
        {"analyst": "bob", "calls": 1, "charged": 0.3, "cap": 0.5, "of_the_cap": 0.6},
    ]


def test_a_cap_is_compared_in_its_own_account(opened, tmp_path, capsys):
    """Once free misses have ended every call counts its epsilon, but no cap does."""
    path = tmp_path / "visits.ledger"
    budget = {"budget": Budget(epsilon=1, delta=1e-6), "grain": "0.02"}
    whole = opened(privacy_unit="patient", ledger=path, **budget)
    bob = Session(replace(whole.spine, analyst="bob"))
    assert not any(bob.test(count(), above=10**6, epsilon="0.02") for _ in range(16))
    whole.spine.ledger.set_quota(whole.spine.dataset, "bob", whole.spine.filter.shares.cap(Fraction(1, 20)))
    whole.release(count(), epsilon="0.5")
    assert whole.spine.free_misses_ended
    run(["ledger", "show", str(path), "--json"])
    found = {each["analyst"]: each for each in json.loads(capsys.readouterr().out)[0]["analysts"]}
    assert found["bob"] == {
        "analyst": "bob",
        "calls": 16,
        "charged": 0.32,
        "cap": pytest.approx(0.05),
        "of_the_cap": 0.0,
    }
