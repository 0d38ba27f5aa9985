"""New rows, and a ledger that remembers under which terms it was opened."""

import duckdb
import pandas as pd
import pytest

import chary
from chary import Budget, InvalidParameter, LedgerMismatch, SchemaMismatch, count
from chary.amounts import Amount
from chary.ledger import open_ledger
from tests.session.kit import (
    CLINICS,
    NO_NOISE,
    PLENTY,
    SECRET_NAME,
    SECRET_NUMBER,
    error_texts,
    recorded,
    shows_data,
    spent,
    visits,
)

NEW = pd.DataFrame(
    {"patient": [7, 8], "clinic": ["east", "west"], "age": [90, 91], "cost": [1.0, 2.0], "note": ["a", "b"]}
)


def test_appended_rows_are_counted_afterwards(opened, place):
    session = opened(ledger=place, budget=NO_NOISE)
    assert session.release(count("age >= 90"), epsilon=PLENTY).value == 0
    before = spent(session)
    assert session.append(NEW) == 1
    assert session.append(NEW.assign(patient=[9, 9])) == 2
    assert spent(session) == before
    assert session.release(count("age >= 90"), epsilon=PLENTY).value == 3
    assert session.release(count(), epsilon=PLENTY).value == 54


def test_appended_rows_reach_watches_that_were_prepared_before(opened):
    session = opened(budget=NO_NOISE)
    query = count("age >= 90").by("clinic", [*CLINICS, "west"])
    assert session.release_if(query, above=1, epsilon=PLENTY).hits == 0
    session.append(NEW)
    assert session.release_if(query, above=1, epsilon=PLENTY).above == {("east",): 1, ("west",): 1}


def test_how_many_rows_came_is_not_recorded(opened):
    session = opened()
    session.append(NEW)
    entry = list(session.spine.ledger.export("data"))[-1]
    assert (entry["kind"], entry["label"], entry["body"]) == ("note", "append", "{}")


@pytest.mark.parametrize(
    "rows",
    [
        NEW.drop(columns="note"),
        NEW.assign(extra=1),
        NEW.assign(age=["x", SECRET_NAME]),
        NEW.assign(patient=[SECRET_NAME, "b"]),
        NEW.rename(columns={"age": "Age "}),
        NEW.assign(note=[SECRET_NUMBER, 1]),
    ],
    ids=["missing", "more", "text", "unit", "renamed", "number"],
)
def test_rows_of_another_schema_change_nothing(opened, rows):
    session = opened(budget=NO_NOISE)
    with pytest.raises(SchemaMismatch) as refusal:
        session.append(rows)
    assert not shows_data(error_texts(refusal.value))
    assert session.spine.ledger.version("data") == 0
    assert session.release(count(), epsilon=PLENTY).value == 51


def test_reopening_keeps_what_was_spent(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    first = opened(ledger=path)
    first.release(count(), epsilon="0.1")
    charged, history, said = spent(first), first.history, first.statement()
    first.close()
    for options in ({}, {"budget": None}, {"filter": "renyi"}, {"rows": visits().head(5)}):
        again = opened(ledger=path, **options)
        assert (spent(again), again.history, again.statement()) == (charged, history, said)
        again.close()


def test_appending_leaves_the_ledger_open_to_the_dataset(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    first = opened(ledger=path)
    first.append(NEW)
    first.close()
    assert opened(ledger=path).spine.ledger.version("data") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"budget": Budget(epsilon=2, delta=1e-6)},
        {"budget": Budget(epsilon=1, delta=1e-5)},
        {"budget": Budget(epsilon=1)},
        {"privacy_unit": None},
        {"privacy_unit": "note"},
        {"neighbors": "replace"},
        {"rows": visits().drop(columns="cost")},
        {"rows": visits().assign(age=1.5)},
        {"filter": "pure"},
        {"filter": "exact", "grain": "0.02"},
    ],
    ids=["epsilon", "delta", "pure", "rows", "unit", "neighbors", "column", "type", "filter", "exact"],
)
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_other_terms_do_not_open_the_ledger(opened, tmp_path, kind, other):
    ledger = open_ledger(":memory:" if kind == "memory" else tmp_path / "visits.ledger")
    first = opened(ledger=ledger)
    first.release(count(), epsilon="0.1")
    charged = spent(first)
    with pytest.raises(LedgerMismatch) as refusal:
        opened(ledger=ledger, **other)
    assert not shows_data(error_texts(refusal.value))
    assert spent(first) == charged


@pytest.mark.parametrize("other", [{"grain": "0.04"}, {"delta_reserve": "2e-7"}])
def test_another_grain_or_part_set_aside_does_not_open_the_ledger(opened, other):
    ledger = open_ledger(":memory:")
    given = {"filter": "exact", "grain": "0.02"} if "grain" in other else {"delta_reserve": "1e-7"}
    recorded(opened(ledger=ledger, **given))
    opened(ledger=ledger, **given)
    with pytest.raises(LedgerMismatch):
        opened(ledger=ledger, **(given | other))


def test_a_new_ledger_needs_a_budget_and_leaves_no_file(opened, tmp_path):
    path = tmp_path / "visits.ledger"
    with pytest.raises(InvalidParameter) as refusal:
        opened(ledger=path, budget=None)
    assert "budget" in str(refusal.value)
    assert not path.exists()


def test_several_datasets_live_in_one_ledger(opened, tmp_path):
    ledger = open_ledger(tmp_path / "all.ledger")
    visits_session = opened(ledger=ledger, dataset="visits")
    trips = opened(ledger=ledger, dataset="trips", budget=Budget(epsilon=3))
    trips.release(count(), epsilon="0.5")
    assert spent(visits_session).main == 0
    assert trips.spent.charged == 0.5
    assert visits_session.history == []


def test_a_session_closes_what_it_opened(tmp_path):
    path = tmp_path / "visits.ledger"
    with chary.open(visits(), privacy_unit="patient", ledger=path, budget=Budget(epsilon=1)) as session:
        session.release(count(), epsilon="0.1")
    with pytest.raises(chary.LedgerError):
        session.release(count(), epsilon="0.1")
    with pytest.raises(chary.LedgerError):
        _ = session.spent
    session.close()


@pytest.mark.parametrize(
    "options",
    [
        {"privacy_unit": "nobody"},
        {"privacy_unit": ""},
        {"privacy_unit": 5},
        {"neighbors": "both"},
        {"neighbors": "bounded_change"},
        {"filter": "best"},
        {"filter": "exact"},
        {"filter": "exact", "grain": "0.02", "budget": Budget(epsilon=1)},
        {"filter": "exact", "grain": 10},
        {"filter": "renyi", "budget": Budget(epsilon=1)},
        {"grain": 0},
        {"grain": float("nan")},
        {"budget": 1.0},
        {"budget": "1"},
        {"dataset": "a\0b"},
        {"rows": "nowhere.csv"},
        {"rows": 5},
    ],
    ids=str,
)
def test_bad_openings_are_refused(opened, options):
    with pytest.raises(chary.InvalidInput) as refusal:
        opened(**options)
    assert not shows_data(error_texts(refusal.value))


def test_a_csv_without_its_columns_is_refused_without_showing_a_line(opened, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(f"1,{SECRET_NUMBER}\n2,3,{SECRET_NAME}\n")
    with pytest.raises(chary.InvalidInput) as refusal:
        opened(rows=path)
    assert not shows_data(error_texts(refusal.value))


def test_a_second_dataset_in_a_ledger_must_be_named(tmp_path):
    """Otherwise a renamed file would quietly get a budget of its own."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("patient\n1\n2\n")
    common = {"privacy_unit": "patient", "ledger": tmp_path / "l.ledger", "budget": Budget(epsilon=1)}
    recorded(chary.open([tmp_path / "a.csv", tmp_path / "b.csv"], **common)).close()
    chary.open([tmp_path / "b.csv", tmp_path / "a.csv"], **common).close()
    with pytest.raises(LedgerMismatch, match="'a'"):
        chary.open(tmp_path / "b.csv", **common)
    chary.open(tmp_path / "b.csv", dataset="a", **common).close()
    chary.open(tmp_path / "b.csv", dataset="b", **common).close()


def test_a_refused_opening_lets_go_of_the_rows(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table t as select 1 as patient")
    common = {"table": "t", "privacy_unit": "patient", "ledger": tmp_path / "l.ledger"}
    recorded(chary.open(path, budget=Budget(epsilon=1), **common)).close()
    with pytest.raises(LedgerMismatch):
        chary.open(path, budget=Budget(epsilon=2), **common)
    duckdb.connect(str(path)).close()


OPENED_ONCE = {"neighbors": "replace", "budget": Budget(epsilon=1)}


@pytest.mark.parametrize("other", [{"neighbors": "add_remove"}, {"budget": Budget(epsilon=1, delta=1e-6)}])
def test_a_ledger_that_was_never_asked_may_go(opened, tmp_path, other):
    path = tmp_path / "visits.ledger"
    recorded(opened(ledger=path, **(OPENED_ONCE | other))).close()
    with pytest.raises(LedgerMismatch, match=r"ever asked or charged in this ledger.*delete its file") as told:
        opened(ledger=path, **OPENED_ONCE)
    assert "fingerprint" not in str(told.value)
    assert "neighbors" not in other or 'relation is "add/remove" in the ledger, not "replace";' in str(told.value)
    path.unlink()
    opened(ledger=path, **OPENED_ONCE).close()


def test_a_ledger_with_a_free_answer_stays(opened, tmp_path):
    """Its charge is 0, and it is an answer: under a second budget it would be as good as a second charge."""
    path, visited = tmp_path / "visits.ledger", {"dataset": "visits"}
    first = opened(ledger=path, **visited)
    assert not first.test(count(), above=10**6, epsilon="0.01")
    assert spent(first) == Amount(0)
    recorded(opened(ledger=path, dataset="other")).close()
    with pytest.raises(LedgerMismatch, match=r'relation is "add/remove" in the ledger, not "replace"$'):
        opened(ledger=path, neighbors="replace", **visited)
    with pytest.raises(LedgerMismatch, match=r"asked of 'other' or charged: .* take another ledger file$"):
        opened(ledger=path, dataset="other", neighbors="replace")
