"""Sessions of parts: what they read, what they cost together, what of them is told again, and what they refuse."""

import math
from datetime import date

import pandas as pd
import pyarrow as pa
import pytest

import chary
from chary import Algorithm, Budget, count, histogram, mean, open_counts
from chary.calls import (
    ContinualCount,
    OnChange,
    Proportion,
    Quantile,
    RandomizedValues,
    Release,
    ReleaseAll,
    ReleaseIf,
    RunAlgorithm,
    SparseVector,
    Widen,
)
from chary.calls.history import History
from chary.data import NeighborRelation
from chary.data.engines.duckdb.engine import DuckDB
from chary.data.partition import Partition
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotWithheld, RequestConflict
from chary.report import report
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent, visits

MONTHS = [f"2026-{month:02}" for month in range(1, 13)]
ONE = Release(count(), epsilon="0.5")


def monthly(size=240):
    return pd.DataFrame({"month": [MONTHS[row % 12] for row in range(size)], "age": [row % 90 for row in range(size)]})


# What is read and what it costs


def test_twelve_months_cost_one(opened, place):
    session = opened(monthly(), privacy_unit=None, budget=Budget(epsilon=1), ledger=place)
    for month, part in session.partition("month", MONTHS).items():
        quoted = part.quote(ONE)
        answer = part.ask(ONE)
        assert quoted.most == answer.charged.amount, month
    assert session.spent.share == 0.5
    # Months that are named later are of the same partition.
    [later] = session.partition("month", ["2027-01"]).values()
    assert later.remaining.share == 1.0
    later.ask(ONE)
    assert session.spent.share == 0.5
    session.ask(Release(count(), epsilon="0.25"))
    assert (session.spent.share, later.remaining.share) == (0.75, 0.25)
    with pytest.raises(BudgetExceeded, match=r"25 % is left.*epsilon=0.25 would fit"):
        later.ask(ONE)


def test_what_is_asked_of_a_part_is_of_its_rows(opened):
    frame = monthly()
    session = opened(frame, privacy_unit=None, budget=NO_NOISE)
    part, mine = session.partition("month", MONTHS)["2026-03"], frame[frame["month"] == "2026-03"]
    assert part.release(count(), epsilon=PLENTY).value == len(mine)
    assert part.release(mean("age", bounds=(0, 90)), epsilon=PLENTY).value == pytest.approx(mine["age"].mean(), 0.01)
    asked = Quantile("age", 0.5, bounds=(0, 90), epsilon=PLENTY)
    assert part.ask(asked).value == mine["age"].quantile(interpolation="lower")
    seen = Algorithm("months", lambda rows, source: sorted(set(rows["month"].to_pylist())), epsilon=1)
    assert part.ask(RunAlgorithm(seen)).value == ["2026-03"]
    assert part.release(count().by("month", MONTHS), epsilon=PLENTY).value == {
        month: len(mine) * (month == "2026-03") for month in MONTHS
    }


def test_parts_by_conditions_and_by_days(opened):
    frame = pa.table({"day": [date(2026, 1, 1), date(2026, 1, 2), date(2026, 2, 1), None], "age": [5, 30, 70, 9]})
    session = opened(frame, privacy_unit=None, budget=NO_NOISE)
    ages = session.partition({"child": "age < 18", "adult": "age >= 18 AND age < 65", "old": "age >= 65"})
    assert {name: part.release(count(), epsilon=PLENTY).value for name, part in ages.items()} == {
        "child": 2,
        "adult": 1,
        "old": 1,
    }
    days = session.partition("day", ["2026-01-01", "2026-02-01"])
    assert [part.release(count(), epsilon=PLENTY).value for part in days.values()] == [1, 1]
    by_month = session.partition("date_trunc('month', day)", ["2026-01-01", "2026-02-01"])
    assert [part.release(count(), epsilon=PLENTY).value for part in by_month.values()] == [2, 1]
    assert session.spent.share == pytest.approx(3 * days["2026-01-01"].history[0].share)


@pytest.mark.parametrize(
    ("neighbors", "unit", "limits", "times"),
    [
        ("add_remove", None, {}, 1),
        ("replace", None, {}, 2),
        ("add_remove", "patient", {"max_parts_per_unit": 1}, 1),
        ("add_remove", "patient", {"max_parts_per_unit": 2}, 2),
        ("add_remove", "patient", {"assumed_parts_per_unit": 2}, 2),
        ("add_remove", "patient", {"assumed_parts_per_unit": 9}, 3),
        ("replace", "patient", {"max_parts_per_unit": 1}, 2),
        ("replace", "patient", {"assumed_parts_per_unit": 2}, 3),
    ],
)
def test_the_dearest_parts_count_as_often_as_neighbours_differ(opened, neighbors, unit, limits, times):
    session = opened(neighbors=neighbors, privacy_unit=unit, budget=Budget(epsilon=4))
    for clinic, epsilon in zip(CLINICS, ("0.4", "0.5", "0.3"), strict=True):
        session.partition("clinic", CLINICS, **limits)[clinic].ask(Release(count(), epsilon=epsilon))
    assert session.spent.charged == pytest.approx(sum(sorted([0.4, 0.5, 0.3])[-times:]))


def test_parts_by_the_unit_itself_need_no_limit(opened):
    session = opened(budget=Budget(epsilon=1))
    for part in session.partition({"few": "patient < 120", "more": "patient >= 120"}).values():
        part.ask(ONE)
    assert session.spent.share == 0.5


def test_a_missing_limit_is_told_with_what_each_leaves_out(opened):
    with pytest.raises(
        InvalidQuery, match=r"max_parts_per_unit=1, and .* leaves out its rows in all others. Or say assumed_parts"
    ):
        opened(budget=Budget(epsilon=1)).partition("clinic", CLINICS)


def test_another_partition_adds_its_own_dearest_part(opened):
    session = opened(monthly(), privacy_unit=None, budget=Budget(epsilon=2))
    for by in ("month", {"child": "age < 18", "adult": "age >= 18"}):
        names = MONTHS[:2] if by == "month" else None
        for part in session.partition(by, names).values():
            part.ask(ONE)
    assert session.spent.charged == pytest.approx(1.0)


# The first parts of a unit


def test_a_unit_counts_in_its_first_part_for_ever(opened):
    """Whatever comes later, and however parts are named and hashed: what came first stays first."""
    rows = pd.DataFrame({"patient": [1, 2, 3, 3], "clinic": ["south", "north", "east", "north"]})
    session = opened(rows, budget=NO_NOISE)

    def counted():
        parts = session.partition("clinic", CLINICS, max_parts_per_unit=1)
        return {clinic: part.release(count(), epsilon=PLENTY).value for clinic, part in parts.items()}

    assert counted() == {"north": 1, "south": 1, "east": 1}
    session.append(pd.DataFrame({"patient": [1, 2, 4, 4], "clinic": ["north", "east", "east", "south"]}))
    assert counted() == {"north": 1, "south": 1, "east": 2}
    session.append(pd.DataFrame({"patient": [1, 2, 3, 4], "clinic": ["east", "south", "south", "north"]}))
    assert counted() == {"north": 1, "south": 1, "east": 2}


@pytest.mark.parametrize("by", ["month(day)", {"winter": "month(day) < 4", "summer": "month(day) >= 4"}])
def test_first_parts_of_derived_columns_and_conditions(opened, by):
    days = [date(2026, 5, 1), date(2026, 1, 2), date(2026, 1, 3), date(2026, 5, 4)]
    session = opened(pa.table({"patient": [1, 1, 2, 2], "day": days}), budget=NO_NOISE)
    named = ([1, 5],) if isinstance(by, str) else ()
    parts = session.partition(by, *named, max_parts_per_unit=1)
    assert [part.release(count(), epsilon=PLENTY).value for part in parts.values()] == [1, 1]
    session.append(pa.table({"patient": [1, 2, 3], "day": [date(2027, 1, 1), date(2027, 5, 1), date(2027, 1, 1)]}))
    assert [part.release(count(), epsilon=PLENTY).value for part in parts.values()] == [2, 1]


def test_the_order_outlives_the_session(tmp_path):
    path, places = tmp_path / "visits.duckdb", {"ledger": tmp_path / "visits.ledger", "privacy_unit": "patient"}
    first = pa.table({"patient": [1, 2], "clinic": ["south", "north"]})
    DuckDB().store(path, "visits", first)
    for more in ([], [(1, "north"), (2, "south")], [(3, "south"), (3, "north")]):
        with chary.open(path, table="visits", budget=NO_NOISE, **places) as session:
            if more:
                session.append(pd.DataFrame(more, columns=["patient", "clinic"]))
            parts = session.partition("clinic", ["north", "south"], max_parts_per_unit=1)
            found = [part.release(count(), epsilon=PLENTY).value for part in parts.values()]
    assert found == [1, 2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_are_in_the_order_in_which_they_are_listed(tmp_path, kind):
    frames = [pd.DataFrame({"patient": [1], "clinic": ["south"]}), pd.DataFrame({"patient": [1], "clinic": ["north"]})]
    paths = [tmp_path / f"{name}.{kind}" for name in ("z", "a")]
    for frame, path in zip(frames, paths, strict=True):
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    texts = {"columns": {}} if kind == "csv" else {}
    with chary.open(paths, privacy_unit="patient", budget=NO_NOISE, ledger=":memory:", **texts) as session:
        parts = session.partition("clinic", ["north", "south"], max_parts_per_unit=1)
        assert [part.release(count(), epsilon=PLENTY).value for part in parts.values()] == [0, 1]
        session.append(pd.DataFrame({"patient": ["2", "2"] if kind == "csv" else [2, 2], "clinic": ["north", "south"]}))
        assert [part.release(count(), epsilon=PLENTY).value for part in parts.values()] == [1, 1]


def test_a_folder_has_no_order(tmp_path):
    """A file that comes later may be the first by name at the next opening."""
    pd.DataFrame({"patient": [1], "clinic": ["south"]}).to_parquet(tmp_path / "b.parquet")
    with chary.open(tmp_path, privacy_unit="patient", budget=NO_NOISE, ledger=":memory:") as session:
        with pytest.raises(InvalidQuery, match="assumed_parts_per_unit=1"):
            session.partition("clinic", ["north", "south"], max_parts_per_unit=1)
        session.partition("clinic", ["north", "south"], assumed_parts_per_unit=1)


# Whole tiny sessions of neighbours: the exact law of all that is told


def outcomes(frame, later, limits, unit, neighbors):
    """What each call reads and its epsilon, and what was charged: a part, all rows, the rows after an append."""
    told = []
    with chary.open(
        frame, privacy_unit=unit, neighbors=neighbors, budget=Budget(epsilon=9), ledger=":memory:"
    ) as whole:
        for more in (None, later):
            if more is not None and len(more):
                whole.append(more)
            parts = whole.partition("g", ["a", "b", "c"], **limits)
            for asked, epsilon in ((whole, "0.1"), *((part, "0.5") for part in parts.values())):
                asked.release(count(), epsilon=epsilon)
                told.append((asked.spine.rows.prepare(count()).run(), float(epsilon)))
        return told, whole.spent.charged


def lost(here, there):
    """The worst log-ratio of geometric noise on all counts."""
    return sum(epsilon * abs(one - other) for (one, epsilon), (other, _) in zip(here, there, strict=True))


TURNED = {"a": "b", "b": "c", "c": "a"}
STREAMS = [
    ([("a", 1), ("b", 2)], [("c", 3)], [("a", 4)]),
    ([("a", 1), ("b", 2)], [("b", 3), ("c", 3)], [("a", 3), ("c", 1)]),
    ([("b", 1)], [("a", 2), ("b", 2), ("c", 2)], [("c", 2), ("b", 3)]),
    ([("c", 1), ("a", 1)], [("b", 1)], [("a", 9), ("b", 9)]),
]


@pytest.mark.parametrize("stream", range(len(STREAMS)))
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("most", [1, 2])
def test_no_session_of_neighbours_loses_more_than_was_charged(stream, neighbors, most):
    """Counts have geometric noise, whose worst log-ratio is epsilon times the change: it adds up over the calls.

    Each unit is taken out of each stream, or another one put in its place, with rows before and after an append; the
    loss of the whole session is held to what the ledger counts as spent.
    """
    first, *batches = STREAMS[stream]
    rows, later = [*first, *batches[0]], batches[1]
    units = sorted({unit for _, unit in [*rows, *later]})

    def frames(changed):
        pairs = [pd.DataFrame([row for row in map(changed, some) if row], columns=["g", "u"]) for some in (rows, later)]
        return [pair.astype({"g": object, "u": "int64"}) for pair in pairs]

    limits = {"max_parts_per_unit": most}
    here, charged = outcomes(*frames(lambda row: row), limits, "u", neighbors)
    worst = 0.0
    for gone in units:
        if neighbors == "add_remove":
            neighbours = [lambda row, gone=gone: None if row[1] == gone else row]
        else:
            neighbours = [lambda row, gone=gone: (TURNED[row[0]], 99) if row[1] == gone else row]
        for changed in neighbours:
            there, same = outcomes(*frames(changed), limits, "u", neighbors)
            assert same == charged
            worst = max(worst, lost(here, there))
    assert 0 < worst <= charged + 1e-9


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_no_session_of_rows_loses_more_than_was_charged(neighbors):
    rows = pd.DataFrame({"g": ["a", "b", "b", None, "z"], "u": range(5)})
    here, charged = outcomes(rows, rows[:0], {}, None, neighbors)
    worst = 0.0
    for gone in range(5):
        moved = [[other if at == gone else value for at, value in enumerate(rows["g"])] for other in [*"abc", None]]
        changed = [rows.drop(gone)] if neighbors == "add_remove" else [rows.assign(g=groups) for groups in moved]
        for there in changed:
            worst = max(worst, lost(here, outcomes(there, rows[:0], {}, None, neighbors)[0]))
    assert 0 < worst <= charged + 1e-9


# Told again


def test_a_key_belongs_to_the_part_that_it_was_asked_of(opened, place):
    session = opened(privacy_unit=None, ledger=place)
    parts = session.partition("clinic", CLINICS)
    first = parts["north"].ask(Release(count(), epsilon="0.1"), request="monday")
    paid = spent(session)
    assert parts["north"].ask(Release(count(), epsilon="0.1"), request="monday") == first
    assert (
        session.partition("clinic", ["north"])["north"].ask(Release(count(), epsilon="0.1"), request="monday") == first
    )
    assert spent(session) == paid
    for other in (session, parts["south"]):
        with pytest.raises(RequestConflict):
            other.ask(Release(count(), epsilon="0.1"), request="monday")
    whole = session.ask(Release(count(), epsilon="0.1"), request="tuesday")
    with pytest.raises(RequestConflict):
        parts["north"].ask(Release(count(), epsilon="0.1"), request="tuesday")
    assert session.ask(Release(count(), epsilon="0.1"), request="tuesday") == whole


def test_bodies_outside_of_parts_are_what_they_were(opened):
    session = opened(privacy_unit=None)
    session.ask(ONE)
    session.partition("clinic", CLINICS)["north"].ask(ONE)
    whole, part = session.spine.ledger.calls("data")
    assert (whole.body, whole.parts) == (part.body, None)
    assert part.parts is not None
    assert part.parts.names == ("north",)


def test_what_changed_is_compared_within_the_part(opened):
    """The answer that was kept for the whole is none of the part's."""
    session = opened(privacy_unit=None, budget=NO_NOISE)
    asked = OnChange(count(), step=1, epsilon=PLENTY)
    assert session.ask(asked).value == 120
    part = session.partition("clinic", CLINICS)["north"]
    there = part.ask(asked)
    assert (there.value, there.hit) == ((visits()["clinic"] == "north").sum(), True)
    assert [part.ask(asked).hit, session.ask(asked).hit] == [False, False]


def test_history_and_report_name_the_part(opened, tmp_path):
    session = opened(privacy_unit=None, ledger=tmp_path / "visits.ledger")
    session.ask(ONE)
    session.partition("clinic", CLINICS)["north"].ask(Release(mean("age", bounds=(0, 99)), epsilon="0.1"))
    assert [entry.question.get("partition") for entry in session.history] == [
        None,
        {"of": "clinic", "part": ["north"]},
    ]
    [_, stored] = session.spine.ledger.calls("data")
    assert History(session.spine).rebuilt(stored).answer.value is not None
    told = [call.question for call in report(session).datasets[0].calls]
    assert "clinic" not in told[0]
    assert told[1].endswith(", in north of clinic")


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_answers_of_a_part_are_rebuilt_from_the_ledger(opened, neighbors):
    session = opened(privacy_unit=None, neighbors=neighbors)
    part = session.partition("clinic", CLINICS)["north"]
    asked = [
        Release(mean("age", bounds=(0, 99), missing=0), epsilon="0.1"),
        ReleaseAll([count(), count("age > 50")], epsilon="0.1"),
        Quantile("age", [0.5, 0.9], bounds=(0, 99), epsilon="0.1"),
    ]
    answers = [part.ask(call) for call in asked]
    rebuilt = [History(session.spine).rebuilt(call).answer for call in session.spine.ledger.calls("data")]
    assert rebuilt == answers


# Runs and what is withheld


def test_a_run_stays_where_it_was_opened(opened, place):
    session = opened(privacy_unit=None, ledger=place)
    parts = session.partition("clinic", CLINICS)
    run = parts["north"].start(SparseVector(above=5, hits=2, epsilon="0.1"))
    run.ask(count())
    assert [each.call for each in parts["north"].runs] == [run.call]
    assert parts["south"].runs == session.runs == []
    assert parts["north"].resume(run.call).call == run.call
    for other in (session, parts["south"]):
        with pytest.raises(NotWithheld, match="part north"):
            other.resume(run.call)
    whole = session.start(SparseVector(above=5, hits=2, epsilon="0.1"))
    with pytest.raises(NotWithheld, match="all rows"):
        parts["north"].resume(whole.call)


def test_what_a_part_withholds_is_widened_there(opened):
    session = opened(privacy_unit=None)
    part = session.partition("clinic", CLINICS)["north"]
    held = part.ask(ReleaseIf(count(), above=10_000, epsilon="0.01"))
    with pytest.raises(InvalidQuery, match="ask it where that call was made"):
        session.ask(Widen(held.held, above=9_000))
    part.ask(Widen(held.held, above=9_000))


def test_a_run_of_a_part_follows_appends(opened):
    session = opened(privacy_unit=None, budget=NO_NOISE)
    part = session.partition("clinic", CLINICS)["north"]
    run = part.start(ContinualCount(count(), steps=9, epsilon=PLENTY), follow=True)
    before = run.state.step if hasattr(run.state, "step") else None
    frame = visits()
    session.append(frame[frame["clinic"] == "south"])
    session.append(frame[frame["clinic"] == "north"])
    told = run.answers if hasattr(run, "answers") else None
    assert before is None or run.state.step == before + 2
    assert told is None or told[-1].value == 2 * (frame["clinic"] == "north").sum()


# Where units are replaced


def test_a_replaced_unit_may_leave_a_part(opened):
    """So nothing that takes the number of rows for public is answered there."""
    session = opened(privacy_unit=None, neighbors="replace")
    part = session.partition("clinic", CLINICS)["north"]
    assert session.size == 120
    with pytest.raises(InvalidQuery, match="secret"):
        part.size  # noqa: B018 - it is what is refused
    for call in (
        Proportion("age > 50", epsilon="0.1"),
        RandomizedValues(condition="age > 50", epsilon="0.1"),
        RunAlgorithm(Algorithm("size", lambda rows, source: rows.num_rows, epsilon=1)),
    ):
        with pytest.raises(InvalidQuery):
            part.ask(call)
    assert spent(session).main == 0


def test_counts_released_together_move_where_a_replaced_row_leaves(opened):
    """Of all rows one knows how many there are; of a part one does not."""
    session = opened(privacy_unit=None, neighbors="replace")
    part = session.partition("clinic", CLINICS)["north"]
    asked = ReleaseAll([count(), count("age > 50")], epsilon="0.1")
    bars = [[each.error_bar for each in where.ask(asked).parts] for where in (session, part)]
    assert bars[1][0] == pytest.approx(2 * bars[0][0], rel=0.2)


# Refusals


@pytest.mark.parametrize(
    ("terms", "limits", "told"),
    [
        (("clinic", CLINICS), {}, "max_parts_per_unit=1"),
        (("clinic", CLINICS), {"max_parts_per_unit": 1, "assumed_parts_per_unit": 1}, "not both"),
        (("clinic",), {"max_parts_per_unit": 1}, "list the public values"),
        (("ward", ["a"]), {"max_parts_per_unit": 1}, "ward"),
        (("clinic", ["north", "north"]), {"max_parts_per_unit": 1}, "duplicates"),
        (("clinic", [1]), {"max_parts_per_unit": 1}, "no part of it is 1"),
        (("cost", [1]), {"max_parts_per_unit": 1}, "cost"),
        (("clinic", []), {"max_parts_per_unit": 1}, "must not be empty"),
        (({"a": "age < 18", "b": "age < 20"},), {"max_parts_per_unit": 1}, "exclude one another"),
        (({"a": "age < 18", "b": "clinic = 'north'"},), {"max_parts_per_unit": 1}, "exclude one another"),
        (({"a": "clinic LIKE 'n%'", "b": "clinic LIKE 's%'"},), {"max_parts_per_unit": 1}, "exclude one another"),
        (({"a": "age < 9007199254740996", "b": "NOT (age < 9007199254740996.0)"},), {}, "exclude one another"),
        (({"a": "age < 18"}, ["a"]), {"max_parts_per_unit": 1}, "conditions alone"),
        (({"": "age < 18"},), {"max_parts_per_unit": 1}, "name each condition"),
        (("clinic", CLINICS), {"max_parts_per_unit": 0}, "max_parts_per_unit"),
    ],
)
def test_refusals(opened, terms, limits, told):
    session = opened()
    with pytest.raises((InvalidQuery, InvalidParameter), match=told):
        session.partition(*terms, **limits)
    assert session.history == []


def test_two_spellings_of_a_moment_are_one_part():
    schema, near = {"at": "timestamp"}, NeighborRelation("add_remove", None)
    made = Partition.of("at", ["2026-01-01 10:00"], schema, near)
    assert [part.name for part in made.parts.values()] == ["2026-01-01T10:00:00"]
    with pytest.raises(InvalidQuery, match="one value"):
        Partition.of("at", ["2026-01-01 10:00", "2026-01-01T10:00:00"], schema, near)


def test_only_whole_tables_are_divided(opened):
    session = opened(privacy_unit=None)
    part = session.partition("clinic", CLINICS)["north"]
    with pytest.raises(InvalidQuery, match="a part has no parts"):
        part.partition("age", [44])
    with pytest.raises(InvalidParameter, match="append rows in the session that was divided"):
        part.append(visits())
    values = pd.DataFrame({"value": [1, 2, 3]})
    counts = open_counts(values, column="value", sensitivity=1, budget=Budget(epsilon=1), ledger=":memory:")
    with counts, pytest.raises(InvalidQuery, match="rows of a table"):
        counts.partition("value", [1])


def test_a_closed_part_leaves_the_session_open(opened):
    session = opened(privacy_unit=None, budget=NO_NOISE)
    with session.partition("clinic", CLINICS)["north"] as part:
        part.release(histogram("age", bins=[0, 50, 100]), epsilon=1)
    assert math.isclose(session.release(count(), epsilon=PLENTY).value, 120)
