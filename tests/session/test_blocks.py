"""Budgets that renew: what each block is charged and told, what is refused, and alerts that never end."""

import gc
import json
import random
import weakref
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction

import pyarrow as pa
import pytest

import chary
from chary import Algorithm, Blocks, Budget, Session, count
from chary.calls import Alert, IndividualTests, Release, ReleaseIf, RunAlgorithm, SparseVector
from chary.data import blocks as periods
from chary.errors import (
    BudgetExceeded,
    InvalidParameter,
    InvalidQuery,
    LedgerMismatch,
    NotWithheld,
    OwnerWarning,
    RequestConflict,
)
from chary.filters import RenyiFilter
from chary.ledger import open_ledger
from chary.noise import Seeded
from chary.session.session import unit_budget
from tests.session.kit import NO_NOISE, PLENTY, USUAL, sessions

MONTHLY = Blocks("day", every="month", since="2024-01")
ONE = Release(count(), epsilon="0.5")


def loads(*days, home=1, kwh=9.0):
    """A row for each day."""
    return pa.table(
        {
            "home": pa.array([home] * len(days), pa.int64()),
            "day": pa.array([None if day is None else date.fromisoformat(day) for day in days], pa.date32()),
            "kwh": pa.array([kwh] * len(days), pa.float64()),
        }
    )


ROWS = pa.concat_tables(
    [
        loads("2023-12-31", "2024-01-10", "2024-01-11", "2024-02-10", None),
        loads("2024-02-20", "2024-03-05", home=2, kwh=4.0),
        loads("2024-04-01", home=3),
    ]
)


@pytest.fixture
def clock(monkeypatch):
    """Sets what day it is."""

    def at(day):
        monkeypatch.setattr(periods, "now", lambda: datetime.fromisoformat(day))

    at("2024-03-15T12:00:00")
    return at


@pytest.fixture
def opened(clock):
    with sessions(privacy_unit="home", blocks=MONTHLY) as make:
        yield lambda rows=ROWS, **options: make(rows, **options)


# What is read, and what it costs where


def test_each_block_is_charged_what_reads_it(opened, place):
    session = opened(budget=Budget(epsilon=1), ledger=place)
    assert session.ask(ONE).charged.share == 0.5
    session.blocks("2024-02", "2024-02").ask(Release(count(), epsilon="0.25"))
    assert session.spent_by_block == {"2024-01": 0.5, "2024-02": 0.75, "2024-03": 0.5}
    assert (session.spent.share, session.remaining.share) == (0.75, 0.25)
    assert session.blocks("2024-01", "2024-01").remaining.share == 0.5
    # A block that is spent refuses what reads it and nothing else.
    with pytest.raises(BudgetExceeded, match="25 % is left"):
        session.ask(ONE)
    session.blocks(until="2024-01").ask(ONE)
    with pytest.raises(BudgetExceeded):
        session.blocks("2024-01", "2024-02").ask(Release(count(), epsilon="0.01"))
    session.blocks(since="2024-03").ask(ONE)
    assert {call.parts.partition for call in session.spine.ledger.calls("data")} == {"date_trunc('month', day)"}
    assert session.spine.ledger.verify().ok


def test_any_calls_are_charged_exactly_and_never_beyond_a_block(opened, clock, place):
    """A call is admitted exactly if it fits into every block that it reads, whatever came before."""
    session, drawn = opened(budget=Budget(epsilon=1), ledger=place), random.Random(7)
    clock("2024-06-30")
    held = {name: Fraction(0) for name in session.spine.blocks.all()}
    for _ in range(60):
        first, last = sorted(drawn.choices(list(held), k=2))
        epsilon = drawn.choice([Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)])
        read = [name for name in held if first <= name <= last]
        fits = all(held[name] + epsilon <= 1 for name in read)
        asked = session.blocks(first, last)
        assert asked.quote(Release(count(), epsilon=epsilon)).fits == fits
        with nullcontext() if fits else pytest.raises(BudgetExceeded):
            asked.ask(Release(count(), epsilon=epsilon))
        held |= {name: held[name] + epsilon for name in read if fits}
        assert {name: Fraction(share) for name, share in session.spent_by_block.items()} == held
        assert asked.remaining.share == 1 - max(held[name] for name in read)
    assert session.spent.share == 1 == max(held.values())
    assert session.spine.ledger.verify().ok


def test_what_is_asked_is_of_the_rows_of_these_blocks(opened):
    session = opened(budget=NO_NOISE)

    def told(session, asked):
        return session.release(asked, epsilon=PLENTY).value

    kwh = chary.sum("kwh", bounds=(0, 10), max_rows_per_unit=1)
    # Rows before the first block, of the future and without a day are in none; a home in two months is one home.
    assert told(session, count()) == 2
    assert told(session, kwh) == 9 + 9 + 4 + 4
    assert told(session.blocks("2024-01", "2024-01"), kwh) == 9
    assert told(session.blocks("2024-02", "2024-03"), count("kwh > 5")) == 1
    assert told(session.blocks("2024-02", "2024-02"), count(without="kwh > 5")) == 1
    assert told(session, count().by("home", [1, 2, 3])) == {1: 1, 2: 1, 3: 0}
    assert told(session.blocks("2024-03-31", "2024-03-31"), count()) == 1


def test_a_day_later_there_is_one_block_more(opened, clock):
    session = opened(budget=NO_NOISE)
    first = session.blocks()
    clock("2024-04-01")
    assert session.release(count(), epsilon=PLENTY).value == 3
    assert first.release(count(), epsilon=PLENTY).value == 2
    assert list(session.spent_by_block) == ["2024-01", "2024-02", "2024-03", "2024-04"]
    assert repr(session).startswith("Session('data', blocks 2024-01 to 2024-04, ")


@pytest.mark.parametrize(
    ("every", "since", "names"),
    [
        ("day", "2024-02-28", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("week", "2023-12-31", ["2023-W52", "2024-W01"]),
        ("quarter", "2023-12", ["2023-Q4", "2024-Q1"]),
        ("year", date(2022, 5, 1), ["2022", "2023", "2024"]),
        ("month", "2023-Q4", ["2023-10", "2023-11", "2023-12"]),
    ],
)
def test_blocks_are_named_in_the_order_of_time(clock, every, since, names):
    rule = Blocks("day", every=every, since=since)
    assert rule == Blocks("day", every=every, since=names[0])
    assert list(rule.all()[: len(names)]) == names
    assert list(rule.all()) == sorted(rule.all())
    assert rule.between(names[1], names[1]) == (names[1],)
    assert Blocks.of_body(json.loads(json.dumps(rule.body()))) == rule


# What holds for whom


def test_the_statement_says_what_holds_for_whom(opened):
    session = opened()
    session.ask(ReleaseIf(count(), above=50, hits=20))
    said = session.statement()
    assert "With all rows of one home in one month added or removed" in said
    assert "in the most expensive month, since each has all of it for itself" in said
    twelve = [chary.numbers.plain(part) for part in unit_budget(USUAL, 12)]
    assert f"a group of so many, of 2 by (2, 3.71828e-06), of 12 by ({twelve[0]}, {twelve[1]})" in said
    quoted = session.quote(ONE)
    assert quoted.block == quoted.as_dict()["block"] == "2024-01"
    assert "Of the blocks that it reads, 2024-01 has the least budget left" in str(quoted)
    assert "block" not in session.blocks("2024-02", "2024-02").quote(ONE).as_dict()
    # Of an alert, which is opened for nothing, the blocks of its window count, whichever has least left now.
    assert session.quote(Alert(count(), above=500, hits=20, window="7 days")).block is None
    session.blocks("2024-02", "2024-02").ask(ONE)
    assert ": 2024-02 " in session.statement()
    assert " 0 %" not in session.statement()


def test_no_basic_account_ends_all_blocks(opened):
    """What one block has spent never ends free misses of the others."""
    session = opened(budget=Budget(epsilon=1, delta=1e-6))
    january = session.blocks("2024-01", "2024-01")
    while january.quote(Release(count(), epsilon="0.05")).fits:
        january.release(count(), epsilon="0.05")
    assert isinstance(session.spine.filter, RenyiFilter)
    assert not session.spine.accounts().alone
    assert session.blocks("2024-02", "2024-02").quote(ReleaseIf(count(), above=50, hits=20)).price_if_miss == 0
    assert session.blocks("2024-02", "2024-02").remaining.share == 1.0


def test_replaced_units_may_come_or_go(opened):
    session = opened(neighbors="replace", privacy_unit=None)
    with pytest.raises(InvalidQuery):
        _ = session.size
    assert [version.size for version in session.versions] == []
    session.append(loads("2024-03-01"))
    assert [version.size for version in session.versions] == [None]
    assert "in one month replaced by any other, removed or added" in session.statement()


# What is kept


def test_a_kept_secret_stays_with_its_blocks(opened, clock):
    session = opened(unsafe_noise=Seeded(1), budget=NO_NOISE)
    run = session.blocks("2024-01", "2024-01").start(SparseVector(above=50, epsilon=1, hits=1))
    whole = session.start(SparseVector(above=50, epsilon=1, hits=1))
    clock("2024-05-01")
    for call, blocks in [(run.call, {"2024-01"}), (whole.call, {"2024-01", "2024-02", "2024-03"})]:
        session.resume(call).ask(count())
        [*_, asked] = session.spine.ledger.calls("data")
        assert set(asked.parts.names) == blocks
    with pytest.raises(NotWithheld, match="the session of that"):
        session.blocks("2024-02", "2024-02").resume(run.call)
    assert {open_.call for open_ in session.runs} == {run.call, whole.call}
    assert [open_.call for open_ in session.blocks("2024-01", "2024-01").runs] == [run.call]


def test_a_request_is_the_same_question_next_month(opened, clock):
    session = opened()
    first = session.ask(ONE, request="monday")
    clock("2024-04-02")
    assert session.ask(ONE, request="monday") == first
    with pytest.raises(RequestConflict):
        session.blocks("2024-01", "2024-01").ask(ONE, request="monday")


def test_a_key_whose_call_broke_is_charged_anew_next_month(opened, clock):
    session = opened()

    def broken(step):
        if step == "evaluated":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Session(replace(session.spine, on_step=broken)).ask(Release(count(), epsilon="0.25"), request="monday")
    clock("2024-04-02")
    answer = session.ask(Release(count(), epsilon="0.25"), request="monday")
    assert session.ask(Release(count(), epsilon="0.25"), request="monday") == answer
    spent = session.spent_by_block
    assert spent["2024-03"] == pytest.approx(2 * spent["2024-04"])
    assert spent["2024-04"] == answer.charged.share > 0


# What is refused


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("2024-04", None), "block 2024-04 is of the future"),
        (("2024-01", "2024-04"), r"of the future: ask session.blocks\('2024-01', '2024-03'\)"),
        (("2023-12", "2024-02"), r"before the first one: ask session.blocks\('2024-01', '2024-02'\)"),
        (("2024-03", "2024-02"), "no block is from 2024-03 to 2024-02"),
        ((None, "2023"), "no block|before the first"),
    ],
)
def test_blocks_that_are_not_there_are_refused(opened, asked, told):
    session = opened()
    with pytest.raises(InvalidQuery, match=told):
        session.blocks(*asked)
    assert session.spent.share == 0


def test_closed_blocks_are_refused(opened, clock):
    session = opened(blocks=Blocks("day", since="2024-01", kept=2), budget=NO_NOISE)
    assert session.release(count(), epsilon=PLENTY).value == 2
    assert session.spine.parts.names == ("2024-02", "2024-03")
    with pytest.raises(InvalidQuery, match=r"2024-01 is closed, since 2 are kept: ask session.blocks\('2024-02', '"):
        session.blocks("2024-01", "2024-02")
    clock("2024-04-15")
    assert session.spine.parts.names == ("2024-03", "2024-04")


def test_a_block_that_closes_is_read_no_more_by_whoever_has_its_session_or_a_run(opened, clock):
    session = opened(blocks=Blocks("day", since="2024-01", kept=2), budget=NO_NOISE)
    february = session.blocks("2024-02", "2024-02")
    run = february.start(SparseVector(above=1, hits=3, epsilon="0.1"))
    told = february.release(count(), epsilon=PLENTY, request="once")
    clock("2024-04-15")
    spent = session.spent_by_block
    for use in (lambda: february.release(count(), epsilon=1), lambda: run.ask(count())):
        with pytest.raises(InvalidQuery, match="block 2024-02 is closed, since 2 are kept"):
            use()
    assert february.release(count(), epsilon=PLENTY, request="once") == told
    assert session.spent_by_block == spent


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"column": ""}, "a column of days or times"),
        ({"every": "hour"}, "every is one of day, week"),
        ({"since": "soon"}, "since is a month or a day"),
        ({"since": "2024-13"}, "since is a month or a day"),
        ({}, "since is a month or a day"),
        ({"since": "2024", "kept": 0}, "kept"),
    ],
)
def test_rules_that_can_be_right_for_no_rows_are_refused(said, told):
    with pytest.raises(InvalidParameter, match=told):
        Blocks(**({"column": "day"} | said))


def test_blocks_need_a_first_one():
    with pytest.raises(InvalidParameter, match=r"since is a month or a day, such as since='2012-01'$"):
        Blocks("day")


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"blocks": Blocks("kwh", since="2024")}, InvalidParameter, "'kwh' is a float"),
        ({"blocks": Blocks("month", since="2024")}, InvalidParameter, "'month' is no column"),
        ({"blocks": "month"}, InvalidParameter, "blocks must be Blocks"),
        (
            {"blocks": Blocks("day", since="2024-04")},
            InvalidQuery,
            "the first block is 2024-04, and today's is 2024-03",
        ),
        ({"neighbors": "replace", "entries_per_unit": 9}, InvalidParameter, "leave it or blocks= out"),
    ],
)
def test_rules_that_these_rows_cannot_have_are_refused(opened, options, error, told):
    with pytest.raises(error, match=told):
        opened(**options)


def test_what_no_limit_makes_sound_is_refused(opened):
    session = opened(budget=NO_NOISE)
    seen = Algorithm("homes", lambda rows, source: len(rows), epsilon=1)
    with pytest.raises(InvalidQuery, match="Ask it of one block"):
        session.ask(RunAlgorithm(seen))
    assert session.blocks("2024-01", "2024-01").ask(RunAlgorithm(seen)).value == 2
    spent = session.spent_by_block
    with pytest.raises(InvalidQuery, match="ask a session of one block"):
        session.start(IndividualTests(epsilon=1, hits=2))
    assert session.spent_by_block == spent
    with pytest.raises(InvalidQuery, match="in blocks, which are their parts"):
        session.partition("home", [1, 2])
    with pytest.raises(InvalidParameter, match="append rows in the session that was divided"):
        session.blocks("2024-01", "2024-01").append(loads("2024-03-01"))
    with sessions(privacy_unit="home") as make, pytest.raises(InvalidQuery, match="does not renew"):
        make(ROWS).blocks()


# The rule is kept by the ledger


@pytest.fixture(params=["a file", "a server"])
def kept(request, tmp_path):
    """Where a ledger outlives its session."""
    if request.param == "a file":
        return tmp_path / "loads.ledger"
    return request.getfixturevalue("postgres").schema()


def test_the_rule_is_fixed_with_the_budget(opened, kept):
    with opened(ledger=kept) as session:
        session.blocks("2024-02", "2024-02").ask(ONE)
        spent = session.spent_by_block
    with opened(ledger=kept, blocks=None, budget=None) as again:
        assert again.spent_by_block == spent
        assert again.spine.blocks == MONTHLY
    for other in (Blocks("day", every="week", since="2024-01"), Blocks("day", since="2024-02")):
        with pytest.raises(LedgerMismatch, match="leave blocks= out"):
            opened(ledger=kept, blocks=other)
    ledger = open_ledger(kept)
    assert ledger.verify().ok
    ledger.close()


def test_what_is_stored_stays(opened, tmp_path):
    """Ledgers open for ever: the words of a rule, of what divides the rows, and of blocks."""
    with opened(
        ledger=tmp_path / "loads.ledger", blocks=Blocks("day", every="quarter", since="2023", kept=3)
    ) as session:
        session.ask(ONE)
        [terms], [call] = session.spine.ledger.datasets(), session.spine.ledger.calls("data")
        assert json.loads(terms.conditions)["blocks"] == {
            "column": "day",
            "every": "quarter",
            "since": "2023-Q1",
            "kept": 3,
        }
        assert (terms.basic, call.parts.text) == (
            0,
            '{"most":1,"names":["2023-Q3","2023-Q4","2024-Q1"],"partition":"date_trunc(\'quarter\', day)"}',
        )


def test_a_ledger_without_blocks_stays_without(opened, tmp_path):
    place = tmp_path / "loads.ledger"
    with opened(ledger=place, blocks=None) as session:
        session.ask(ONE)
        [terms] = session.spine.ledger.datasets()
        assert "blocks" not in terms.conditions
        assert session.spent_by_block == {}
    with pytest.raises(LedgerMismatch, match=r"one budget for all rows\. Leave blocks= out"):
        opened(ledger=place)


# Alerts: what they see at a time, and what that costs where


HIGH = count("kwh > 5")


def watching(window="2 months", **terms):
    return Alert(HIGH, **({"above": 100, "hits": 10, "window": window, "below_margin": True} | terms))


def asked_of(session):
    """Of each question the blocks that it was charged in."""
    return [call.parts.names for call in session.spine.ledger.calls("data", kinds=("alert_ask",))]


def test_a_window_is_charged_where_it_looks(opened, clock):
    rows = [loads(f"2024-0{month}-10", home=home) for month in range(1, 8) for home in range(5)]
    session = opened(pa.concat_tables(rows), budget=NO_NOISE)
    run = session.start(watching(above=3))
    assert run.ask(at="2024-03-10").changed
    quiet = session.start(watching(above=100))
    assert not quiet.ask(at="2024-01-20").changed
    assert not quiet.ask(at="2024-02-29").changed
    clock("2024-07-31")
    again = session.resume(run.call)
    told = again.ask(at="2024-07-10")
    assert (told.state, told.left.share) == ("active", 1.0)
    assert run.ask().state == "active"
    with pytest.raises(InvalidParameter, match="of the future"):
        run.ask(at="2024-08-01")
    with pytest.raises(InvalidQuery, match="no block is from 2024-01 to 2023-12"):
        run.ask(at="2023-12-31")
    with pytest.raises(InvalidQuery, match="start it in the session of all"):
        session.blocks("2024-06", "2024-07").start(watching())
    assert session.remaining.share < 1
    # A window of two months from the eleventh overlaps three; what is before the first block is cut off.
    assert asked_of(session) == [
        ("2024-01", "2024-02", "2024-03"),
        ("2024-01",),
        ("2024-01", "2024-02"),
        ("2024-05", "2024-06", "2024-07"),
        ("2024-06", "2024-07"),
    ]
    charged = {block for block, share in session.spent_by_block.items() if share}
    assert charged == {"2024-01", "2024-02", "2024-03"}
    assert {open_.call for open_ in session.runs} == {run.call, quiet.call}


def test_a_window_with_a_lag_needs_the_blocks_to_the_day_of_the_question(opened, clock):
    """Else it would be opened, and refused for ever once the first block is closed."""
    for lag, most in ((None, 7), ("1 day", 8), ("2 weeks", 21)):
        rule = {"every": "day", "since": "2024-01-01"}
        clock("2024-02-20")
        run = opened(blocks=Blocks("day", **rule, kept=most)).start(watching("7 days", lag=lag))
        assert run.ask().state == "quiet"
        with pytest.raises(InvalidParameter, match=f"overlaps up to {most} blocks, and {most - 1} are kept"):
            opened(blocks=Blocks("day", **rule, kept=most - 1)).start(watching("7 days", lag=lag))


def test_a_window_that_lags_behind_the_first_block_has_no_rows(opened, clock):
    rows = pa.concat_tables([loads("2024-01-01", home=home) for home in range(100)])
    session = opened(rows, blocks=Blocks("day", every="day", since="2024-01-01"), budget=NO_NOISE)
    clock("2024-01-01T12:00")
    asked = watching("1 day", above=50, lag="2 days")
    run = session.start(asked, follow=True)
    for day, active in (("01", False), ("02", False), ("03", True), ("04", False)):
        clock(f"2024-01-{day}T12:00")
        assert "hits" in str(session.quote(asked))
        assert run.ask().state == ("active" if active else "quiet")
    first = ("2024-01-01",)
    assert asked_of(session)[-4:] == [first, first, first, ("2024-01-02",)]
    with pytest.raises(InvalidParameter, match="of the future"):
        run.ask(at="2024-01-05")


@pytest.mark.parametrize(
    ("window", "lag", "at"), [("3 hours", "1 hour", "2024-01-01 06:00:00"), ("1 day", "1 day", "1990-01-01")]
)
def test_a_window_with_a_lag_reads_no_closed_block(opened, clock, window, lag, at):
    """Before the first block, or in its first hours, once that is closed."""
    rows = loads("2024-01-01", "2024-05-15")
    rows = rows.set_column(1, "day", rows["day"].cast(pa.timestamp("us")))
    session = opened(rows, blocks=Blocks("day", since="2024-01", kept=2), budget=NO_NOISE)
    clock("2024-05-15T12:00")
    run = session.start(watching(window, above=-4000, lag=lag))
    with pytest.raises(InvalidQuery, match="closed"):
        run.ask(at=at)
    assert session.spent.share == 0


def test_without_a_window_it_sees_all_blocks(opened, clock):
    session = opened(budget=NO_NOISE)
    run = session.start(watching(window=None))
    since = session.start(watching(window=None, since="2024-02-15"))
    clock("2024-05-02")
    run.ask(), since.ask()
    months = [f"2024-0{month}" for month in range(1, 6)]
    assert asked_of(session) == [tuple(months), tuple(months[1:])]
    other = session.start(watching(time="day", window="1 day"))
    other.ask()
    assert asked_of(session)[-1] == ("2024-05",)


@pytest.mark.parametrize(
    ("window", "every", "most"),
    [
        ("12 months", "month", 13),
        ("1 year", "year", 2),
        ("7 days", "week", 2),
        ("1 month", "day", 31),
        ("1 day", "month", 1),
    ],
)
def test_a_window_needs_the_blocks_that_it_overlaps(opened, window, every, most):
    rule = {"every": every, "since": "2020"}
    session = opened(blocks=Blocks("day", **rule, kept=most))
    session.start(watching(window))
    if most > 1:
        session = opened(blocks=Blocks("day", **rule, kept=most - 1))
        with pytest.raises(InvalidParameter, match=f"overlaps up to {most} blocks, and {most - 1} are kept"):
            session.start(watching(window))


def test_a_follower_asks_about_the_blocks_of_its_day():
    """Each version in the window that ended as it came, by the clock of the ledger."""
    with sessions(privacy_unit="home", blocks=Blocks("day", every="year", since="2024"), budget=NO_NOISE) as make:
        session = make(ROWS)
        session.start(watching("1 day"), follow=True)
        session.append(loads("2024-05-19"))
        today = periods.now()
        assert [names[-1] for names in asked_of(session)] == [f"{today.year}"] * 2
        assert all(len(names) <= 2 for names in asked_of(session))


def test_an_alert_over_a_year_never_ends(clock, tmp_path):
    """Twenty years of months, seven episodes more than a budget for life would buy, and no block beyond its own."""
    homes, hits = range(400), 6

    def batch(quarter):
        high = 380 if quarter % 8 in (2, 3) else 20
        first = date(2000 + quarter // 4, quarter % 4 * 3 + 1, 1)
        months = [first, *(periods.months_later(first, later) for later in (1, 2))]
        days = [month + timedelta(days=home % 28) for month in months for home in homes]
        kwh = [300.0 if home < high else 100.0 for _ in months for home in homes]
        return pa.table({"home": [*homes] * 3, "day": days, "kwh": kwh})

    rule = Blocks("day", every="month", since="2000-01")
    clock("2019-12-31")
    asked = {"above": 250, "clear_below": 150, "hits": hits, "window": "6 months"}
    with sessions(privacy_unit="home", blocks=rule, unsafe_noise=Seeded(4)) as make:
        session = make(batch(0), ledger=tmp_path / "loads.ledger")
        run = session.start(Alert(count("kwh >= 250"), **asked))
        for quarter in range(1, 80):
            session.append(batch(quarter))
            run.ask(at=periods.months_later(date(2000, 1, 31), 3 * quarter + 2))
        transitions, spent = run.state.transitions, session.spent_by_block
        # All of it together is more than one budget, and what counts is what the dearest month holds of it.
        assert run.spent.share == session.spent.share == pytest.approx(1 / hits)
        assert len(transitions) == 20 > 2 * hits
        assert len(spent) == 240
        assert 0 < max(spent.values()) <= 3 / hits + 1e-9
        assert session.spine.ledger.verify().ok


# What who owns the rows is told, and nobody else


def test_who_appends_is_told_of_rows_that_no_question_sees(opened, clock):
    session = opened(blocks=Blocks("day", since="2024-01", kept=2))
    for rows, unread in [
        (loads("2024-03-01", "2024-02-01"), 0),
        (loads("2024-01-31", "2024-03-31", "2024-04-01", None), 3),
        (loads("2023-12-01"), 1),
    ]:
        if not unread:
            session.append(rows)
            continue
        with pytest.warns(OwnerWarning, match=f"^{unread} of the rows appended are before the first block"):
            session.append(rows)
    assert all(set(json.loads(note.body)) <= {"size"} for note in session.spine.ledger.notes("data"))


@pytest.mark.filterwarnings("error::chary.errors.OwnerWarning")
def test_who_follows_is_asked_whatever_a_warning_about_rows_becomes(opened):
    """Here it is an error: an alert that was not asked then would tell of the rows."""
    session = opened()
    run = session.start(Alert(count(), above=900, hits=20), follow=True)
    with pytest.raises(OwnerWarning):
        session.append(loads("2023-12-01"))
    assert run.state.version == session.versions[-1].number


def test_texts_of_a_batch_are_read_as_those_of_the_rows(opened, tmp_path):
    first, later = tmp_path / "loads.csv", tmp_path / "later.csv"
    first.write_text("home;day;kwh\n1;2024-01-05;9\n")
    later.write_text("kwh;home;day\n9;1;2025-01-05\n9;2;2024-03-05\n9;2;soon\n")
    session = opened(first, columns={"day": "DATE", "kwh": "DOUBLE"}, csv=chary.CSVFormat(delimiter=";"))
    with pytest.warns(OwnerWarning, match="^2 of the rows"):
        session.append(later)


def test_caps_of_analysts_renew_too(opened):
    session = opened(budget=Budget(epsilon=1), analyst="ann")
    session.set_quota("ann", "0.5")
    january = session.blocks("2024-01", "2024-01")
    january.ask(ONE)
    with pytest.raises(BudgetExceeded, match="0 % is left in 2024-01"):
        january.ask(Release(count(), epsilon="0.1"))
    session.blocks("2024-02", "2024-02").ask(ONE)


@pytest.mark.parametrize("blocks", [None, MONTHLY])
@pytest.mark.parametrize("asked", ["nothing", "an alert"])
def test_rows_are_let_go_with_their_session(blocks, asked):
    """By the count of who uses them: a collector might run in a forked child, where no engine can be ended."""
    session = chary.open(ROWS, privacy_unit="home", budget=USUAL, ledger=":memory:", blocks=blocks)
    rows = weakref.ref(session.spine.rows.held)
    gc.disable()
    try:
        if asked == "an alert":
            session.append(ROWS)
            session.as_of(1).release(count("kwh > 2"), epsilon="0.25")
            run = session.start(watching(above=5, window=None if blocks is None else "2 months"), follow=True)
            run.ask()
            del run
        del session
        assert rows() is None
    finally:
        gc.enable()
