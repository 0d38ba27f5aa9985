"""Schedules on growing data: which runs are done, that each is done once, and that none of it is paid twice."""

from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import chary
from chary import Algorithm, Budget, InvalidParameter, InvalidQuery, NotPriced, NotWithheld, count
from chary.accounting.schedules import EpochRuns, epochs_error
from chary.amounts import Amount
from chary.calls import BlackBox, Release, ReleaseIf, Rerun
from chary.calls.releases import released
from chary.calls.schedules import run_of
from chary.core.plan import Data
from chary.filters import Price
from chary.growth import AlgorithmBox, CountsBox, QuantilesBox, draw_schedule
from chary.ledger import open_ledger
from chary.noise import OperatingSystem, Seeded
from chary.session import STEPS
from tests.calls.growing.continual_streams import exactly, rows
from tests.session.interruption_kit import Stop
from tests.session.kit import NO_NOISE, PUBLIC, USUAL, spent

WARDS = CountsBox(count().by("ward", [0, 1, 2]))
SIZES = {"epsilon": "0.5", "beta": "0.05", "growth": "0.5"}


def told(name="wards", share=1, **parts):
    """A user's algorithm that says how many rows there are, at a share of the epsilon it may use."""
    return AlgorithmBox(
        lambda epsilon: Algorithm(name, lambda rows, source: rows.num_rows, epsilon=epsilon * share, **parts),
        law=(1, 2),
    )


def test_without_noise_every_run_tells_the_counts_of_its_size(grown):
    session = grown(budget=NO_NOISE)
    schedule = session.start(Rerun(WARDS, epsilon=5 * 10**5, beta="0.05", growth="0.5"))
    assert (schedule.state.due, schedule.state.latest) == (0, None)
    for first, last, run in ((100, 100, 0), (100, 149, None), (149, 150, 1), (150, 500, 3), (500, 505, None)):
        session.append(rows(first, last))
        assert schedule.state.due == run
        found = schedule.ask()
        assert (found and found.run) == run
        if found is not None:
            assert tuple(found.answer.values) == exactly(last)
            assert (found.size, schedule.state.latest) == (last, found)
    assert [found.run for found in schedule.state.results] == [0, 1, 3]


def test_a_run_takes_its_share_and_those_of_the_runs_it_outgrew(grown):
    session = grown()
    schedule = session.start(Rerun(WARDS, **SIZES))
    found = [schedule.ask()]
    for first, last in ((100, 150), (150, 800)):
        session.append(rows(first, last))
        found.append(schedule.ask())
    runs = EpochRuns(start=100, growth="0.5", beta="0.05", epsilon="0.5")
    spans = [(0, 0), (1, 1), (2, 5)]
    assert [run.epsilon for run in found] == [runs.epsilon_down(*span) for span in spans]
    assert [run.run for run in found] == [0, 1, 5]
    asked = [run_of(WARDS, session.spine.rows.neighbor_relation, runs, *span) for span in spans]
    for run, inner in zip(found, asked, strict=True):
        assert run.epsilon * Fraction(999, 1000) < inner.event.epsilon <= run.epsilon


@pytest.mark.parametrize(
    "terms",
    [{"epsilon": "0.5", "growth": "0.3"}, {"rho": "0.001", "growth": "0.3"}, {"rho": "0.001", "exponent": "0.1"}],
)
def test_everything_is_charged_at_the_opening(grown, terms):
    session = grown()
    schedule = session.start(Rerun(WARDS, beta="0.05", **terms), follow=True)
    price = session.spine.filter.price(schedule.state.runs.event).hit
    assert spent(session) == price
    for size in range(100, 400, 60):
        session.append(rows(size, size + 60))
    assert len(schedule.state.results) > 3
    assert spent(session) == price
    assert session.spine.ledger.verify().ok


def test_appending_does_what_is_due(grown):
    session = grown()
    by_hand = session.start(Rerun(WARDS, **SIZES | {"epsilon": "0.1"}))
    by_itself = session.start(Rerun(WARDS, **SIZES | {"epsilon": "0.1"}), follow=True)
    session.append(rows(100, 160))
    assert [run.run for run in by_itself.state.results] == [0, 1]
    assert by_hand.state.results == []
    again = session.resume(by_itself.call, bring=WARDS, follow=True)
    session.append(rows(160, 230))
    assert [run.run for run in again.state.results] == [0, 1, 2]


def test_it_goes_on_after_a_restart_and_starts_where_it_did(grown, tmp_path):
    place = tmp_path / "wards.ledger"
    with grown(ledger=place) as session:
        call = session.start(Rerun(WARDS, epsilon="0.5", beta="0.05"), request="daily").call
        first = session.resume(call, bring=WARDS).ask()
    session = grown(5000, ledger=place)
    for schedule in (
        session.resume(call, bring=WARDS),
        session.start(Rerun(WARDS, epsilon="0.5", beta="0.05"), request="daily"),
    ):
        assert (schedule.call, schedule.state.runs.start) == (call, 100)
        assert schedule.state.results == [first]
    assert schedule.ask().run == schedule.state.runs.last(5000)
    assert schedule.ask() is None


def test_another_black_box_or_law_cannot_go_on(grown):
    session = grown()
    call = session.start(Rerun(told(), **SIZES)).call
    assert session.resume(call, bring=told()).ask().answer.value == 100
    for other in (WARDS, told("others"), AlgorithmBox(told().make, law=(1, 3))):
        with pytest.raises(InvalidParameter, match="another black box"):
            session.resume(call, bring=other)
    with pytest.raises(InvalidParameter, match="bring the black box again"):
        session.resume(call)
    with pytest.raises(NotWithheld):
        session.resume(session.release(count(), epsilon="0.01").call, bring=told())


@pytest.mark.parametrize("options", [{"neighbors": "add_remove"}, {"privacy_unit": "ward"}])
def test_a_secret_size_is_refused_and_nothing_is_charged(grown, options):
    session = grown(**options)
    with pytest.raises(InvalidQuery, match="secret"):
        session.start(Rerun(WARDS, **SIZES))
    assert session.history == []


class TooLoud(BlackBox):
    """Draws less noise than it should."""

    law = WARDS.law

    def __init__(self, **size):
        self.size = size

    def plan(self, epsilon, neighbor_relation):
        sizes = {name: scale(epsilon) for name, scale in self.size.items()}
        return released(Release(WARDS.query, **sizes), neighbor_relation)


class InParts(TooLoud):
    """As private as told, but in each of several keys that one unit may be in."""

    def plan(self, epsilon, neighbor_relation):
        rows = SimpleNamespace(neighbor_relation=neighbor_relation)
        return ReleaseIf(WARDS.query, above=5, epsilon=epsilon).plan(SimpleNamespace(rows=rows))


@pytest.mark.parametrize(
    ("box", "total"),
    [
        (InParts(), {"epsilon": "0.5"}),
        (TooLoud(epsilon=lambda epsilon: epsilon * Fraction(101, 100)), {"epsilon": "0.5"}),
        (TooLoud(rho=lambda epsilon: epsilon**2 / 2), {"epsilon": "0.5"}),
        (TooLoud(rho=lambda epsilon: epsilon**2), {"rho": "0.001"}),
        (told(share=2), {"epsilon": "0.5"}),
        (told(delta="1e-9"), {"epsilon": "0.5"}),
    ],
)
def test_a_black_box_that_is_not_as_private_as_told_is_refused(grown, box, total):
    session = grown()
    with pytest.raises(InvalidParameter, match="not epsilon-DP"):
        session.start(Rerun(box, beta="0.05", **total))
    assert session.history == []


def test_a_gaussian_black_box_fits_a_schedule_by_rho(grown):
    box, session = CountsBox(WARDS.query, gaussian=True), grown(20_000)
    schedule = session.start(Rerun(box, rho="0.005", beta="0.05"))
    assert len(schedule.ask().answer.values) == 3
    laplace = session.start(Rerun(WARDS, rho="0.005", beta="0.05")).state.table(1)[0]
    assert schedule.state.table(1)[0].error + schedule.state.runs.staleness < 0.8 * (laplace.error + laplace.staleness)
    with pytest.raises(InvalidParameter, match="not epsilon-DP"):
        session.start(Rerun(box, epsilon="0.01", beta="0.05"))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"epsilon": 1}, "beta"),
        ({"beta": "0.05"}, "one of epsilon"),
        ({"beta": "0.05", "epsilon": 1, "rho": 1}, "one of epsilon"),
        ({"beta": "0.05", "epsilon": 1, "exponent": "0.1"}, "exponent"),
        ({"beta": "0.05", "rho": 1, "exponent": "0.1", "growth": 1}, "exponent"),
        ({"beta": "0.05", "rho": "0.01", "exponent": "0.5"}, "exponent"),
        ({"beta": 0, "epsilon": 1}, "beta"),
        ({"beta": "0.05", "epsilon": 1, "growth": 50}, r"0\.1 = 10 %"),
        ({"beta": "0.05", "rho": "0.01", "growth": "9.01"}, r"0\.1 = 10 %"),
    ],
)
def test_what_makes_no_schedule_is_refused(grown, wrong, error):
    session = grown()
    with pytest.raises(InvalidParameter, match=error):
        session.start(Rerun(WARDS, **wrong))
    with pytest.raises(InvalidParameter, match="black box"):
        session.start(Rerun(count(), **SIZES))
    assert session.history == []


def test_a_schedule_may_wait_for_ten_times_the_rows(grown):
    assert grown(100).start(Rerun(WARDS, **SIZES | {"growth": 9})).state.runs.size(1) == 1000


def test_rho_needs_a_delta(grown):
    with pytest.raises(NotPriced):
        grown(budget=Budget(epsilon=1)).start(Rerun(WARDS, rho="0.01", beta="0.05"))


def test_an_empty_dataset_has_no_start(grown):
    with pytest.raises(InvalidParameter, match="rows at the start"):
        grown(0).start(Rerun(WARDS, **SIZES))


def test_an_algorithm_that_raises_uses_its_run_up_and_says_so(grown):
    broken = AlgorithmBox(
        lambda epsilon: Algorithm("broken", lambda rows, source: 1 // (rows.num_rows - 100), epsilon=epsilon),
        law=(1, 2),
    )
    session = grown()
    schedule = session.start(Rerun(broken, **SIZES))
    found = schedule.ask()
    assert (found.failed, found.answer, schedule.state.latest, schedule.ask()) == (True, None, None, None)
    session.append(rows(100, 150))
    assert schedule.ask().answer.value == 0
    assert [run.failed for run in schedule.state.results] == [True, False]


def test_a_loser_of_the_race_goes_on_with_the_next_run(grown, tmp_path):
    place, others = tmp_path / "wards.ledger", []

    def interfere(reached):
        if reached == "ran" and others:
            others.pop().ask()
            session.append(rows(100, 150))

    session = grown(ledger=open_ledger(place), on_step=interfere)
    mine = session.start(Rerun(WARDS, **SIZES))
    others.append(grown(ledger=open_ledger(place)).resume(mine.call, bring=WARDS))
    assert mine.ask().run == 1
    assert [run.run for run in mine.state.results] == [0, 1]


def test_the_table_says_what_each_run_does_and_the_promise_holds_for_all(grown):
    session = grown(20_000)
    schedule = session.start(Rerun(WARDS, rho="0.01", beta="0.05"))
    growth, table = schedule.state.runs.growth, schedule.state.table(50)
    promised = epochs_error(schedule.state.law, start=20_000, growth=growth, beta="0.05", rho="0.01")
    assert [run.run for run in table] == list(range(50))
    assert table[0].error + table[0].staleness == pytest.approx(promised, rel=1e-9)
    assert all(run.error + run.staleness <= promised * (1 + 1e-9) for run in table)
    assert schedule.state.table(2, first=7) == table[7:9]
    assert schedule.state.at(table[3].size) == schedule.state.at(table[4].size - 1) == table[3]
    assert schedule.state.at(19_999) is None
    every = session.start(Rerun(WARDS, rho="0.005", beta="0.05", exponent="0.1"))
    errors = [every.state.at(size).error for size in (20_000, 10**6, 10**8)]
    assert errors[0] > errors[1] > errors[2]
    assert every.state.table(1)[0].staleness == 0


@pytest.mark.parametrize("batch", [1, 7, 60, 500])
@pytest.mark.parametrize(
    "terms",
    [{"epsilon": "0.5", "growth": "0.3"}, {"rho": "0.001", "growth": "0.3"}, {"rho": "0.001", "exponent": "0.1"}],
)
def test_the_table_of_batches_foretells_what_is_done(grown, terms, batch):
    session = grown()
    schedule = session.start(Rerun(WARDS, beta="0.05", **terms), follow=True)
    runs = schedule.state.runs
    sizes = [100 + batch * i for i in range(9)]
    for size in sizes[1:]:
        session.append(rows(size - batch, size))
    done = schedule.state.results
    table = schedule.state.table(len(done), batch=batch)
    assert [(run.run, run.size, run.epsilon) for run in table] == [
        (run.run, run.size, float(run.epsilon)) for run in done
    ]
    assert [run.error for run in table] == [
        WARDS.law.error(size=run.size, epsilon=run.epsilon, beta=runs.failure(run.run)) for run in done
    ]
    for run, following in pairwise(table):
        stalest = max(1 - run.size / size for size in sizes if run.size <= size < following.size)
        assert run.staleness == stalest <= runs.staleness
    if batch == 1:
        own = schedule.state.table(len(done))
        assert [(run.run, run.size, run.epsilon, run.error) for run in table] == [
            (run.run, run.size, run.epsilon, run.error) for run in own
        ]
    later = schedule.state.table(2, first=table[0].run + 1, batch=batch)
    assert later == schedule.state.table(3, batch=batch)[1:]


def test_batches_that_outgrow_many_runs_are_promised_less_error(grown):
    every = grown(10_000).start(Rerun(WARDS, rho="0.001", beta="0.05", exponent="0.1")).state
    [batched] = every.table(1, first=1, batch=1000)
    assert (batched.run, batched.size) == (1000, 11_000)
    assert 25 < batched.epsilon / every.at(11_000).epsilon < 35
    assert batched.error < every.at(11_000).error / 25
    with pytest.raises(InvalidParameter):
        every.table(batch=0)


def test_the_picture_of_a_schedule(grown, tmp_path):
    schedule = grown().start(Rerun(WARDS, **SIZES))
    schedule.ask()
    draw_schedule(schedule.state, tmp_path / "schedule.png")
    assert (tmp_path / "schedule.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InvalidParameter):
        draw_schedule(schedule.state, tmp_path / "schedule.txt")


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("box", "data", "part"),
    [
        (WARDS, rows(0, 600), 1 / 2),
        (CountsBox(WARDS.query, gaussian=True), rows(0, 600), 1 / 2),
        (QuantilesBox("ward", [0.5], bounds=(0, 999)), pl.DataFrame({"ward": [0] * 300}), 2 / 3),
    ],
)
def test_the_laws_hold_within_their_failure_probability(box, data, part):
    """Of 600 runs at beta = 1/5, at most about a fifth may err by more than told; a part of that is too little."""
    many, beta, size = 600, Fraction(1, 5), data.height
    session = chary.open(data, **PUBLIC, budget=USUAL, ledger=":memory:")
    inner = box.plan(Fraction(1, 10), session.spine.rows.neighbor_relation)
    values = [plan.run() for plan in inner.reads(session.spine.rows)]
    touched = Data(values, Seeded(11), None, None, Price(Amount(0), Amount(0)))
    off = np.array([error(inner.run(touched).answer, data) for _ in range(many)])
    told, slack = box.law.error(size=size, epsilon="0.1", beta=beta), 4.9 * np.sqrt(many * 0.16)
    assert (off > told).sum() <= many * 0.2 + slack
    assert (off > told * part).sum() > many * 0.2 + slack


def error(answer, data):
    """The largest error of a count, or that of the rank of a median, as a fraction of the rows."""
    if "noisy" in answer:
        return max(abs(np.array(answer["noisy"][0]) - exactly(data.height))) / data.height
    wards, found = data["ward"].to_numpy(), answer["places"][0]
    return max((wards < found).mean(), (wards > found).mean()) - 0.5


class Growth(RuleBasedStateMachine):
    """Rows come, runs are done, interrupted, and taken up by other sessions; a list of runs is the model."""

    @initialize(every=st.booleans())
    def start(self, every):
        terms = {"rho": "0.001", "exponent": "0.2"} if every else {"epsilon": "0.5", "growth": "0.3"}
        self.ledger, self.size, self.done, self.stop = chary.ledger.open_ledger(":memory:"), 20, [], None
        self.open()
        self.schedule = self.session.start(Rerun(WARDS, beta="0.05", **terms))
        self.paid = spent(self.session)

    def open(self):
        options = PUBLIC | {"ledger": self.ledger, "budget": USUAL, "dataset": "wards", "on_step": self.reached}
        self.session = chary.open(rows(0, self.size), unsafe_noise=OperatingSystem(), **options)

    def reached(self, step):
        if step == self.stop:
            raise Stop

    @rule(more=st.integers(0, 30))
    def append(self, more):
        self.session.append(rows(self.size, self.size + more))
        self.size += more

    @rule()
    def restart(self):
        self.session.spine.rows.close()
        self.open()
        self.schedule = self.session.resume(self.schedule.call, bring=WARDS)

    @rule(step=st.sampled_from([None, *STEPS]))
    def run(self, step):
        expected, self.stop = self.due(), step
        try:
            found = self.schedule.ask()
            assert (found and found.run) == expected
        except Stop:
            stored = step == "settled"
        else:
            stored = expected is not None
        self.stop = None
        if stored:
            first = self.done[-1][1] + 1 if self.done else 0
            self.done.append((first, expected))

    def due(self):
        last, first = self.schedule.state.runs.last(self.size), self.done[-1][1] + 1 if self.done else 0
        return last if last >= first else None

    @invariant()
    def each_run_is_done_once_and_paid_once(self):
        runs, results = self.schedule.state.runs, self.schedule.state.results
        assert [(run.run, run.epsilon) for run in results] == [
            (last, runs.epsilon_down(first, last)) for first, last in self.done
        ]
        assert self.schedule.state.due == self.due()
        assert spent(self.session) == self.paid
        sizes = [run.epsilon for run in results]
        if runs.event.epsilon is not None:
            assert sum(sizes) <= runs.event.epsilon
        else:
            assert sum(size**2 for size in sizes) / 2 <= Fraction(runs.event.rho)


TestGrowth = Growth.TestCase
TestGrowth.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
