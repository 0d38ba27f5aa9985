"""Attacks on trained classifiers that show how sure they are, beside a private one."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.demo.panel import of_year, people
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.measurements import Measurements, Row

_RAW, _SESSION = "#d55e00", "#0072b2"


class ClassifierAttacks(Experiment):
    """Inversion and shadow models on the built-in people, by the number of rows of the training data."""

    name = "attack-classifiers"
    shows = "Classifiers: a secret column, and who was in the data, from a model that shows how sure it is."
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
        models: Any = import_module("chary.audit.models")
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
            axes.legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        inversion, shadows = (found.where(attack=attack) for attack in ("inversion", "shadows"))
        # Ranks of so many pairs of people.
        room = 6 * np.sqrt(1 / 12 / shadows["rows"] / shadows["models"])
        return [
            Trend(
                "a tree gives its own people away rather than others",
                np.all(inversion["raw"] > inversion["others"] + 0.05),
            ),
            Trend("a tree tells its own people from others", np.all(shadows["raw"] > 0.6)),
            Trend("a private model keeps the limit", np.all(shadows["private"] <= shadows["limit"] + room)),
            Trend("and gives less away than the tree", np.all(shadows["private"] < shadows["raw"])),
        ]
