"""Caches of answers: the budget of Turbo, and of multiplicative weights in a session, for as near answers."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import DiscreteLaplace, ZeroConcentrated
from chary.accounting.weights import Update
from chary.filters import Budget
from chary_research import caches
from chary_research.caches import (
    DELTA,
    AfterReleases,
    AfterVisits,
    Answering,
    Opening,
    OwnWeights,
    Wanted,
    pure_total,
    renyi_total,
)
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Table, Trend
from chary_research.experiments.pictures import COLOURS, TOLD, legend_below
from chary_research.workloads import Workload, bike_rides, covid_tests

WORKLOADS: Final[dict[str, Callable[[], Workload]]] = {"tests": covid_tests, "rides": bike_rides}
CASES: Final = (("tests", 0), ("tests", 1), ("rides", 0), ("rides", 1))
PUBLISHED: Final[dict[str, Callable[..., Answering]]] = {
    "exact matches": caches.ExactMatches,
    "plain PMW": caches.PlainPMW,
    "PMW-Bypass": caches.PMWBypass,
    "PMW-Bypass, Algorithm 1": partial(caches.PMWBypass, loose=True),
}
# What a session offers beside: releases under request keys, all cells at once where they are few, and cells of
# marginals that are released once and made more exact. The last one is a limit, which no one offers.
LIMIT: Final = "tests at no cost"
RELEASES: Final[dict[str, Callable[..., Answering]]] = {
    "exact matches, Gaussian": partial(caches.ExactMatches, gaussian=True),
    "all cells once": caches.CellsOnce,
    "cells of marginals": caches.Marginals,
    LIMIT: caches.FreeTests,
}
OURS, REFITTED, TAUGHT = "PMW of a session", "the same, refitted", "refitted, releases first"
SESSION: Final = "the whole session"
# The budgets that our histograms are opened with, the hard answers that fit into one, some more than a run takes, and
# how many queries are released at first.
OPENED: Final[dict[str, dict[str, tuple[str, int, Update, int]]]] = {
    "tests": {
        OURS: ("0.009", 100, "projected", 0),
        REFITTED: ("0.008", 80, "refitted", 0),
        TAUGHT: ("0.007", 60, "refitted", 100),
    },
    "rides": {
        OURS: ("0.018", 90, "projected", 0),
        REFITTED: ("0.0165", 70, "refitted", 0),
        TAUGHT: ("0.017", 75, "refitted", 50),
    },
}
CHECKS: Final = 20
# The colour and the line of each: variants of a method have one colour.
LINES: Final[dict[str, dict[str, Any]]] = {
    "exact matches": {"color": COLOURS["Laplace"]},
    "plain PMW": {"color": COLOURS["plain PMW"]},
    "PMW-Bypass": {"color": COLOURS["PMW-Bypass"]},
    "PMW-Bypass, Algorithm 1": {"color": COLOURS["PMW-Bypass"], "linestyle": "--"},
    "exact matches, Gaussian": {"color": COLOURS["Gaussian"]},
    "all cells once": {"color": COLOURS["Gaussian"], "linestyle": ":"},
    "cells of marginals": {"color": COLOURS["cells of marginals"]},
    OURS: {"color": COLOURS["sharp"]},
    REFITTED: {"color": COLOURS["sharp"], "linestyle": "--"},
    TAUGHT: {"color": COLOURS["sharp"], "linestyle": ":"},
    LIMIT: {"color": TOLD, "linestyle": "-."},
}
# The improvements, alone and in sum, all with hard answers of one cost: Laplace tests whose misses are free, which
# update as published or project; then optimal tests, and what is added to either.
_LAPLACE: Final[dict[str, Any]] = {"laplace": True, "matches": False}
_OPTIMAL: Final[dict[str, Any]] = {"matches": False}
_BOTH: Final[dict[str, Any]] = {"update": "refitted"}
STEPS: Final[dict[str, dict[str, Any]]] = {
    "free misses alone, published update": {**_LAPLACE, "update": "published"},
    "free misses, projected": _LAPLACE,
    "and refitted": {**_LAPLACE, "update": "refitted"},
    "and exact matches": {"laplace": True},
    "and releases first": {**_LAPLACE, "trust": AfterReleases},
    "and optimal tests": _OPTIMAL,
    "optimal tests, refitted": {**_OPTIMAL, "update": "refitted"},
    "the same, exact matches": _BOTH,
    "the same, releases first": {**_BOTH, "trust": AfterReleases},
    "or after visits of cells": {**_BOTH, "trust": AfterVisits},
}
TRUSTED: Final[dict[str, dict[Any, tuple[int, ...]]]] = {
    "tests": {AfterReleases: (100,), AfterVisits: (10, 1)},
    "rides": {AfterReleases: (50,)},
}
# A rule that releases hundreds of rides, all of which are refitted after each one: minutes a run.
SLOW: Final = {("rides", "or after visits of cells")}
# The budget of so many hard answers of one price, by whether tests are optimal; the published update takes more.
PRICED: Final = {"tests": {False: 0.009, True: 0.02}, "rides": {False: 0.0196, True: 0.045}}
PRICED_HITS: Final = 100
PUBLISHED_HITS: Final = 2_500


def opened(workload: Workload, wanted: Wanted, by: str) -> Opening:
    """How `PMW` is opened for this workload."""
    if by in STEPS:
        return _step(workload, wanted, **{name: value for name, value in STEPS[by].items() if name != "matches"})
    epsilon, hits, update, first = OPENED[workload.name][by]
    budget = Budget(epsilon=epsilon, delta=DELTA)
    return Opening.found(workload, wanted, budget, hits, update=update, trust=partial(AfterReleases, first))


def _step(workload: Workload, wanted: Wanted, *, laplace: bool = False, **ways: Any) -> Opening:
    hits = PUBLISHED_HITS if ways.get("update") == "published" else PRICED_HITS
    epsilon = f"{PRICED[workload.name][laplace] * math.sqrt(hits / PRICED_HITS):.4g}"
    if (trust := ways.get("trust")) is not None:
        ways["trust"] = partial(trust, *TRUSTED[workload.name][trust])
    return Opening.found(workload, wanted, Budget(epsilon=epsilon, delta=DELTA), hits, laplace=laplace, **ways)


class TurboCaches(Experiment):
    """What answers cost that are all within alpha of the truth but with probability beta, by the number of queries."""

    name = "turbo-caches"
    shows = "Caches of answers: the budget that Turbo's PMW-Bypass takes, and PMW in a session, for as near answers."
    source = "Turbo (SOSP 2023), Figures 7 a to c and 8"
    size = (12.0, 4.4)
    trials: Final = 10
    asked: Final = 70_000
    steps_asked: Final = 5_000

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        trials, asked, steps = (1, 1_500, 200) if quick else (self.trials, self.asked, self.steps_asked)
        ways = [*PUBLISHED, *RELEASES, OURS, REFITTED, TAUGHT]
        each = [
            {"workload": name, "zipf": zipf, "by": by, "trial": trial, "asked": asked}
            for trial in range(trials)
            for name, zipf in (CASES[1:3] if quick else CASES)
            for by in ways
            if (name, by) != ("rides", "all cells once")
        ]
        alone = [
            {"workload": name, "zipf": zipf, "by": by, "trial": trial, "asked": steps}
            for trial in range(1 if quick else 3)
            for name, zipf in (("tests", 1), ("rides", 0))
            for by in STEPS
            if (name, by) not in SLOW
        ]
        whole = {"workload": "tests", "zipf": 1, "by": SESSION, "trial": 0, "asked": 100 if quick else steps}
        return [*alone, *each, whole]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        trial, asked = settings["trial"], settings["asked"]
        workload = WORKLOADS[settings["workload"]]()
        wanted, stream = Wanted(workload.rows), workload.stream(asked, settings["zipf"], trial)
        answering = answerer(settings["by"], workload, wanted, trial, seed)
        checks = {asked} if settings["by"] in STEPS else set(np.geomspace(10, asked, CHECKS).astype(int).tolist())
        rows, began = [], time.process_time()
        answers = ((number, answering.ask(number), answering.truth(number)) for number in stream)
        for place, errors in checked(answers, checks, wanted.alpha):
            taken = time.process_time() - began
            rows.append({**settings, **errors, **told(answering, place), "milliseconds": 1000 * taken / place})
        return rows

    def draw(self, found: Measurements, figure: Figure) -> None:
        shown = [case for case in CASES if found.where(workload=case[0], zipf=case[1])]
        panes: Any = figure.subplots(1, len(shown), sharey=True)
        for axes, (name, zipf) in zip(panes, shown, strict=True):
            part = found.where(workload=name, zipf=zipf)
            for by in (by for by in part.distinct("by") if by in LINES):
                lines = part.where(by=by)
                places = sorted(set(lines["answered"].tolist()))
                middle = [float(np.median(lines.where(answered=place)["epsilon"])) for place in places]
                axes.plot(places, middle, linewidth=1.3, label=by, **LINES[by])
            axes.set(title=f"{name}, Zipf {zipf}", xlabel="queries", xscale="log", yscale="log")
        panes[0].set_ylabel("epsilon, delta 1e-6")
        legend_below(figure, *panes, columns=4)

    def tables(self, found: Measurements) -> Sequence[Table]:
        last = Measurements(row for row in found if row["answered"] == row["asked"])
        return [*_medians(last), *(_steps(last.where(workload=name), name) for name in WORKLOADS)]

    def trends(self, found: Measurements) -> Sequence[Trend]:
        last = Measurements(row for row in found if row["answered"] == row["asked"])
        ours, taught, whole = (last.where(by=by) for by in (OURS, TAUGHT, SESSION))
        used = {by: last.where(by=by)["epsilon"] for by in last.distinct("by")}
        of_sessions = Measurements(row for row in last if row["by"] in (OURS, REFITTED, TAUGHT, SESSION))
        return [
            Trend("every answer of a session is verified", np.all(of_sessions["verified"] == of_sessions["asked"])),
            Trend(
                "answers are outside alpha no more often than promised",
                np.all(last["outside"] <= 0.001 * last["asked"] + 5 * np.sqrt(0.001 * last["asked"]) + 1),
            ),
            *(
                Trend(f"the whole budget of PMW is less than the epsilon of {by}", np.all(ours["budget"] < used[by]))
                for by in PUBLISHED
            ),
            Trend("and less than a fourth of that of plain PMW", np.all(4 * ours["budget"] < used["plain PMW"])),
            Trend("refitted it takes less", used[REFITTED].mean() < used[OURS].mean()),
            Trend("but more than where tests are free", np.all(used[REFITTED] > used[LIMIT])),
            Trend(
                "cells of a few marginals take less than any histogram",
                all(np.all(used["cells of marginals"] < used[by]) for by in (OURS, REFITTED, TAUGHT)),
            ),
            Trend("in sum the improvements take less than each alone", _in_sum(last.where(workload="tests"))),
            Trend(
                "with releases first the whole budget is less than two thirds of PMW-Bypass",
                np.all(3 * taught["budget"] < 2 * used["PMW-Bypass"]),
            ),
            Trend("in a session no answer is farther off than twice alpha", np.all(whole["largest"] <= 0.1)),
        ]


def checked(
    answers: Iterable[tuple[Any, float, float]], checks: set[int], alpha: float
) -> Iterator[tuple[int, dict[str, float]]]:
    """At each of these places how many answers were fresh, and how far off; an answer comes with its query and truth.

    What is answered again is not wrong anew.
    """
    off, seen = list[float](), set[tuple[Any, float]]()
    for place, (query, answer, truth) in enumerate(answers, 1):
        if (query, answer) not in seen:
            seen.add((query, answer))
            off.append(abs(answer - truth))
        if place in checks:
            outside = int(np.sum(np.array(off) > alpha))
            yield place, {"answered": place, "fresh": len(off), "outside": outside, "largest": max(off)}


def _medians(last: Measurements) -> Sequence[Table]:
    """The epsilon of each way at the end in every case, and its whole budget where that was fixed beforehand.

    Then how many answers were too far off, and what it takes without a delta.
    """
    used, pure = [], []
    for by in LINES:
        ends = [last.where(workload=name, zipf=zipf, by=by) for name, zipf in CASES]
        whole = [f"{end['budget'][0]:.3g}" for end in ends if end and by in OPENED["tests"]]
        counted = [sum(int(sum(end[column])) for end in ends if end) for column in ("outside", "fresh")]
        used.append([by, *(_median(end, "epsilon") for end in ends), " ".join(dict.fromkeys(whole)) or None, *counted])
        if any(end and "pure" in end[0] for end in ends):
            pure.append([by, *(_median(end, "pure") for end in ends)])
    headings = ["by", *(f"{name}, Zipf {zipf}" for name, zipf in CASES)]
    return [
        Table.of("epsilon at delta 1e-6, medians", [*headings, "whole budgets", "outside alpha", "of"], used),
        Table.of("without a delta", headings, pure),
    ]


def _in_sum(last: Measurements) -> bool:
    used = {by: np.median(last.where(by=by)["epsilon"]) for by in STEPS}
    alone = [by for by in STEPS if by.startswith(("free misses", "and "))]
    return bool(used["the same, releases first"] < min(used[by] for by in alone))


def _median(rows: Measurements, column: str) -> float | None:
    return float(np.median(rows[column])) if rows else None


def _steps(last: Measurements, name: str) -> Table:
    """What each improvement brings, alone and in sum."""
    lines = []
    for by in (by for by in STEPS if last.where(by=by)):
        ends = last.where(by=by)
        figures = [float(np.median(ends[column])) for column in ("hard", "counts", "share", "epsilon")]
        released = figures[1] - figures[0]
        spent = f"{100 * figures[2]:.3g} %"
        worst, unverified = float(max(ends["largest"])), int(sum(ends["asked"] - ends["verified"]))
        milliseconds = float(np.median(ends["milliseconds"]))
        lines.append(
            [by, figures[0], released, spent, float(ends["budget"][0]), figures[3], worst, unverified, milliseconds]
        )
    headings = ["step", "hard", "released", "spent", "whole budget", "epsilon", "largest error", "unverified", "ms"]
    return Table.of(f"each improvement on {name}, alone and in sum; medians", headings, lines)


def answerer(by: str, workload: Workload, wanted: Wanted, trial: int, seed: int) -> Answering:
    """One way to answer, on the rows of this trial."""
    given = (workload, workload.counts(trial), wanted, seed)
    if made := (PUBLISHED | RELEASES).get(by):
        return made(*given)
    whole, matches = by == SESSION, STEPS.get(by, {}).get("matches", True)
    opening = opened(workload, wanted, TAUGHT if whole else by)
    return OwnWeights(*given, opening=opening, whole=whole, matches=matches)


def told(answering: Answering, asked: int) -> Row:
    """What it was charged until then, and for what."""
    if isinstance(answering, OwnWeights):
        counted = {
            "counts": answering.released + answering.hits,
            "vectors": 0,
            "hard": answering.hits,
            "verified": asked - answering.unverified,
        }
        spent = {"epsilon": answering.promised, "share": answering.share}
        return {**spent, "budget": float(answering.budget), **counted}
    charged = answering.charged
    counts = sum(times for event, times in charged.items() if isinstance(event, DiscreteLaplace | ZeroConcentrated))
    counted = {"counts": counts, "vectors": sum(charged.values()) - counts, "verified": asked}
    pure = {} if math.isinf(total := pure_total(charged)) else {"pure": total}
    return {"epsilon": renyi_total(charged), **pure, **counted}
