"""Streams of entries with a limit on those of a unit, and the budget of a unit."""

import itertools
import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import chary
from chary import Budget, InvalidInput, InvalidParameter, LedgerMismatch, SchemaMismatch, count
from chary.session import entry_budget, unit_budget
from tests.session.kit import error_texts, recorded, shows_data, visits

WHOSE = {"privacy_unit": "patient", "neighbors": "replace", "entries_per_unit": 3, "dataset": "visits"}
# A million epsilon for each entry, without a delta that so much would leave nothing of.
PURE = Budget(epsilon=10**6)
NOBODY = visits().head(2).assign(patient=None).astype({"patient": "Int64"})


@pytest.fixture
def streamed(tmp_path):
    made = []

    def make(rows=None, **options):
        given = WHOSE | {"ledger": ":memory:", "budget": PURE} | options
        made.append(chary.open(visits() if rows is None else rows, **given))
        return made[-1]

    yield make
    for session in made:
        session.close()


def one_more(patient, times=1):
    return visits().head(1).assign(patient=patient).loc[[0] * times]


@pytest.mark.parametrize("kind", ["frame", "duckdb"])
def test_a_batch_beyond_the_limit_is_refused_whole(streamed, tmp_path, kind):
    options = {}
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "v.duckdb")) as connection:
            connection.register("rows", visits())
            connection.execute("CREATE TABLE v AS FROM rows")
        options = {"rows": tmp_path / "v.duckdb", "table": "v"}
    session = streamed(**options)
    assert session.append(one_more(777, 3)) == 2
    for batch in (one_more(777), pd.concat([one_more(1), one_more(2, 4)]), pd.concat([one_more(3), one_more(777)])):
        with pytest.raises(SchemaMismatch, match="more than 3 entries") as refusal:
            session.append(batch)
        assert not shows_data(error_texts(refusal.value))
        assert "777" not in str(refusal.value)
    assert (session.size, len(session.versions)) == (123, 2)
    assert session.release(count("patient = 777"), epsilon=1000).value == 3
    assert session.append(one_more(1)) == 3


def test_a_source_beyond_the_limit_is_not_opened(streamed):
    with pytest.raises(SchemaMismatch, match="more than 2 entries"):
        streamed(entries_per_unit=2)
    assert streamed(rows=visits().drop_duplicates("patient"), entries_per_unit=1).size == 51


def test_entries_of_nobody_are_units_of_their_own(streamed):
    session = streamed()
    for _ in range(3):
        session.append(NOBODY)
    assert session.size == 126


def test_the_ledger_holds_the_limit(streamed, tmp_path):
    options = {"ledger": tmp_path / "v.ledger", "budget": Budget(epsilon=3, delta=1e-6)}
    recorded(streamed(**options)).close()
    streamed(**options).close()
    others = [{"entries_per_unit": 4}, {"privacy_unit": "note", "entries_per_unit": 1000}]
    for other in [*others, {"budget": Budget(epsilon=1, delta=1e-6)}]:
        with pytest.raises(LedgerMismatch):
            streamed(**options, **other) if "budget" not in other else streamed(**(options | other))
    plain = {"privacy_unit": None, "neighbors": "replace", "dataset": "visits", "ledger": options["ledger"]}
    with pytest.raises(LedgerMismatch):
        chary.open(visits(), **plain)


def test_the_statement_tells_what_units_have(streamed):
    said = streamed(budget=Budget(epsilon=3, delta=1e-6)).statement()
    assert "one row replaced by any other" in said
    assert "at most 3 of which were let in, that is (3, 1e-06)-differential privacy" in said
    assert "let in" not in chary.open(visits(), privacy_unit=None, ledger=":memory:", budget=PURE).statement()


@pytest.mark.parametrize(
    "options",
    [
        {"entries_per_unit": 0},
        {"entries_per_unit": 1.5},
        {"privacy_unit": ""},
        {"privacy_unit": None},
        {"privacy_unit": "nobody"},
        {"neighbors": "add_remove"},
        {"budget": 1},
        {"budget": Budget(epsilon=10**4, delta=0.5), "entries_per_unit": 10},
    ],
    ids=str,
)
def test_bad_openings_are_refused(streamed, options):
    with pytest.raises(InvalidInput):
        streamed(**options)


@pytest.mark.parametrize(("epsilon", "delta", "most"), [(1, 0, 3), (1, "1e-6", 2), (0.1, 0.01, 7), (8, 1e-9, 40)])
def test_the_budget_of_an_entry_is_tight_for_its_unit(epsilon, delta, most):
    """The worst mechanism: c steps away each outcome loses e^epsilon' and delta' at every step."""
    entry = entry_budget(Budget(epsilon, delta), most)
    chance = Fraction(0)
    for _ in range(most):
        chance = chance * Fraction(math.exp(entry.epsilon)) + entry.delta
    assert entry.epsilon * most == Budget(epsilon).epsilon
    assert chance <= Fraction(delta)
    assert float(chance) == pytest.approx(float(Fraction(delta)), rel=1e-9)
    total, last = unit_budget(entry, most)
    assert (total, delta == 0 or last >= chance) == (Budget(epsilon).epsilon, True)
    assert float(last) == pytest.approx(float(Fraction(delta)), rel=1e-9)


def test_units_keep_their_epsilon_in_a_release():
    """Exact law: a count of entries released under the whole entry budget, between streams that differ in one unit."""
    most, unit_epsilon = 3, 1.2
    noise = chary.Budget(unit_epsilon)
    each = float(entry_budget(noise, most).epsilon)
    outcomes = np.arange(-60, 61)
    laws = {}
    for entries in itertools.product([0, 1], repeat=most):
        weights = np.exp(-each * np.abs(outcomes - sum(entries)))
        laws[entries] = weights / np.exp(-each * np.abs(np.arange(-2000, 2001))).sum()
    worst = max(np.max(np.abs(np.log(one / other))) for one in laws.values() for other in laws.values())
    assert 0.9 * unit_epsilon < worst <= unit_epsilon + 1e-9


def test_one_entry_each_is_the_budget_itself():
    assert entry_budget(Budget(epsilon=1, delta="1e-6"), 1) == Budget(epsilon=1, delta="1e-6")
    with pytest.raises(InvalidParameter):
        entry_budget(Budget(epsilon=1), 0)
