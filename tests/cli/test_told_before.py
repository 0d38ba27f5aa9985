"""Three ways to spend a budget on false alarms, by the command: what is said before, and what comes out then."""

import json
import math

import pytest

CITIES = ["bath", "cork", "derry", "ely", "fife", "hull", "kent", "leeds", "perth", "ripon", "wells", "york"]
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6 --filter renyi"


@pytest.fixture
def people(tmp_path):
    """Each lives in one city of 12; from 40 to 480 in each."""
    rows = [f"{city}{person},{city}" for place, city in enumerate(CITIES) for person in range(40 * (place + 1))]
    path = tmp_path / "people.csv"
    path.write_text("person,city\n" + "\n".join(rows) + "\n")
    return path, {city: 40 * (place + 1) for place, city in enumerate(CITIES)}


@pytest.fixture
def series(tmp_path):
    """A year of hours, or of half-hours, of counts that are small beside the bar."""

    def written(length, high):
        path = tmp_path / "series.csv"
        path.write_text("when,load\n" + "".join(f"{place},{place * 7919 % (high + 1)}\n" for place in range(length)))
        return path

    return written


def asked(call, line):
    """What a command printed as JSON; it did not fail."""
    code, out, err = call(f"{line} --json")
    assert (code, err) == (0, "")
    return json.loads(out)


def refused(call, line):
    """The one line that a command was refused with."""
    code, out, err = call(line)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


def check_intervals(false, published):
    """At most 5 % of published intervals are false: more than six deviations above happen once in 10^9."""
    assert published > 0
    assert false <= 0.05 * published + 6 * math.sqrt(0.05 * published) + 1


def false_intervals(found, truths):
    """How many intervals leave the truth of their key out."""
    return sum(not covers(row, truths[key_of(row)]) for row in found["above"])


def covers(row, truth):
    low, high = (-math.inf if row["low"] is None else row["low"]), (math.inf if row["high"] is None else row["high"])
    return low <= truth <= high


def key_of(row):
    return row["key"][0] if isinstance(row["key"], list) else row["key"]


def test_city_counts_are_better_released_and_the_quote_says_so(call, people):
    path, truths = people
    question = f"{path} --unit person --columns= --count --by city --keys {','.join(CITIES)} --max-groups-per-unit 1"
    told = asked(
        call, f"quote {question.replace(str(path), str(path) + ' release-if')} {BUDGET} --above 260 --hits 120"
    )
    best = told["alternatives"][0]
    assert best["code"].startswith("session.release(query")
    own = next(each for each in told["alternatives"] if each["code"] is None)
    assert best["error"] < own["error"]
    assert told["outlook"]["margin"] > 200  # the bar leaves little room above what cities without anybody report
    # Watched all the same, a dozen times a day for ten days: no interval is false more often than it says.
    false = published = 0
    for day in range(12):
        line = f"release-if {question} {BUDGET} --above {260 + day} --epsilon 0.008 --allow-false-alarms"
        found = asked(call, line)
        published += len(found["above"])
        false += false_intervals(found, truths)
    check_intervals(false, published)


def test_a_year_of_hits_above_a_bar_that_nothing_reaches(call, series):
    path = series(8760, 20)
    words = f"--series load --sensitivity 1 --above 150 --epsilon 0.02 {BUDGET}"
    outlook = asked(call, f"quote {path} release-if {words}")["outlook"]
    assert outlook["below_margin"]
    assert 200 < outlook["false_alarms"] < 250
    assert outlook["least_bar"] > 500
    assert "raise the threshold" in call(f"quote {path} release-if {words} --truth 20")[1]
    told = refused(call, f"release-if {path} {words}")
    assert f"if all values are 0, {outlook['false_alarms']:.3g} of 8,760 tests are expected to hit" in told
    assert f"--above {outlook['least_bar']}" in told
    assert not path.with_name("series.csv.ledger").exists()
    # Every hit is false, as was told; none of them claims to be above the bar for sure more often than 1 in 20.
    found = asked(call, f"release-if {path} {words} --allow-false-alarms")
    assert found["untested"] > 0
    truths = {place: place * 7919 % 21 for place in range(8760)}
    check_intervals(false_intervals(found, truths), len(found["above"]))


def test_half_hourly_loads_do_not_buy_twenty_false_alarms(call, series):
    path = series(17520, 60)
    question = (
        f"{path} release-if --series load --sensitivity 5 --above 600 --hits 20 --budget-epsilon 1 --budget-delta 1e-6"
    )
    told = asked(call, f"quote {question} --truth 60")
    assert (told["hits_left"], told["misses_charged"]) == (20, False)
    assert told["outlook"]["false_alarms"] > 20
    assert told["outlook"]["least_bar"] > 2 * 600
    tested = asked(call, f"quote {question} --truth 60 --tests 17520")
    assert tested["outlook"]["margin"] < told["outlook"]["margin"]  # the bar lies where it is best for so many tests
    best = tested["alternatives"][0]
    assert best["code"].startswith("session.start(PrepaidTests(")
    assert best["error"] < tested["within"]["error"]
    err = refused(call, f"release-if {question.replace(' release-if', '', 1)}")
    assert "false alarms" in err
    least = told["outlook"]["least_bar"] - 60
    found = asked(
        call, f"release-if {question.replace(' release-if', '', 1).replace('--above 600', f'--above {least}')}"
    )
    assert found["hits"] <= 8  # what is asked with the smallest bar costs next to nothing
    assert found["spent"]["share"] < 0.5
