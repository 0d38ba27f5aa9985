"""Caches of answers: the budget of Turbo, and of multiplicative weights in a session, for as near answers."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import DiscreteLaplace, ZeroConcentrated
from chary.accounting.weights import Update
from chary.filters import Budget
from chary_research import caches
from chary_research.caches import DELTA, Answering, Opening, OwnWeights, Wanted, pure_total, renyi_total
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.workloads import Workload, bike_rides, covid_tests

WORKLOADS: Final[dict[str, Callable[[], Workload]]] = {"tests": covid_tests, "rides": bike_rides}
PUBLISHED: Final[dict[str, Callable[..., Answering]]] = {
    "exact matches": caches.ExactMatches,
    "plain PMW": caches.PlainPMW,
    "PMW-Bypass": caches.PMWBypass,
    "PMW-Bypass, Algorithm 1": partial(caches.PMWBypass, loose=True),
}
# What a session offers beside: releases under request keys, and all cells at once where they are few.
RELEASES: Final[dict[str, Callable[..., Answering]]] = {
    "exact matches, Gaussian": partial(caches.ExactMatches, gaussian=True),
    "all cells once": caches.CellsOnce,
}
OURS, REFITTED, TAUGHT = "PMW of a session", "the same, refitted", "refitted, releases first"
SESSION: Final = "the whole session"
# The budgets that our histograms are opened with, the hard answers that fit into one, some more than a run takes, and
# how many queries are released at first.
OPENED: Final[dict[str, dict[str, tuple[str, int, Update, int]]]] = {
    "tests": {
        OURS: ("0.009", 100, "projected", 0),
        REFITTED: ("0.008", 80, "refitted", 0),
        TAUGHT: ("0.009", 100, "refitted", 100),
    },
    "rides": {
        OURS: ("0.018", 90, "projected", 0),
        REFITTED: ("0.0165", 70, "refitted", 0),
        TAUGHT: ("0.017", 75, "refitted", 50),
    },
}
CHECKS: Final = 20


def opened(workload: Workload, wanted: Wanted, by: str) -> Opening:
    """How ours is opened for this workload."""
    epsilon, hits, update, first = OPENED[workload.name][by]
    return Opening.found(workload, wanted, Budget(epsilon=epsilon, delta=DELTA), hits, update=update, first=first)


class TurboCaches(Experiment):
    """What answers cost that are all within alpha of the truth but for a chance of beta, by the number of queries."""

    name = "turbo-caches"
    shows = "Caches of answers: the budget that Turbo's PMW-Bypass takes, and PMW in a session, for as near answers."
    source = "Turbo (SOSP 2023), Figures 8 and 9"
    size = (10.0, 4.2)
    trials: Final = 10
    asked: Final = 70_000

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, asked = (1, 1_500) if quick else (self.trials, self.asked)
        ways = [*PUBLISHED, *RELEASES, OURS, REFITTED, TAUGHT]
        each = [
            {"workload": name, "zipf": zipf, "by": by, "trial": trial, "asked": asked}
            for trial in range(trials)
            for name, zipf in (("tests", 0), ("tests", 1), ("rides", 0))
            for by in ways
            if (name, by) != ("rides", "all cells once")
        ]
        whole = {"workload": "tests", "zipf": 1, "by": SESSION, "trial": 0, "asked": 100 if quick else asked}
        return [*each, whole]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        trial, asked = settings["trial"], settings["asked"]
        workload = WORKLOADS[settings["workload"]]()
        wanted, stream = Wanted(workload.rows), workload.stream(asked, settings["zipf"], trial)
        answering = answerer(settings["by"], workload, wanted, trial, seed)
        rows, off, seen, began = [], list[float](), set[tuple[int, float]](), time.process_time()
        checks = set(np.geomspace(10, asked, CHECKS).astype(int).tolist())
        for place, number in enumerate(stream, 1):
            answer = answering.ask(number)
            # What is told again is not wrong anew.
            if (number, answer) not in seen:
                seen.add((number, answer))
                off.append(abs(answer - answering.truth(number)))
            if place in checks:
                taken, wrong = time.process_time() - began, int(np.sum(np.array(off) > wanted.alpha))
                found = {"answered": place, "fresh": len(off), "outside": wrong, "largest": max(off)}
                rows.append({**settings, **found, **told(answering, place), "milliseconds": 1000 * taken / place})
        return rows

    def draw(self, found: Measurements, figure: Figure) -> None:
        cases = [("tests", 0), ("tests", 1), ("rides", 0)]
        panes: Any = figure.subplots(1, len(cases), sharey=True)
        for axes, (name, zipf) in zip(panes, cases, strict=True):
            part = found.where(workload=name, zipf=zipf)
            for by in (by for by in part.distinct("by") if by != SESSION):
                lines = part.where(by=by)
                places = sorted(set(lines["answered"].tolist()))
                middle = [float(np.median(lines.where(answered=place)["epsilon"])) for place in places]
                form = "o-" if by in PUBLISHED else "k:" if by == "all cells once" else "s--"
                axes.plot(places, middle, form, markersize=2.5, linewidth=1, label=by)
            axes.set(title=f"{name}, Zipf {zipf}", xlabel="queries", xscale="log", yscale="log")
        panes[0].set_ylabel("epsilon used up, delta 1e-6")
        figure.legend(*panes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        last = Measurements(row for row in found if row["answered"] == row["asked"])
        ours, taught, whole = (last.where(by=by) for by in (OURS, TAUGHT, SESSION))
        used = {by: last.where(by=by)["epsilon"] for by in last.distinct("by")}
        of_sessions = Measurements(row for row in last if row["by"] in (OURS, REFITTED, TAUGHT, SESSION))
        return [
            Trend("every answer of ours is verified", np.all(of_sessions["verified"] == of_sessions["asked"])),
            Trend(
                "answers are outside alpha no more often than promised",
                np.all(last["outside"] <= 0.001 * last["asked"] + 5 * np.sqrt(0.001 * last["asked"]) + 1),
            ),
            *(
                Trend(f"the whole budget of ours is less than what {by} use up", np.all(ours["budget"] < used[by]))
                for by in PUBLISHED
            ),
            Trend("and less than a fourth of that of plain PMW", np.all(4 * ours["budget"] < used["plain PMW"])),
            Trend("refitted it takes less", used[REFITTED].mean() < used[OURS].mean()),
            Trend(
                "with releases first the whole budget is less than two thirds of PMW-Bypass",
                np.all(3 * taught["budget"] < 2 * used["PMW-Bypass"]),
            ),
            Trend("in a session no answer is farther off than twice alpha", np.all(whole["largest"] <= 0.1)),
        ]


def answerer(by: str, workload: Workload, wanted: Wanted, trial: int, seed: int) -> Answering:
    """One way to answer, on the rows of this trial."""
    given = (workload, workload.counts(trial), wanted, seed)
    if made := (PUBLISHED | RELEASES).get(by):
        return made(*given)
    whole = by == SESSION
    return OwnWeights(*given, opening=opened(workload, wanted, TAUGHT if whole else by), whole=whole)


def told(answering: Answering, asked: int) -> Row:
    """What it was charged for so many answers, and for what."""
    if isinstance(answering, OwnWeights):
        counted = {
            "counts": answering.released + answering.hits,
            "vectors": 0,
            "verified": asked - answering.unverified,
        }
        return {"epsilon": answering.promised, "budget": float(answering.budget), **counted}
    charged = answering.charged
    counts = sum(times for event, times in charged.items() if isinstance(event, DiscreteLaplace | ZeroConcentrated))
    counted = {"counts": counts, "vectors": sum(charged.values()) - counts, "verified": asked}
    pure = {} if math.isinf(total := pure_total(charged)) else {"pure": total}
    return {"epsilon": renyi_total(charged), **pure, **counted}
