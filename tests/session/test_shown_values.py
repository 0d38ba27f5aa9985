"""What is shown of a value beside its interval: one that lies outside of it says that it is the raw noisy one."""

import json

import pytest

from chary import Algorithm, count
from chary.accounting import LaplaceLaw, Publication, Support
from chary.answers import NoisyNumber, NoisyNumbers
from chary.calls import Release, RunAlgorithm
from chary.calls.answers import TestedKeys as Tested
from chary.charts import Chart, Spot
from chary.cli.answers import figures
from chary.noise import Seeded
from chary.numbers import RAW
from chary.report.content import PublishedValue
from chary.report.pages import interval
from tests.session.kit import CLINICS

NOISE = Publication(LaplaceLaw(20), Support.everything(), floor=0)
FAR = NoisyNumber(1, -11, 20.0, told=NOISE)
NEAR = NoisyNumber(1, 3, 20.0, told=NOISE)
TABLE = NoisyNumbers(1, ("clinic",), (("north",), ("south",)), (-11, 30), 20.0, told=NOISE)


def test_a_value_stays_what_was_published():
    """Only the interval ends where the truth can be: moved values would be biased."""
    assert (FAR.value, FAR.interval, float(FAR)) == (-11, (0.0, 9.0), -11.0)
    assert TABLE["north"] == {"clinic": "north", "value": -11, "low": 0.0, "high": 9.0}


@pytest.mark.parametrize(("answer", "outside"), [(FAR, True), (NEAR, False), (TABLE, True)])
def test_everything_that_is_told_of_it_says_so(answer, outside):
    shown = [str(answer), answer._repr_html_(), answer.interval_says, answer.to_dict()["interval_says"]]
    shown.append(figures(answer, "release")["interval_says"])
    assert [RAW in text for text in shown] == [outside] * len(shown)


def test_pictures_and_reports_say_so():
    spots = (Spot("north", -11, 0.0, 9.0), Spot("south", 30, 10.0, 50.0))
    assert "1 value lies where no truth can be: raw noisy values" in Chart("dots", "Clinics", spots).alt
    assert "no truth" not in Chart("dots", "Clinics", spots[1:]).alt
    assert interval(PublishedValue("", -11, 0, 9, True)).endswith("raw noisy value")
    assert interval(PublishedValue("", 3, 0, 9, True)) == "0 to 9"


def test_a_count_of_nobody_is_shown_as_it_came_out(opened):
    session = opened(unsafe_noise=Seeded(4), grain="0.02")
    counts = [session.ask(Release(count("age > 999"), epsilon="0.005")) for _ in range(6)]
    below = [answer for answer in counts if answer.value < answer.interval[0]]
    assert below
    assert all(RAW in str(answer) for answer in below)
    assert all(RAW not in str(answer) for answer in counts if answer not in below)


@pytest.mark.parametrize("query", [count(), count().by("clinic", CLINICS)])
def test_what_is_promised_of_an_interval_comes_with_the_interval(opened, query):
    """As a command prints it: the ends of one value, or of each row."""
    found = figures(opened(unsafe_noise=Seeded(2)).ask(Release(query, epsilon="0.02")), "release")
    assert "95 % confidence" in found["interval_says"]
    for told in found.get("values", [found]):
        assert 0 <= told["low"] < told["high"] == told["value"] + found["error_bar"]


def test_what_has_no_interval_prints_none(opened):
    outcome = Algorithm("poll", lambda rows, source: 3, epsilon="0.02", outcomes=[3, 4])
    found = figures(opened().ask(RunAlgorithm(outcome)), "call")
    assert found["interval_says"].startswith("no interval")
    assert json.loads(json.dumps(found))["low"] is None


def test_the_hits_of_a_long_test_are_printed_before_its_misses():
    days = tuple((day,) for day in range(100))
    lines = str(Tested(1, ("day",), days, {(77,): 512}, 90, 30.0)).splitlines()
    assert lines[1].split()[:3] == ["77", "yes", "512"]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
