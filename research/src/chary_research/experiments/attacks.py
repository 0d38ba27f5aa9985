"""Attacks on answers, on sessions and on classifiers, next to what no attacker can do better."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chary.demo.panel import first_year, of_year, people
from chary_research import attacks
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, legend_below, log_ticks

# The attacks of the lecture on exact answers and on sessions, beside what no attacker can do better.

PUBLIC: Final = ("age", "female", "site", "plan")
SECRET: Final = "visits"
_RAW, _ROUGH, _SESSION = (COLOURS[name] for name in ("exact answers", "rounded answers", "session"))


class LinkageAttack(Experiment):
    """A table without names joined with a register, and the same people asked about in a session."""

    name = "attack-linkage"
    shows = "Linkage: doctor visits of people known by four public columns, from a release and from a session."
    source = "[INTRO], the public data sets; RAND panel, year 1"
    size = (6.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        repeats = 2 if quick else 10
        return [{"epsilon": epsilon, "repeats": repeats} for epsilon in ("0.1", "0.5", "1", "2", "4")]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        rows, asked = first_year(), {"quasi": PUBLIC, "sensitive": SECRET, "epsilon": settings["epsilon"]}
        found = [attacks.linkage(rows, **asked, seed=seed + run) for run in range(settings["repeats"])]
        first = found[0]
        session = float(np.mean([each.private_accuracy for each in found]))
        known = {"people": first.reidentified, "right": first.right, "rows": first.rows, "limit": first.limit}
        return [{**settings, **known, "session": session, "commonest": first.baseline}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        epsilons = [float(epsilon) for epsilon in found["epsilon"]]
        axes.plot(epsilons, 100 * found["right"] / found["people"], "x-", color=_RAW, label="release without names")
        axes.plot(epsilons, 100 * found["session"], "o-", color=_SESSION, label="session")
        axes.plot(epsilons, 100 * found["limit"], "k--", label="limit")
        axes.plot(epsilons, 100 * found["commonest"], ":", color="grey", label="the commonest value")
        axes.set(title=f"{found['people'][0]:,} of {found['rows'][0]:,} people", xlabel="epsilon", ylabel="% right")
        log_ticks(axes, epsilons)
        legend_below(figure, axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        room = 5 * np.sqrt(0.25 / found["people"] / found["repeats"])
        return [
            Trend("people who are the only one of a kind are found again", np.all(found["right"] == found["people"])),
            Trend("more than a third of the people are", np.all(found["people"] > found["rows"] / 3)),
            Trend("against a session nobody passes the limit", np.all(found["session"] <= found["limit"] + room)),
            Trend(
                "at epsilon 0.1 a session gives nearly nothing away", found["session"][0] < found["commonest"][0] + 0.05
            ),
        ]


class DifferencingAttack(Experiment):
    """One person's bit from two counts, or from one count by who knows all others."""

    name = "attack-differencing"
    shows = "Differencing: one person's bit, guessed from counts."
    source = "[INTRO], counts that differ in one person"
    size = (6.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 150 if quick else 2000
        return [
            {"epsilon": epsilon, "informed": informed, "sessions": sessions}
            for informed in (False, True)
            for epsilon in ("0.1", "0.5", "1", "2", "4")
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = attacks.differencing(**settings, seed=seed)
        names = ("raw_accuracy", "accuracy", "low", "high", "limit")
        return [{**settings, **{name: getattr(found, name) for name in names}}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        for informed, marker, colour in ((False, "s", "#56b4e9"), (True, "o", _SESSION)):
            part = found.where(informed=informed)
            epsilons = [float(epsilon) for epsilon in part["epsilon"]]
            ends = part["accuracy"] - part["low"], part["high"] - part["accuracy"]
            told = "session, who knows all others" if informed else "session, two counts"
            axes.errorbar(epsilons, part["accuracy"], ends, fmt=marker, capsize=3, color=colour, label=told)
        axes.plot(epsilons, part["raw_accuracy"], "x", color=_RAW, label="exact counts")
        line = np.geomspace(min(epsilons), max(epsilons), 100)
        axes.plot(line, [attacks.guess_limit(epsilon) for epsilon in line.tolist()], "k--", label="limit")
        axes.set(xlabel="epsilon", ylabel="share right", ylim=(0.35, 1.05))
        log_ticks(axes, epsilons)
        legend_below(figure, axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        informed, two = found.where(informed=True), found.where(informed=False)
        touched = (informed["low"] <= informed["limit"]) & (informed["limit"] <= informed["high"])
        return [
            Trend("exact counts always give the bit away", np.all(found["raw_accuracy"] == 1)),
            Trend("against a session nobody passes the limit", np.all(found["low"] <= found["limit"])),
            Trend("who knows all others attains it", np.all(touched)),
            Trend("who needs two counts stays below it", two["accuracy"].mean() < informed["limit"].mean() - 0.05),
        ]


class MembershipAttack(Experiment):
    """Membership in the data, from a mean of many attributes."""

    name = "attack-membership"
    shows = "Membership: who is in the data, traced in a mean of many attributes."
    source = "[INTRO], membership inference"
    size = (6.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 4 if quick else 40
        return [
            {"attributes": attributes, "rows": 100, "sessions": sessions}
            for attributes in (10, 30, 100, 300, 1000, 3000)
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = attacks.membership(epsilon=1, **settings, seed=seed)
        shares = {"exact": found.raw.tpr, "session": found.private.tpr, "limit": found.limit.tpr}
        return [{**settings, **shares, "theory": found.expected_tpr}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes: Axes = figure.subplots()
        axes.plot(found["attributes"], found["exact"], "o-", color=_RAW, label="exact mean")
        axes.plot(found["attributes"], found["theory"], "x", color="black", label="exact mean, theory")
        axes.plot(found["attributes"], found["session"], "o-", color=_SESSION, label="session, epsilon 1")
        axes.plot(found["attributes"], found["limit"], "k--", label="limit")
        axes.set(xlabel="attributes of 100 people", ylabel="members found at 5 % false alarms", ylim=(0, 1.05))
        log_ticks(axes, found.distinct("attributes"), most=6)
        legend_below(figure, axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        people: Any = found["rows"] * found["sessions"]
        room = 6 * np.sqrt(0.25 / people)
        return [
            Trend("the more attributes the more members are found", np.all(np.diff(found["exact"][1:]) > 0)),
            Trend("of 3000 attributes nearly all are", found["exact"][-1] > 0.95),
            Trend("theory foretells it", np.all(np.abs(found["exact"] - found["theory"]) < room + 0.05)),
            Trend("against a session nobody passes the limit", np.all(found["session"] <= found["limit"] + room)),
        ]


# Attacks on counts that are too many or too carelessly noisy, beside their limits.


class ReconstructionAttack(Experiment):
    """Everybody's bit from counts of random groups, by the number of counts."""

    name = "attack-reconstruction"
    shows = "Reconstruction: everybody's bit from counts of random groups, by how many are reported."
    source = "[INTRO], too many counts that are too exact"
    size = (6.0, 3.4)
    people: Final = 80

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 2 if quick else 20
        return [{"counts": counts, "sessions": sessions} for counts in (20, 40, 80, 160, 320)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = attacks.reconstruction(epsilon=1, people=self.people, **settings, seed=seed)
        names = ("exact", "rounded", "private", "baseline", "limit", "off")
        return [{**settings, **{name: getattr(found, name) for name in names}}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(found["counts"], 100 * found["exact"], "x-", color=_RAW, label="exact counts")
        axes.plot(found["counts"], 100 * found["rounded"], "o-", color=_ROUGH, label=f"off by up to {found['off'][0]}")
        axes.plot(found["counts"], 100 * found["private"], "o-", color=_SESSION, label="session, epsilon 1")
        axes.plot(found["counts"], 100 * found["limit"], "k--", label="limit, on average")
        axes.set(xlabel=f"counts published of {self.people} people", ylabel="% of the bits right", ylim=(40, 103))
        log_ticks(axes, found["counts"].tolist())
        legend_below(figure, axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        room = 6 * np.sqrt(0.25 / self.people / found["sessions"])
        return [
            Trend("twice as many counts as people give all bits away", np.all(found["exact"][3:] == 1)),
            Trend("counts that are a little off give nearly all away", found["rounded"][-1] > 0.95),
            Trend("more counts give more away", found["rounded"][-1] > found["rounded"][0]),
            Trend("against a session nobody passes the limit", np.all(found["private"] <= found["limit"] + room)),
        ]


class LowBitsAttack(Experiment):
    """A count under noise in floating-point numbers, distinguished from one more by the last bits."""

    name = "attack-low-bits"
    shows = "Low bits: a count distinguished from one more under noise in floats, and under chary's."
    source = "[INTRO], finite precision"
    size = (6.0, 3.4)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        sessions = 150 if quick else 2000
        return [{"epsilon": epsilon, "sessions": sessions} for epsilon in ("0.01", "0.1", "0.5", "1", "2")]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        found = attacks.low_bits(**settings, seed=seed)
        names = ("naive_accuracy", "certain", "accuracy", "low", "high", "limit")
        return [{**settings, **{name: getattr(found, name) for name in names}}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        epsilons = [float(epsilon) for epsilon in found["epsilon"]]
        ends = found["accuracy"] - found["low"], found["high"] - found["accuracy"]
        axes.plot(epsilons, found["naive_accuracy"], "x-", color=_RAW, label="Laplace noise in floats")
        axes.errorbar(epsilons, found["accuracy"], ends, fmt="o", color=_SESSION, capsize=3, label="session")
        axes.plot(epsilons, found["limit"], "k--", label="limit")
        axes.set(xlabel="epsilon", ylabel="share right", ylim=(0.35, 1.05))
        log_ticks(axes, epsilons)
        legend_below(figure, axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        small = found.where(epsilon="0.01")[0]
        return [
            Trend("noise in floats gives the count away at every epsilon", np.all(found["naive_accuracy"] > 0.65)),
            Trend("most of it although epsilon is 0.01", small["naive_accuracy"] > small["limit"] + 0.1),
            Trend("chary's noise keeps the limit", np.all(found["low"] <= found["limit"])),
        ]


# Attacks on trained classifiers that show how sure they are, beside a private one.


class ClassifierAttacks(Experiment):
    """Inversion and shadow models on the built-in people, by the number of rows of the training data."""

    name = "attack-classifiers"
    shows = "Classifiers: a secret column, and who was in the data, from a model that shows its confidence."
    source = "[TCT] Figure 1; [INTRO]"
    extra = ("learning", "sklearn")
    size = (10.0, 3.4)
    rows: Final = (200, 500, 1500)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        models = 4 if quick else 30
        return [
            {"attack": attack, "rows": rows, "models": models}
            for attack in ("inversion", "shadows")
            for rows in self.rows
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        models: Any = import_module("chary_research.attacks.models")
        asked = {"epsilon": 1, "rows": settings["rows"], "models": settings["models"], "seed": seed}
        found = getattr(models, settings["attack"])(models.built_in_cases(of_year(people(), 1)), **asked)
        if settings["attack"] == "inversion":
            return [{**settings, "raw": found.raw, "private": found.private, "others": found.raw_outsiders}]
        limits = {"limit": found.limit.auc, "others": 0.5}
        return [{**settings, "raw": found.raw.auc, "private": found.private.auc, **limits}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        told = {"inversion": "secret column, % right", "shadows": "members before others, %"}
        for axes, (attack, label) in zip(panes, told.items(), strict=True):
            part = found.where(attack=attack)
            axes.plot(part["rows"], 100 * part["raw"], "x-", color=_RAW, label="a tree, its own people")
            axes.plot(part["rows"], 100 * part["others"], ":", color="grey", label="a tree, other people")
            axes.plot(part["rows"], 100 * part["private"], "o-", color=_SESSION, label="private, epsilon 1")
            if attack == "shadows":
                axes.plot(part["rows"], 100 * part["limit"], "k--", label="limit")
            axes.set(title=attack, xlabel="rows in the training data", ylabel=label)
        legend_below(figure, *figure.axes)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        inversion, shadows = (found.where(attack=attack) for attack in ("inversion", "shadows"))
        # Ranks of this many pairs of people.
        room = 6 * np.sqrt(1 / 12 / shadows["rows"] / shadows["models"])
        return [
            Trend(
                "a tree gives its own people away rather than others",
                np.all(inversion["raw"] > inversion["others"] + 0.05),
            ),
            Trend("a tree distinguishes its own people from others", np.all(shadows["raw"] > 0.6)),
            Trend("a private model keeps the limit", np.all(shadows["private"] <= shadows["limit"] + room)),
            Trend("and gives less away than the tree", np.all(shadows["private"] < shadows["raw"])),
        ]
