"""Alerts: states that change once each way, what a change is charged, windows, groups, and that none is told twice."""

import math
import re
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, count
from chary.calls import Alert, AlertAnswer
from chary.calls.alerts import AlertMemory, span_of
from chary.core.plan import FREE, Data
from chary.errors import BudgetExceeded, NotPriced, RequestConflict
from chary.noise import Seeded
from chary.session import findings
from tests.session.kit import NO_NOISE, PUBLIC, USUAL, spent

HIGH = count("kwh >= 250")
ZONES = ["north", "south", "east"]
MONDAY = date(2024, 1, 1)


def load(high, *, low=0, week=0, zone="north"):
    """So many readings of 300 kWh and so many of 100 in one week."""
    days = [MONDAY + timedelta(days=7 * week + row % 7) for row in range(high + low)]
    kwh = [300.0] * high + [100.0] * low
    return pa.table({"kwh": pa.array(kwh, pa.float64()), "day": pa.array(days, pa.date32()), "zone": [zone] * len(kwh)})


@pytest.fixture
def metered(opened):
    """Opens a session on the readings of one week."""

    def make(high=0, low=10, **options):
        return opened(load(high, low=low), **(PUBLIC | options))

    return make


def weekly(**terms):
    """An alert on one week of readings."""
    return Alert(HIGH, **({"time": "day", "window": "7 days", "hits": 20} | terms))


def sunday(week):
    return MONDAY + timedelta(days=7 * week + 6)


def test_it_fires_once_and_clears_once_and_each_is_one_hit(metered):
    session = metered(budget=NO_NOISE)
    run = session.start(weekly(above=400, clear_below=300))
    assert spent(session).main == 0
    truths = [0, 390, 410, 500, 350, 310, 290, 350, 390, 410, 0]
    told = []
    for week, truth in enumerate(truths, 1):
        session.append(load(truth, week=week))
        told.append(run.ask(at=sunday(week)))
    assert [each.state for each in told] == ["quiet"] * 2 + ["active"] * 4 + ["quiet"] * 3 + ["active", "quiet"]
    assert [each.changed for each in told] == [week in (2, 6, 9, 10) for week in range(11)]
    assert [each.version for each in told] == list(range(2, 13))
    assert [each.value for each in told if each.changed] == [410, 290, 410, 0]
    assert [each.charged.share for each in told if each.changed] == pytest.approx([0.05] * 4)
    assert session.spent.share == pytest.approx(0.2)
    assert run.state.active is False
    assert run.state.results == told
    assert run.state.transitions == [each for each in told if each.changed]


def test_groups_have_states_of_their_own(metered):
    session = metered(budget=NO_NOISE)
    query = HIGH.by("zone", ZONES)
    run = session.start(Alert(query, above=400, clear_below=300, time="day", window="1 week", hits=20))
    story = {"north": [500, 350, 0], "south": [0, 410, 310], "east": [100, 390, 100]}
    told = []
    for week in range(1, 4):
        for zone in ZONES:
            session.append(load(story[zone][week - 1], week=week, zone=zone))
        told.append(run.ask(at=sunday(week)))
    assert [each.active for each in told] == [("north",), ("north", "south"), ("south",)]
    assert [dict(each.changed) for each in told] == [{("north",): 500}, {("south",): 410}, {("north",): 0}]
    assert told[1]["south"]["low"] <= 410 <= told[1]["south"]["high"]
    assert told[1]["north"]["value"] is None
    assert run.state.active == ("south",)


def test_it_halts_at_the_last_change_that_fits_and_the_rest_keep_their_states(metered):
    session = metered()
    session.append(pa.concat_tables([load(900, zone=zone) for zone in ZONES]))
    # Neighbours replace one row, so that two groups may differ, and two changes are charged.
    run = session.start(Alert(HIGH.by("zone", ZONES), above=400, price="0.6"))
    told = run.ask()
    assert (told.tested, told.active, told.value) == (
        1,
        ("north",),
        {"north": "active", "south": "quiet", "east": "quiet"},
    )
    assert session.spent.share == pytest.approx(0.6)
    with pytest.raises(BudgetExceeded):
        run.ask()
    assert run.state.active == ("north",)


def test_the_state_outlives_the_process_and_a_request_is_told_again(metered, tmp_path):
    place = tmp_path / "ledger.db"
    session = metered(900, budget=NO_NOISE, ledger=place)
    run = session.start(Alert(HIGH, above=400, clear_below=300, hits=20))
    told = run.ask(request="first")
    assert told.changed
    again = metered(900, budget=NO_NOISE, ledger=place)
    resumed = again.resume(run.call)
    assert resumed.state.active
    assert resumed.ask(request="first") == told
    assert not resumed.ask().changed
    assert resumed.spent.share == pytest.approx(0.05)


def test_an_outcome_on_a_state_that_moved_is_drawn_again(metered, tmp_path):
    """Two that ask at once: the second sees that it fired, and is charged nothing."""
    place = tmp_path / "ledger.db"
    first = metered(900, budget=NO_NOISE, ledger=place)
    run = first.start(Alert(HIGH, above=400, hits=20))
    other = metered(900, budget=NO_NOISE, ledger=place).resume(run.call)
    asked, told = [], []

    def between(step):
        if step == "ran" and not asked:
            asked.append(step)
            told.append(other.ask())

    object.__setattr__(first.spine, "on_step", between)
    late = run.ask()
    assert (told[0].state, told[0].changed) == ("active", True)
    assert (late.state, late.changed) == ("active", False)
    assert first.spent.share == pytest.approx(0.05)


def test_a_run_that_follows_looks_at_each_version_once(metered):
    session = metered(budget=NO_NOISE)
    run = session.start(Alert(HIGH, above=400, hits=20), follow=True)
    for high in (100, 200, 300):
        session.append(load(high))
    assert [told.version for told in run.state.results] == [1, 2, 3, 4]
    assert [told.state for told in run.state.results] == ["quiet", "quiet", "quiet", "active"]
    assert run.follow() == []


@pytest.mark.parametrize("size", [{"epsilon": "0.1"}, {"hits": 20}], ids=str)
@pytest.mark.parametrize("beyond", [-(2**63), 2**63, -(10**30), 10**30])
def test_thresholds_beyond_64_bits_are_as_far_as_they_are(metered, beyond, size):
    """One more reading never decides by itself, as it would where numbers wrapped around."""
    session = metered(unsafe_noise=Seeded(1))
    for near in (-12, -10, -1, 0, 1, 10, 12):
        run = session.start(Alert(count(), above=beyond + near, below_margin=True, **size))
        for values in (9, 10, 11):
            for held in ((), (0,)):
                seen = Data([np.array([values])], Seeded(1), None, None, FREE)
                _, changed, _ = run.law.step(seen.integers(), AlertMemory(0, held), seen)
                assert bool(changed) == ((beyond < 0) != bool(held)), (near, values)


@pytest.mark.parametrize("side", ["fires", "clears"])
@pytest.mark.parametrize("distance", [-12, 0, 7])
def test_both_sides_change_by_the_law_of_the_sharp_test(metered, side, distance):
    """Exactly the chances of its table, seen from either side: alpha 1e-6, and a test half as sharp is rejected."""
    session = metered()
    run = session.start(Alert(HIGH, above=100, clear_below=80, hits=4, below_margin=True))
    law, times = run.law, 4000
    truth = 100 + distance if side == "fires" else 79 - distance
    before = AlertMemory(0, () if side == "fires" else (0,))
    plan = run.plan()
    data = chary.core.plan.Data([np.full(1, truth)], Seeded(7), before.dump(), None, plan.price(session.spine.filter))
    hits = sum(plan.run(data).hits for _ in range(times))
    table = law.tests.tails.table
    chance, duller = (float(table.hit_chance(steps)) for steps in (distance, distance // 2))
    near = 5.1 * math.sqrt(times * chance * (1 - chance)) + 1
    assert abs(hits - times * chance) < near
    if distance == -12:
        assert abs(hits - times * duller) > near


def test_with_laplace_noise_the_value_is_that_which_was_tested(metered):
    session = metered(900, budget=NO_NOISE)
    run = session.start(Alert(HIGH, above=400, epsilon="0.5"))
    told = run.ask()
    assert told.changed
    assert told.error_bar is None
    low, high = told.interval
    assert low <= told.value <= high
    session.append(load(0))
    assert not run.ask().changed


def test_intervals_of_both_changes_cover_as_they_say(metered):
    """Values at the thresholds, where a hit is chosen for its noise, by Laplace noise and by sharp tests."""
    for terms in ({"epsilon": "0.05"}, {"price": "0.01"}):
        session = metered(budget=Budget(epsilon=10**4, delta="1e-6") if "epsilon" in terms else USUAL)
        run = session.start(Alert(HIGH, above=100, clear_below=100, below_margin=True, **terms))
        plan = run.plan()
        price = plan.price(session.spine.filter)
        for active, truth in ((False, 95), (True, 105)):
            source, kept, missed, seen = Seeded(3), AlertMemory(0, (0,) * active).dump(), 0, 0
            for _ in range(3000):
                ran = plan.run(chary.core.plan.Data([np.full(1, truth)], source, kept, None, price))
                if ran.hits:
                    low, high = plan.present(ran.answer, 9).interval
                    seen += 1
                    missed += not (low is None or low <= truth) or not (high is None or truth <= high)
            assert seen > 200
            assert missed <= 0.05 * seen + 5 * math.sqrt(0.05 * 0.95 * seen)


def test_a_threshold_within_the_noise_is_refused_unless_it_is_meant(metered):
    session = metered()
    low = Alert(HIGH, above=20, hits=40)
    with pytest.raises(InvalidParameter, match=r"false alarms.*below_margin=True"):
        session.start(low)
    assert spent(session).main == 0
    assert session.start(Alert(HIGH, above=20, hits=40, below_margin=True)).state.false_alarms() > 1
    fine = session.quote(Alert(HIGH, above=400, hits=10))
    assert "5 episodes fit" in str(fine)
    assert "fewer than one false firing is expected at truths up to" in str(fine)


def test_each_version_tests_every_group_and_the_bar_is_placed_for_all_of_them(metered):
    session = metered(budget=USUAL)
    by_zone = session.quote(Alert(HIGH.by("zone", ZONES), above=400, hits=20, tests=52))
    alone = session.quote(Alert(HIGH, above=400, hits=20, tests=3 * 52))
    fewer = session.quote(Alert(HIGH, above=400, hits=20, tests=52))
    assert "in 156 tests (52 versions of 3 groups) fewer than one" in by_zone.interval
    assert by_zone.within == alone.within
    assert by_zone.within.tests == 3 * 52
    assert by_zone.within.error > fewer.within.error
    terms = {"above": 400, "within": 120, "confidence": "0.9"}
    grouped = session.start(Alert(HIGH.by("zone", ZONES), tests=52, **terms))
    single = session.start(Alert(HIGH, tests=3 * 52, **terms))
    assert grouped.law.tests.event == single.law.tests.event


def test_a_quote_says_that_every_version_is_charged_where_misses_are_not_free(metered):
    session = metered(budget=Budget(epsilon=2, delta="1e-6"))
    dear = session.quote(Alert(HIGH, above=400, epsilon="0.1"))
    assert "misses are not free" in dear.interval
    assert "episode" not in dear.interval
    run = session.start(Alert(HIGH, above=400, epsilon="0.1"))
    fit = int(re.search(r"(\d+) versions fit", dear.interval)[1])
    for _ in range(fit):
        run.ask()
    with pytest.raises(BudgetExceeded):
        run.ask()
    assert "misses are not free" not in session.quote(Alert(HIGH, above=400, hits=20)).interval


def test_what_is_foretold_of_truths_near_the_threshold_holds(metered):
    """Fewer than one false firing in a year at the truth that the quote names, and more than one a little above it."""
    session = metered()
    run = session.start(Alert(HIGH, above=400, hits=10))
    truth = 400 - run.law.expected().margin_of_one()
    assert run.state.false_alarms(truth=truth) < 1 <= run.state.false_alarms(truth=truth + 1)
    # A value at the threshold fires every other time; one far above it at once.
    assert run.state.delay(0) == pytest.approx(2)
    assert run.state.delay(1000) == pytest.approx(1)


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"clear_below": 401}, "clears at or below its threshold: give clear_below=400 or less"),
        ({"time": "day"}, "give both"),
        ({"time": "day", "window": "7 days", "since": "2024-01-01"}, "give window= or since=, not both"),
        ({"time": "day", "since": "last year"}, "since is a day or a time"),
        ({"time": "day", "since": "2024-01-01", "lag": "1 day"}, "only a window ends earlier"),
        ({"lag": "1 day"}, "only a window ends earlier"),
        ({"time": "day", "window": "1 day", "lag": "a day"}, "a lag is a number of hours, days"),
        ({"time": "day", "window": "1 day", "lag": "9999 years"}, "leaves the years 1 to 9999"),
        ({"time": "day", "since": 2024}, "since is a day or a time, such as since='2014-01-01'"),
        ({"time": "day", "window": 7}, "window is a period of time, such as window='30 days'"),
        ({"time": "day", "window": "a week"}, "a number of hours, days, weeks, months or years"),
        ({"time": "day", "window": "0 days"}, "a number of hours, days, weeks, months or years"),
        ({"time": "day", "window": "999999 weeks"}, "leaves the years 1 to 9999"),
        ({"severity": "loud"}, "severity"),
        ({"epsilon": "0.1"}, "exclude one another"),
    ],
)
def test_what_can_be_right_for_no_table_is_refused(terms, told):
    with pytest.raises(InvalidParameter, match=told):
        Alert(HIGH, **({"above": 400, "hits": 5} | terms))


def test_what_this_table_cannot_answer_is_refused(metered):
    with pytest.raises(InvalidQuery, match="an alert watches a count or a sum"):
        Alert(chary.mean("kwh", bounds=(0, 500), max_rows_per_unit=1), above=4, hits=5)
    session = metered()
    with pytest.raises(InvalidParameter, match="give both"):
        session.start(Alert(HIGH, above=400, hits=5, window="7 days"))
    with pytest.raises(InvalidQuery, match="unknown column 'hour'"):
        session.start(weekly(above=400, time="hour"))
    run = session.start(Alert(HIGH, above=400, hits=5))
    with pytest.raises(InvalidParameter, match="no window that ends"):
        run.ask(at="2024-01-07")
    with pytest.raises(InvalidParameter, match="no window that ends"):
        session.start(weekly(above=400, window=None, since="2024-01-01")).ask(at="2024-01-07")
    with pytest.raises(InvalidParameter, match="at is a day or a time"):
        session.start(weekly(above=400)).ask(at="tomorrow")
    with pytest.raises(NotPriced, match="epsilon= for Laplace noise"):
        metered(budget=Budget(epsilon=1)).start(Alert(HIGH, above=400, hits=5))


def test_a_request_that_says_no_time_is_told_again_at_any_time(metered, monkeypatch):
    """So that whoever repeats it after a crash is charged nothing, and another time is another question."""
    run = metered(900, budget=NO_NOISE).start(weekly(above=400))
    told = run.ask(request="nightly")
    assert not told.changed

    monkeypatch.setattr(chary.data.blocks, "now", lambda: datetime(2024, 1, 7, 12))
    assert run.ask(request="nightly") == told
    assert run.ask(request="that Sunday").changed
    assert [kept.outcome["at"][:10] for kept in asked_of(run)][1:] == ["2024-01-07"]
    with pytest.raises(RequestConflict):
        run.ask(at="2024-01-07", request="nightly")


def asked_of(run):
    return list(run._spine.ledger.calls("data", after=run.call))


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("7 days", "2024-01-01 to 2024-01-07"),
        ("1 day", "2024-01-07"),
    ],
)
def test_a_quote_tells_the_window_of_the_present_time(metered, monkeypatch, window, told):
    """Rows of other years are not in it, and neither state nor cost would show that."""
    monkeypatch.setattr(chary.data.blocks, "now", lambda: datetime(2024, 1, 7, 12))
    session = metered(900)
    assert f"at present it is {told} (UTC)" in str(session.quote(weekly(above=400, window=window)))
    assert "at present" not in str(session.quote(weekly(above=400, window=None, since="2024-01-01")))


def test_a_window_hides_what_would_rule_units_out(metered):
    """Rows before it are not seen, whatever the question looks at them for."""
    rows = pa.concat_tables([load(5), load(5, zone="south", week=5)])
    session = metered(privacy_unit="kwh", neighbors="add_remove")
    session.append(rows)
    alert = Alert(count("kwh > 200", without="zone = 'south'"), above=400, hits=20, time="day", window="7 days")
    weeks = [alert.seen(datetime.combine(sunday(week), datetime.min.time())) for week in (0, 5)]
    assert [session.spine.rows.prepare(query).run() for query in weeks] == [1, 0]


def test_since_a_day_only_its_rows_and_later_ones_are_seen(metered):
    """Also where they come late, and whenever it is asked."""
    session = metered(350, budget=NO_NOISE)
    run = session.start(Alert(HIGH, above=400, time="day", since="2024-01-08", hits=20))
    truths = [(0, 300), (1, 200), (0, 100), (3, 150), (2, 60)]
    told = [run.ask().state]
    for week, high in truths:
        session.append(load(high, week=week))
        told.append(run.ask().state)
    assert told == ["quiet"] * 5 + ["active"]
    assert [each.value for each in run.state.transitions] == [410]
    assert session.resume(run.call).state.active
    assert Alert(HIGH, above=400, time="day", since=date(2024, 1, 8), hits=20).since == "2024-01-08"
    with pytest.raises(InvalidQuery, match="column 'day' is a date and cannot be compared with"):
        session.start(Alert(HIGH, above=400, time="day", since="2024-01-08 12:00", hits=20))


def test_windows_end_with_the_day_or_at_the_hour():
    at = chary.calls.alerts._read_time("2024-03-01 12:00:00")
    assert span_of("1 day", at) == ("2024-03-01", "2024-03-02")
    assert span_of("2 weeks", at) == ("2024-02-17", "2024-03-02")
    assert span_of("1 month", at) == ("2024-02-02", "2024-03-02")
    assert span_of("2 years", at) == ("2022-03-02", "2024-03-02")
    assert span_of("1 month", chary.calls.alerts._read_time("2024-03-30")) == ("2024-02-29", "2024-03-31")
    assert span_of("1 hour", at) == ("2024-03-01 11:00:00", "2024-03-01 12:00:00")


def test_an_answer_is_told_in_words_and_in_json(metered):
    told = (
        metered(900, budget=NO_NOISE).start(Alert(HIGH, above=400, hits=20, severity="critical", note="feeder 7")).ask()
    )
    assert isinstance(told, AlertAnswer)
    assert told.in_words == "active, changed"
    assert {name: told.to_dict()[name] for name in ("state", "changed", "value")} == {
        "state": "active",
        "changed": True,
        "value": 900,
    }


def test_answers_and_the_state_say_which_days_they_are_about(metered, monkeypatch, tmp_path):
    """A window without rows would otherwise look like a number that fell."""
    session = metered(900, budget=NO_NOISE, ledger=tmp_path / "of.ledger", dataset="of")
    monkeypatch.setattr(chary.data.blocks, "now", lambda: datetime(2026, 11, 28, 12))
    run = session.start(weekly(above=400))
    assert str(run.state) == "not asked yet"
    then, now = run.ask(at="2024-01-07"), run.ask()
    assert [(each.state, each.window) for each in (then, now)] == [
        ("active", "2024-01-01 to 2024-01-07"),
        ("quiet", "2026-11-22 to 2026-11-28"),
    ]
    assert "window 2024-01-01 to 2024-01-07" in str(then)
    assert str(run.state) == "quiet, changed at version 1 of 2026-11-22 to 2026-11-28; 2 answers, 2 with a change"
    assert session.resume(run.call).state.results == [then, now]
    zones = session.start(Alert(count().by("zone", ZONES), above=400, hits=20, time="day", window="1 day"))
    assert "\nrows of 2024-01-03\n" in str(zones.ask(at="2024-01-03"))
    bare = session.start(Alert(HIGH, above=400, hits=20))
    assert bare.ask().window is None
    assert "window" not in str(bare.ask())


@pytest.mark.parametrize(
    ("lag", "sees"),
    [
        (None, "2024-01-07"),
        ("1 day", "2024-01-06"),
        ("1 week", "2023-12-31"),
        ("1 month", "2023-12-07"),
        ("13 hours", "2024-01-06"),
    ],
)
def test_where_rows_come_late_the_window_ends_before_the_question(metered, monkeypatch, lag, sees):
    """Of now, of a given day, of the arrival of a version that is followed, and in the quote."""
    monkeypatch.setattr(chary.data.blocks, "now", lambda: datetime(2024, 1, 7, 12))
    session = metered(900, budget=NO_NOISE)
    alert = weekly(above=400, window="1 day", lag=lag)
    assert f"at present it is {sees} (UTC)" in str(session.quote(alert))
    run = session.start(alert)
    assert run.ask().window == sees
    day = alert.ends(datetime(2024, 1, 10)).date()
    answer = run.ask(at="2024-01-10", request="then")
    assert answer.window == day.isoformat()
    assert session.resume(run.call).ask(at="2024-01-10", request="then") == answer == run.state.latest
    assert session.resume(run.call).opened.lag == lag
    session.append(load(1))
    [followed] = session.resume(run.call).follow()
    arrived = datetime.fromisoformat(session.versions[-1].time).replace(tzinfo=None)
    assert followed.window == chary.calls.alerts.spelled("1 day", alert.ends(arrived))


def test_rows_of_yesterday_raise_an_alert_with_a_lag_and_none_without(metered):
    """The window of the present day has no rows then, so that nothing would ever be told."""
    yesterday = datetime.now().date() - timedelta(days=1)
    runs = {}
    session = metered(budget=NO_NOISE)
    for lag in (None, "1 day"):
        runs[lag] = session.start(weekly(above=400, window="1 day", lag=lag), follow=True)
    rows = load(900)
    session.append(rows.set_column(1, "day", pa.array([yesterday] * 900, pa.date32())))
    assert [run.state.active for run in runs.values()] == [False, True]


def test_a_window_never_goes_back(metered):
    """A state of older days would pass for the present one, and a script that runs again would pay for each change."""
    session = metered(900, budget=NO_NOISE)
    run = session.start(weekly(above=100, window="1 day"))
    assert [run.ask(at=day).state for day in ("2024-01-03", "2024-01-03 15:00", "2024-01-03", "2024-01-10")] == [
        "active",
        "active",
        "active",
        "quiet",
    ]
    before = session.spent
    for day in ("2024-01-09", "2024-01-03 23:59:59"):
        with pytest.raises(InvalidParameter, match="was asked about 2024-01-10 already"):
            session.resume(run.call).ask(at=day)
    assert (session.spent, run.state.active) == (before, False)
    # Another one begins where it is asked, and what follows arrivals goes on.
    assert session.start(weekly(above=100, window="1 day")).ask(at="2024-01-03").active
    session.append(load(1))
    assert len(run.follow()) == 1


def test_what_it_published_is_among_the_findings(metered):
    session = metered(900, budget=Budget(epsilon=10, delta=1e-6))
    zones = session.start(Alert(HIGH.by("zone", ZONES), above=400, clear_below=300, hits=20))
    one = session.start(Alert(HIGH, above=400, epsilon="0.1"))
    falling = session.start(Alert(HIGH, above=900, clear_below=880, epsilon="0.1", time="day", window="7 days"))
    told = [zones.ask(), one.ask(), one.ask()]
    found = findings(session)
    assert [(each.call, each.key, each.value) for each in found] == [
        (told[0].call, "north", told[0]["north"]["value"]),
        (told[1].call, None, told[1].value),
    ]
    assert [each.interval for each in found] == [each for answer in told for each in answer.findings.intervals()]
    assert len(findings(session, run=one.call)) == 1
    assert len(found.list(fdr="0.1")) == 2
    # A clearing is a value too, and no alarm to act on.
    while not falling.ask(at="2024-01-07").active:
        pass
    cleared = falling.ask(at="2024-02-07")
    assert (cleared.state, cleared.changed) == ("quiet", True)
    last = findings(session)[-1]
    assert (last.call, last.p_value, last.interval) == (cleared.call, None, cleared.findings[0].interval)
    assert cleared.call not in {each.call for each in findings(session).list(fdr="0.1")}
