"""Private sketches of a session: one charge for a whole line of answers, growth under veils, elements by hand."""

import datetime
import itertools
import json
import math
from collections import defaultdict
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import chary
from chary import Blocks, BudgetExceeded, InvalidParameter, InvalidQuery, NotWithheld
from chary.accounting import Extendable, Pure
from chary.amounts import Amount
from chary.calls import DistinctSketch
from chary.calls.sketch import Line
from chary.data import NeighborRelation, Predicate, RowTable
from chary.data.queries.ordered import Elements
from chary.errors import EngineError
from chary.mechanisms import Distinct, Phantoms, words
from chary.noise import Seeded
from tests.mechanisms.sketch_laws import trajectories, within, worst
from tests.session.kit import NO_NOISE, USUAL, error_texts, spent

KEY = "0f" * 32
ROOMY = {"budget": USUAL, "grain": "0.02"}
FEW = {"epsilon": "0.02", "registers": 16}


def people(start, stop, ages=None):
    numbers = list(range(start, stop))
    return pa.table({"patient": numbers, "age": [20 + n % 60 for n in numbers] if ages is None else ages})


def line_of(session, sketch):
    return Line.load(session.spine.ledger.secret(sketch.call))


def reader(rows, asked, unit="patient", neighbors="add_remove"):
    return RowTable.open(rows, neighbor_relation=NeighborRelation(neighbors, unit)).elements(asked)


def read(rows, asked, **options):
    return sorted(reader(rows, asked, **options).run().words(KEY)[0].tolist())


def expected(values):
    return sorted(words(KEY, values).tolist())


def test_words_are_those_of_python():
    rows = pa.table(
        {
            "patient": [3, 1, 1, None, 7],
            "name": ["a", "b\x00", "é'\"", "lost", None],
            "well": [True, False, True, True, None],
        }
    )
    assert read(rows, Elements()) == expected([3, 1, 7])
    stated = {"assumed_groups_per_unit": 2}
    assert read(rows, Elements("name", **stated)) == expected(["a", "b\x00", "é'\""])
    assert read(rows, Elements("well", **stated)) == expected([True, False])
    assert read(rows, Elements("name"), unit=None) == expected(["a", "b\x00", "é'\"", "lost"])
    assert read(rows, Elements(where=Predicate.of("name = 'a' OR patient = 7"))) == expected([3, 7])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0.5, 0.25, 0.5, -0.0, 0.0]),
        pa.array([1.0, 2.0, float("nan"), 1.0, 3.0]),
        pa.array([datetime.date(2026, 1, day) for day in (1, 2, 3, 1, 1)]),
        pa.array([datetime.datetime(2026, 1, 1, 0, 0, 0, micro) for micro in (1, 2, 3, 1, 1)]),
        pa.array([2**64 - 1, 2**64 - 2, 0, 0, 0], pa.uint64()),
    ],
)
def test_other_types_have_one_word_for_each_value(column):
    found = read(pa.table({"v": column}), Elements(), unit="v")
    assert len(found) == len(set(found)) == 3


def test_values_that_cannot_be_told_apart_are_refused():
    with pytest.raises(InvalidQuery):
        reader(pa.table({"patient": [1], "v": [[1, 2]]}), Elements("v", assumed_groups_per_unit=1))
    with pytest.raises(InvalidQuery):
        reader(pa.table({"v": [1]}), Elements(), unit=None)


def test_at_most_so_many_values_of_a_unit_are_kept():
    rows = pa.table({"patient": [1, 1, 1, 2, 2, None], "v": [5, 9, 7, 9, 9, 1]})
    assert read(rows, Elements("v", max_groups_per_unit=1)) == expected([5, 9])
    assert read(rows, Elements("v", max_groups_per_unit=2)) == expected([5, 7, 9])
    assert read(rows, Elements("v", Predicate.of("v > 6"), max_groups_per_unit=1)) == expected([7, 9])


def test_what_is_kept_of_a_unit_depends_on_its_own_rows_only():
    generator = np.random.default_rng(1)
    rows = pa.table({"patient": generator.integers(0, 8, 120), "v": generator.integers(0, 200, 120)})
    whole = set(read(rows, Elements("v", max_groups_per_unit=3)))
    for unit in range(8):
        rest = rows.filter(pa.compute.not_equal(rows["patient"], unit))
        assert len(whole - set(read(rest, Elements("v", max_groups_per_unit=3)))) <= 3
        assert set(read(rest, Elements("v", max_groups_per_unit=3))) <= whole


@pytest.mark.parametrize(
    ("asked", "add_remove", "replace", "in_blocks"),
    [
        (Elements(), 1, 2, 2),
        (Elements("v", max_groups_per_unit=3), 3, 6, 3),
        (Elements("v", assumed_groups_per_unit=3), 6, 12, 6),
    ],
)
def test_arrivals_that_neighbours_can_differ_in(asked, add_remove, replace, in_blocks):
    assert asked.reach(NeighborRelation("add_remove", "patient")) == add_remove
    assert asked.reach(NeighborRelation("replace", "patient")) == replace
    # Without its rows of one block a unit comes later, by those of another.
    assert asked.reach(NeighborRelation("add_remove", "patient", block="month")) == in_blocks
    assert asked.reach(NeighborRelation("replace", "patient", block="month")) == 2 * in_blocks
    assert Elements.of_body(json.loads(json.dumps(asked.body()))) == asked


def test_an_earlier_arrival_of_a_shared_element_costs_twice():
    """By enumeration for one register: the law of (before, after) when an element comes earlier, against later."""
    phantoms, levels = 4, 12
    below = np.append(1 - 0.5 ** np.arange(2, levels), 1.0)

    def masses(count):
        return np.diff(np.append(0, below**count))

    def pairs(first, second):
        """P(p, max(p, b)) for p the maximum of `first` values and b that of `second`."""
        p, b = masses(first), masses(second)
        joint = np.triu(np.outer(p, b), 1)
        return joint + np.diag(p * np.cumsum(b))

    early, late = pairs(phantoms + 1, phantoms), pairs(phantoms, phantoms + 1)
    held = late > 0
    loss = np.abs(np.log(early[held] / late[held])).max()
    single = np.abs(np.log(masses(phantoms + 1) / masses(phantoms))).max()
    assert 1.3 * single < loss <= 2 * single


def test_a_unit_without_its_rows_of_one_block_is_hidden(opened):
    """By enumeration for one register, with the size that a session takes: early by one block, or late by another."""
    session = opened(
        people(0, 30).append_column("day", [[datetime.date(2024, 1, 1)] * 30]), blocks=Blocks("day", since="2024")
    )
    distinct = session.start(DistinctSketch(epsilon="0.2", registers=16)).state.distinct
    most = distinct.least + 12
    early, late = (
        trajectories([distinct.phantoms + one for one in arrived], distinct.least, most) for arrived in ([1, 0], [0, 1])
    )
    assert within(worst(early, late), Fraction("0.2"))
    assert not within(worst(early, late), Fraction("0.15"))


def test_only_new_rows_are_read_and_all_of_them(tmp_path):
    stored = tmp_path / "rows.parquet"
    pa.parquet.write_table(people(0, 50), stored)
    for source in (people(0, 50), str(stored)):
        table = RowTable.open(source, neighbor_relation=NeighborRelation("add_remove", "patient"))
        plan = table.elements(Elements())
        first, mark = plan.words(KEY)
        assert sorted(first) == expected(range(50))
        for start in (40, 60):
            table.append(people(start, start + 20))
            fresh, mark = plan.words(KEY, mark)
            assert sorted(fresh) == expected(range(start, start + 20))
        assert plan.words(KEY, mark)[0].size == 0
        assert sorted(plan.words(KEY)[0]) == expected(range(80))


def test_another_table_or_a_hidden_rowid_is_read_whole():
    rows = pa.table({"patient": [1, 2], "RowID": [7, 8]})
    table = RowTable.open(rows, neighbor_relation=NeighborRelation("add_remove", "patient"))
    plan = table.elements(Elements())
    mark = plan.words(KEY)[1]
    table.append(pa.table({"patient": [3], "RowID": [1]}))
    assert sorted(plan.words(KEY, mark)[0]) == expected([1, 2, 3])
    other = reader(people(0, 9), Elements())
    assert sorted(other.words(KEY, mark)[0]) == expected(range(9))


def test_rows_of_a_duckdb_file_are_read_whole(tmp_path):
    path = str(tmp_path / "rows.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE visits AS SELECT range AS patient FROM range(5)")
    table = RowTable.open(path, table="visits", neighbor_relation=NeighborRelation("add_remove", "patient"))
    plan = table.elements(Elements())
    mark = plan.words(KEY)[1]
    table.append(pa.table({"patient": [5]}))
    assert sorted(plan.words(KEY, mark)[0]) == expected(range(6))
    table.close()
    with pytest.raises(EngineError) as failed:
        plan.words(KEY)
    assert KEY not in error_texts(failed.value)


def test_an_estimate_is_near_the_number_and_says_how_near(opened):
    session = opened(people(0, 5000), budget=NO_NOISE, unsafe_noise=Seeded(1))
    found = session.start(DistinctSketch(epsilon=1, registers=4096)).ask()
    assert abs(found.value - 5000) < 3 * found.error_bar
    assert found.error_bar == session.start(DistinctSketch(epsilon=1, registers=4096)).state.error_bar(found.value)
    old = session.start(DistinctSketch("age >= 70", epsilon=1, registers=4096)).ask()
    assert abs(old.value - sum(20 + n % 60 >= 70 for n in range(5000))) < 3 * old.error_bar
    values = session.start(DistinctSketch(of="age", epsilon=12, registers=4096, assumed_groups_per_unit=1)).ask()
    assert abs(values.value - 60) < 3 * values.error_bar


def test_a_line_is_charged_once_when_it_first_publishes(opened, place):
    session = opened(people(0, 300), ledger=place, **ROOMY)
    price = session.spine.filter.price(Extendable("0.02"))
    assert price.free_miss
    sketch = session.start(DistinctSketch(**FEW))
    assert not sketch.ask(above=10**6).published
    assert not sketch.ask(above=10**7).published
    session.append(people(300, 400))
    assert not sketch.ask(above=10**6).published
    assert spent(session) == Amount(0)
    assert not sketch.state.paid
    assert sketch.ask(above=-1).published
    assert spent(session) == price.hit
    session.append(people(400, 500))
    assert sketch.ask().published
    assert not sketch.ask(above=10**6).published
    assert sketch.state.paid
    assert spent(session) == price.hit
    assert session.history[-1].tests == 0


def transcript(path, bars):
    """What is published of a register: nothing until it reaches its bar, then every later value, whatever its bar."""
    first = next((step for step, (value, bar) in enumerate(zip(path, bars, strict=True)) if value >= bar), len(path))
    return (None,) * first + path[first:]


@pytest.mark.parametrize("arrives", range(3))
def test_one_hit_pays_for_all_that_is_published_of_a_line(arrives):
    """By enumeration: the moment of the likelihood ratio, less the price of one hit, for every choice of three bars."""
    distinct, order = Distinct("0.1", 16), 5
    price = -math.log(math.exp((order - 1) * 0.1) * (1 + math.exp(0.1) - math.exp(order * 0.1)))
    most = distinct.least + 4
    paths = [
        trajectories([distinct.phantoms + (step == when) for step in range(3)], distinct.least, most)
        for when in (arrives, None)
    ]
    moments, unpaid = [], []
    for bars in itertools.product(range(distinct.least, most + 1, 2), repeat=3):
        laws = [defaultdict(float), defaultdict(float)]
        for law, path in zip(laws, paths, strict=True):
            for values, mass in path.items():
                law[transcript(values, bars)] += float(mass)
        for one, two in (laws, laws[::-1]):
            parts = {told: one[told] ** order * two[told] ** (1 - order) for told in one}
            unpaid.append(sum(parts.values()))
            moments.append(sum(part * math.exp(-price * (told[-1] is not None)) for told, part in parts.items()))
    assert max(moments) <= 1 + 1e-12
    assert max(unpaid) > 1.01


@pytest.mark.parametrize("options", [{"budget": chary.Budget(epsilon=1)}, {"budget": USUAL, "grain": "0.001"}])
def test_where_a_miss_is_paid_the_first_question_pays_for_the_line(opened, options):
    session = opened(people(0, 300), **options)
    price = session.spine.filter.price(Extendable("0.3"))
    if "grain" in options and price.free_miss:
        pytest.fail("the size should have no hit price")
    sketch = session.start(DistinctSketch(epsilon="0.3", registers=16))
    assert spent(session) == Amount(0)
    assert not sketch.ask(above=10**6).published
    assert spent(session) == price.miss
    assert sketch.ask(above=0).published
    assert spent(session) == price.miss


def test_the_exact_filter_takes_calls_up_to_twice_the_size(opened):
    session = opened(people(0, 300), budget=USUAL, filter="exact", grain="0.02")
    sketch = session.start(DistinctSketch(**FEW))
    sketch.ask()
    assert spent(session) == session.spine.filter.price(Extendable("0.02")).hit
    with pytest.raises(BudgetExceeded):
        session.start(DistinctSketch(epsilon="0.05", registers=16))


def test_a_hit_costs_no_less_than_a_release_so_that_units_that_come_later_are_paid(opened):
    filter_ = opened(**ROOMY).spine.filter
    for size in ("0.001", "0.01", "0.02"):
        assert filter_.price(Extendable(size)).hit.main >= filter_.price(Pure(size)).hit.main


def test_a_paid_line_can_be_asked_when_the_budget_is_gone(opened):
    session = opened(people(0, 300), budget=chary.Budget(epsilon="0.5"))
    sketch, late = (
        session.start(DistinctSketch(epsilon="0.5", registers=16)),
        session.start(DistinctSketch(epsilon="0.5", registers=16)),
    )
    sketch.ask()
    with pytest.raises(BudgetExceeded):
        late.ask()
    assert sketch.ask().published
    assert not late.state.paid


def test_an_outcome_of_a_state_that_moved_is_thrown_away(opened, tmp_path):
    """Two processes read the same growth under veils of their own: one veil stays, and one charge."""
    place = tmp_path / "shared.ledger"
    first = opened(people(0, 300), ledger=place, **ROOMY)
    sketch = first.start(DistinctSketch(**FEW))
    sketch.ask(above=10**9)
    published = []

    def interfere(step):
        if step == "evaluated" and not published:
            published.append(sketch.ask().value)

    second = opened(people(0, 300), ledger=place, budget=None, on_step=interfere)
    for session in (first, second):
        session.append(people(300, 900))
    assert second.resume(sketch.call).ask().value == published[0]
    assert len(line_of(second, sketch).sketch.veils) == 2
    assert spent(second) == first.spine.filter.price(Extendable("0.02")).hit


def test_growth_is_read_under_a_veil_and_only_growth(opened):
    session = opened(people(0, 300), **ROOMY)
    sketch = session.start(DistinctSketch(**FEW))
    sketch.ask(above=10**9)
    start = line_of(session, sketch)
    sketch.ask(above=10**8)
    assert line_of(session, sketch) == start
    assert len(start.sketch.veils) == 1
    session.append(people(300, 400))
    session.append(people(400, 500))
    sketch.ask(above=10**7)
    grown = line_of(session, sketch)
    assert len(grown.sketch.veils) == 2
    plain = start.sketch.add(range(500))
    assert all(now >= then for now, then in zip(grown.sketch.registers, plain.registers, strict=True))


def test_rows_appended_before_the_first_question_need_no_veil(opened):
    session = opened(people(0, 300), **ROOMY)
    sketch = session.start(DistinctSketch(**FEW))
    session.append(people(300, 400))
    sketch.ask(above=10**9)
    assert len(line_of(session, sketch).sketch.veils) == 1


def test_reading_new_rows_alone_is_reading_all_rows(opened, monkeypatch):
    session = opened(people(0, 300), **ROOMY)
    sketch = session.start(DistinctSketch(**FEW))
    sketch.ask(above=10**9)
    session.append(people(250, 900))
    monkeypatch.setattr(Phantoms, "veil", lambda self, source: self)
    before = line_of(session, sketch)
    sketch.ask(above=10**9)
    assert line_of(session, sketch).sketch == before.sketch.add(range(900))


def test_limited_values_are_read_once(opened):
    session = opened(people(0, 300), budget=NO_NOISE)
    sketch = session.start(DistinctSketch(of="age", epsilon=1, registers=16, max_groups_per_unit=1))
    first = sketch.ask()
    session.append(people(300, 3000, ages=list(range(1000, 3700))))
    assert sketch.ask().value == first.value


def test_bad_input_is_refused_before_anything_is_charged(opened):
    session = opened(people(0, 30), **ROOMY)
    wrong = [
        {"epsilon": "0.02", "registers": 1000},
        {"epsilon": "0.02", "registers": 2**17},
        {"epsilon": 0, "registers": 16},
        {"epsilon": "nan"},
        {"epsilon": "1e-15", "registers": 2**16},
        {"where": "height > 3", "epsilon": "0.02"},
        {"of": "height", "epsilon": "0.02", "assumed_groups_per_unit": 1},
        {"of": "age", "epsilon": "0.02"},
        {"of": "age", "epsilon": "0.02", "assumed_groups_per_unit": 0},
        {"of": "age", "epsilon": "0.02", "assumed_groups_per_unit": 1, "max_groups_per_unit": 1},
        {"epsilon": "0.02", "max_groups_per_unit": 1},
        {},
        {"call": 1, "epsilon": 1},
    ]
    for options in wrong:
        with pytest.raises((InvalidParameter, InvalidQuery)):
            session.start(DistinctSketch(**options))
    for number in (1, 99, -1):
        with pytest.raises(NotWithheld):
            session.resume(number)
    assert session.history == []
    sketch = session.start(DistinctSketch(**FEW))
    for bar in ("nan", True, None, "many"):
        with pytest.raises(InvalidParameter):
            sketch.ask(above=bar)
    assert len(session.history) == 1


def test_only_tables_are_sketched(opened):
    series = chary.open_counts(pa.table({"n": [1, 2]}), column="n", sensitivity=1, ledger=":memory:", budget=USUAL)
    with series, pytest.raises(InvalidQuery):
        series.start(DistinctSketch(epsilon="0.02"))


def test_an_engine_that_fails_keeps_the_charge_and_tells_nothing(opened):
    session = opened(people(0, 30), **ROOMY)
    sketch = session.start(DistinctSketch(**FEW))
    session.spine.rows.close()
    with pytest.raises(EngineError) as failed:
        sketch.ask()
    assert line_of(session, sketch).sketch.key not in error_texts(failed.value)
    assert spent(session) == session.spine.filter.price(Extendable("0.02")).hit


def test_a_unit_has_its_share_of_epsilon_for_each_element(opened):
    session = opened(people(0, 30), neighbors="replace", budget=NO_NOISE)
    sketch = session.start(DistinctSketch(of="age", epsilon=1, registers=16, assumed_groups_per_unit=2))
    assert sketch.state.distinct == Distinct(Fraction(1, 8), 16)
