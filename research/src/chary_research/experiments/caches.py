"""Caches of answers: the budget of Turbo, and of multiplicative weights in a session, for as near answers."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import DiscreteLaplace
from chary.filters import Budget
from chary_research import caches
from chary_research.caches import DELTA, Answering, Opening, OwnWeights, Wanted, pure_total, renyi_total
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.workloads import Workload, bike_rides, covid_tests

WORKLOADS: Final[dict[str, Callable[[], Workload]]] = {"tests": covid_tests, "rides": bike_rides}
# The budgets that our histograms are opened with, and the hard answers that fit into one: some more than a run takes.
OPENED: Final = {"tests": ("0.009", 100), "rides": ("0.018", 90)}
PUBLISHED: Final[dict[str, Callable[..., Answering]]] = {
    "exact matches": caches.ExactMatches,
    "plain PMW": caches.PlainPMW,
    "PMW-Bypass": caches.PMWBypass,
    "PMW-Bypass, Algorithm 1": partial(caches.PMWBypass, loose=True),
}
OURS: Final = "chary's PMW"
SESSION: Final = "the same in a session"
CHECKS: Final = 20


def opened(workload: Workload, wanted: Wanted) -> Opening:
    """How ours is opened for this workload."""
    epsilon, hits = OPENED[workload.name]
    return Opening.found(workload, wanted, Budget(epsilon=epsilon, delta=DELTA), hits)


class TurboCaches(Experiment):
    """What answers cost that are all within alpha of the truth but for a chance of beta, by the number of queries."""

    name = "turbo-caches"
    shows = "Caches of answers: the budget that Turbo's PMW-Bypass takes, and PMW in a session, for as near answers."
    source = "Turbo (SOSP 2023), Figures 8 and 9"
    size = (10.0, 3.8)
    trials: Final = 10
    asked: Final = 70_000

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, asked = (1, 1_500) if quick else (self.trials, self.asked)
        ways = [*PUBLISHED, OURS]
        each = [
            {"workload": name, "zipf": zipf, "by": by, "trial": trial, "asked": asked}
            for name, zipf in (("tests", 0), ("tests", 1), ("rides", 0))
            for by in ways
            for trial in range(trials)
        ]
        whole = {"workload": "tests", "zipf": 1, "by": SESSION, "trial": 0, "asked": 100 if quick else 10_000}
        return [*each, whole]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        trial, asked = settings["trial"], settings["asked"]
        workload = WORKLOADS[settings["workload"]]()
        wanted, stream = Wanted(workload.rows), workload.stream(asked, settings["zipf"], trial)
        answering = answerer(settings["by"], workload, wanted, trial, seed)
        rows, off, began = [], list[float](), time.process_time()
        checks = set(np.geomspace(10, asked, CHECKS).astype(int).tolist())
        for place, number in enumerate(stream, 1):
            off.append(abs(answering.ask(number) - answering.truth(number)))
            if place in checks:
                taken = time.process_time() - began
                found = {"answered": place, "outside": int(np.sum(np.array(off) > wanted.alpha)), "largest": max(off)}
                rows.append({**settings, **found, **told(answering, place), "milliseconds": 1000 * taken / place})
        return rows

    def draw(self, found: Measurements, figure: Figure) -> None:
        cases = [("tests", 0), ("tests", 1), ("rides", 0)]
        panes: Any = figure.subplots(1, len(cases), sharey=True)
        for axes, (name, zipf) in zip(panes, cases, strict=True):
            part = found.where(workload=name, zipf=zipf)
            for by in (*PUBLISHED, OURS):
                lines = part.where(by=by)
                places = sorted(set(lines["answered"].tolist()))
                middle = [float(np.median(lines.where(answered=place)["epsilon"])) for place in places]
                axes.plot(places, middle, "o-", markersize=2.5, label=by)
            axes.set(title=f"{name}, Zipf {zipf}", xlabel="queries", xscale="log", yscale="log")
        panes[0].set_ylabel("epsilon used up, delta 1e-6")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        last = Measurements(row for row in found if row["answered"] == row["asked"])
        ours, whole = last.where(by=OURS), last.where(by=SESSION)
        used = {by: last.where(by=by)["epsilon"] for by in PUBLISHED}
        return [
            Trend(
                "every answer of ours is verified",
                all(np.all(each["verified"] == each["asked"]) for each in (ours, whole)),
            ),
            Trend(
                "answers are outside alpha no more often than promised",
                np.all(last["outside"] <= 0.001 * last["asked"] + 5 * np.sqrt(0.001 * last["asked"]) + 1),
            ),
            *(
                Trend(f"the whole budget of ours is less than what {by} use up", np.all(ours["budget"] < used[by]))
                for by in PUBLISHED
            ),
            Trend("and less than a fourth of that of plain PMW", np.all(4 * ours["budget"] < used["plain PMW"])),
            Trend("in a session no answer is farther off than alpha", np.all(whole["largest"] <= 0.05)),
        ]


def answerer(by: str, workload: Workload, wanted: Wanted, trial: int, seed: int) -> Answering:
    """One way to answer, on the rows of this trial."""
    given = (workload, workload.counts(trial), wanted, seed)
    if by in PUBLISHED:
        return PUBLISHED[by](*given)
    return OwnWeights(*given, opening=opened(workload, wanted), whole=by == SESSION)


def told(answering: Answering, asked: int) -> Row:
    """What it was charged for so many answers, and for what."""
    if isinstance(answering, OwnWeights):
        counted = {"counts": answering.hits, "vectors": 0, "verified": asked - answering.unverified}
        return {"epsilon": answering.promised, "budget": float(answering.budget), **counted}
    charged = answering.charged
    counts = sum(times for event, times in charged.items() if isinstance(event, DiscreteLaplace))
    counted = {"counts": counts, "vectors": sum(charged.values()) - counts, "verified": asked}
    return {"epsilon": renyi_total(charged), "pure": pure_total(charged), **counted}
