"""Two examples of the lectures: what a study reveals about a smoker, and a holdout that is looked at too often."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import betabinom, binom

from chary.data import count
from chary.demo.panel import of_year, people
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open
from chary_research.attacks import guess_limit
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, TOLD, legend_below, log_ticks
from chary_research.reuse import random_labels

Floats = NDArray[np.float64]

# The smoker of [INTRO]: here, whoever is known to have many chronic diseases, and would not say how often they see a
# doctor. The study publishes one number: how many of such people do so four times a year or more.

OPENLY: Final = 30
OFTEN: Final = 4
# The probability that is left out where noise has no end.
TAIL: Final = 1e-12
# What an observer believes beforehand weighs as much as this many people seen.
WEIGHT: Final = 2
QUESTIONS: Final = 10


class Study:
    """The people with the trait, one of whom, with the sensitive value, may take part or stay away.

    >>> Study().rows.num_rows, round(Study().before, 2)
    (135, 0.27)
    """

    def __init__(self) -> None:
        everybody = of_year(people(), 1)
        self.rows: pa.Table = everybody.filter(pc.field("disea") >= OPENLY)
        self.before = float((everybody["mdvis"].to_numpy() >= OFTEN).mean())
        self.person = int(np.flatnonzero(self.rows["mdvis"].to_numpy() >= OFTEN)[0])

    def without(self) -> pa.Table:
        """The rows if the person stays away."""
        return pa.concat_tables([self.rows[: self.person], self.rows[self.person + 1 :]])


def believed(answers: NDArray[np.int64], *, epsilon: float, people: int, before: float, took_part: bool) -> Floats:
    """The probability that X has the value, for an observer who knows the trait, the answer and no row.

    Beforehand the rate among people with the trait has a Beta(a, b) distribution with the mean `before`. All rows are
    alike to this observer. If k of the n people in the study have the value, a participant is one of them with
    probability k/n. Somebody else has it with probability (k + a)/(n + a + b).

    >>> believed(np.array([90]), epsilon=10.0, people=100, before=0.25, took_part=True).round(3).tolist()
    [0.9]
    """
    a, b = WEIGHT * before, WEIGHT * (1 - before)
    having = np.arange(people + 1)
    likely = betabinom.logpmf(having, people, a, b) - epsilon * np.abs(answers[:, None] - having[None, :])
    weights = np.exp(likely - likely.max(axis=1, keepdims=True))
    rates = having / people if took_part else (having + a) / (people + a + b)
    found: Floats = weights @ rates / weights.sum(axis=1)
    return found


def laplace_noise(epsilon: float) -> tuple[NDArray[np.int64], Floats]:
    """The noise of a count, `P(k) ~ exp(-epsilon |k|)`, but for a rare tail: its values and their probabilities.

    >>> noise, chances = laplace_noise(1)
    >>> round(chances.sum().item(), 9), round(chances[noise == 0].item(), 4)
    (1.0, 0.4621)
    """
    most = math.ceil(-math.log(TAIL) / epsilon)
    noise = np.arange(-most, most + 1)
    return noise, np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(noise))


def participation(epsilon: float, questions: int) -> dict[str, float]:
    """How well an observer who knows all other rows learns, from several counts, whether the person took part.

    Beforehand both are equally likely. Each count has an equal part of epsilon. An answer with discrete Laplace noise
    is e^part or e^-part times as likely with the person as without, so the number of each kind is binomial.
    `surest` is the largest probability of participation after any answers, `guessed` that of guessing right.

    >>> [round(participation(1.0, many)["guessed"], 3) for many in (1, 10)]
    [0.731, 0.561]
    """
    part, told = epsilon / questions, np.arange(questions + 1)
    odds = part * (2 * told - questions)
    guessed = binom.pmf(told, questions, guess_limit(part)) @ (1 + np.sign(odds)) / 2
    return {"surest": float(1 / (1 + math.exp(-odds.max()))), "guessed": float(guessed)}


class SmokerStudy(Experiment):
    """Left: what a study teaches about one person. Right: what it reveals about whether they took part."""

    name = "smoker"
    shows = "What a study reveals about somebody with an open trait, and about whether they took part."
    source = "[INTRO], the smoker example"
    size = (10.0, 3.6)
    epsilons: Final = ("0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "4")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        return [{"epsilon": epsilon, "took_part": part} for epsilon in self.epsilons for part in (True, False)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        study, size, part = Study(), float(settings["epsilon"]), settings["took_part"]
        rows = study.rows if part else study.without()
        having = int((rows["mdvis"].to_numpy() >= OFTEN).sum())
        noise, chances = laplace_noise(size)
        seen = np.append(having + noise, self._answered(rows, settings["epsilon"], seed))
        known: dict[str, Any] = {"people": rows.num_rows, "before": study.before, "took_part": part}
        *beliefs, session = believed(seen, epsilon=size, **known)
        mean = float(beliefs @ chances)
        spread = float(np.sqrt((np.array(beliefs) - mean) ** 2 @ chances))
        row = {"rate": having / rows.num_rows, "believed": mean, "spread": spread, "session": float(session)}
        for many in (1, QUESTIONS):
            row |= {f"{name}_{many}": value for name, value in participation(size, many).items()}
        return [{**settings, **known, **row, "limit": guess_limit(settings["epsilon"])}]

    def _answered(self, rows: pa.Table, epsilon: str, seed: int) -> int:
        asked = count(f"mdvis >= {OFTEN}")
        opened: dict[str, Any] = {"privacy_unit": "zper", "ledger": ":memory:", "unsafe_noise": Seeded(seed)}
        with open(rows, **opened, budget=Budget(epsilon)) as session:
            return int(session.release(asked, epsilon=epsilon).value)

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        epsilons = [float(epsilon) for epsilon in found.distinct("epsilon")]
        with_her, without = (found.where(took_part=part) for part in (True, False))
        # Both lie nearly on each other: pale and wide below.
        pale, line = {"alpha": 0.35, "linewidth": 6}, {"linewidth": 1.5}
        for part, style, mark, told in ((without, pale, "o", "X stays away"), (with_her, line, "x", "X takes part")):
            panes[0].plot(
                epsilons, part["believed"], color=COLOURS["session"], label=f"after the study, {told}", **style
            )
            panes[0].plot(epsilons, part["session"], mark, color=COLOURS["session"], label=f"after one session, {told}")
        low, high = with_her["believed"] - with_her["spread"], with_her["believed"] + with_her["spread"]
        panes[0].fill_between(epsilons, low, high, color=COLOURS["session"], alpha=0.12, linewidth=0)
        panes[0].plot(epsilons, with_her["before"], ":", color=TOLD, label="before the study")
        panes[0].set(title="does X see a doctor often? (only the trait is known)", ylabel="belief", ylim=(0, 1))
        panes[1].plot(epsilons, np.ones(len(epsilons)), color=COLOURS["exact answers"], label="an exact count")
        panes[1].plot(epsilons, with_her["limit"], "--", color=TOLD, label="limit: odds of e^epsilon")
        panes[1].plot(epsilons, with_her["surest_1"], "o", color=COLOURS["Laplace"], label="one count, surest answer")
        many = with_her[f"guessed_{QUESTIONS}"]
        panes[1].plot(epsilons, many, "s-", color=COLOURS["Laplace"], label=f"{QUESTIONS} counts, guessed right")
        panes[1].set(title="did X take part? (all other rows are known)", ylabel="belief", ylim=(0.45, 1.03))
        for axes in panes:
            axes.set_xlabel("epsilon")
            log_ticks(axes, epsilons, most=8)
        legend_below(figure, *panes, columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        both = [found.where(took_part=part) for part in (True, False)]
        learned = [part.where(epsilon="1")["believed"][0] - part["before"][0] for part in both]
        apart = np.abs(both[0]["believed"] - both[1]["believed"])
        one, ten = found["surest_1"], found[f"guessed_{QUESTIONS}"]
        return [
            Trend(
                "at epsilon 1 the study raises the belief by more than a quarter, whether or not X takes part",
                min(learned) > 0.25,
            ),
            Trend(
                "what is believed then hardly depends on whether X takes part: by less than 0.01", np.all(apart < 0.01)
            ),
            Trend(
                "nearly all of it is what there is to learn of the trait",
                np.all(np.abs(found.where(epsilon="4")["believed"] - found.where(epsilon="4")["rate"]) < 0.02),
            ),
            Trend(
                "nobody is surer that X took part than odds of e^epsilon", np.all(one <= found["limit"] * (1 + 1e-9))
            ),
            Trend("one count attains that", np.all(one >= found["limit"] * (1 - 1e-9))),
            Trend("ten counts together are guessed from less often", np.all(ten < found["limit"])),
            Trend("at epsilon 0.1 it is nearly a coin", np.all(found.where(epsilon="0.1")["limit"] < 0.53)),
        ]


# Adaptive analysis ([SVT] Example 1): variables that are chosen by a holdout, and judged by the same holdout.

ROWS: Final = 4000
TOLERANCE: Final = "0.05"
VOTES: Final = (1, 10, 30, 100, 300)
# Variables that go with the label, and in how many rows each of them agrees with it.
INFORMATIVE: Final = 20
AGREEMENT: Final = "0.53"


class AdaptiveAnalysis(Experiment):
    """Votes of variables that looked best, on labels that nothing predicts and on labels that twenty of them do."""

    name = "adaptive-analysis"
    shows = "Adaptive analysis: a holdout that is looked at again and again, and a reusable one."
    source = "[SVT] Example 1; Dwork, Feldman, Hardt, Pitassi, Reingold and Roth, Science 349 (2015)"
    size = (10.0, 5.6)
    cases: Final = ((0, "nothing predicts the label"), (INFORMATIVE, f"{INFORMATIVE} variables do"))
    holders: Final = (
        ("naive", "holdout looked at", COLOURS["published"]),
        ("reusable", "reusable holdout", COLOURS["target charging"]),
    )
    told: Final = ("training", "holdout", "fresh")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        rows, variables, runs = (ROWS, 300, 2) if quick else (ROWS, 1000, 10)
        return [
            {"informative": known, "rows": rows, "variables": variables, "run": run}
            for known, _ in self.cases
            for run in range(runs)
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        made = {name: settings[name] for name in ("rows", "variables", "informative")}
        found = random_labels(
            **made, chosen=VOTES, agreement=AGREEMENT, tolerance=TOLERANCE, budget=Budget(2, "1e-6"), seed=seed
        )
        told = {"disagreements": found.disagreements, "share": found.share, "asked": found.asked}
        return [
            {**settings, "holder": holder, "chosen": each.variables, **told}
            | {name: getattr(each, name) for name in self.told}
            for holder, *_ in self.holders
            for each in getattr(found, holder)
        ]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(2, 2, sharex=True, sharey=True)
        for line, (known, case) in zip(panes, self.cases, strict=True):
            for axes, (holder, title, colour) in zip(line, self.holders, strict=True):
                training, holdout, fresh = (
                    _by_votes(found.where(informative=known, holder=holder), name) for name in self.told
                )
                axes.plot(VOTES, training, "o:", markersize=3, color=COLOURS["published filter"], label="training rows")
                axes.plot(VOTES, holdout, "o-", markersize=3, color=colour, label=f"as the {title} says")
                axes.plot(VOTES, fresh, "s--", markersize=3, color=TOLD, label="fresh rows: the truth")
                axes.axhline(0.5, color=TOLD, linewidth=0.6)
                axes.set_title(f"{title}; {case}", fontsize=9)
                log_ticks(axes, VOTES)
            line[0].set_ylabel("accuracy")
        for axes in panes[1]:
            axes.set_xlabel("variables in the vote")
        legend_below(figure, *panes[0], columns=4)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        naive, kept = (
            [found.where(holder=holder, informative=known) for known, _ in self.cases] for holder, *_ in self.holders
        )
        gone = [np.abs(part["holdout"] - part["fresh"]).max() for part in kept]
        return [
            Trend(
                "labels that nothing predicts are not predicted",
                np.all(np.abs(found.where(informative=0)["fresh"] - 0.5) < 0.02),
            ),
            Trend(
                "a holdout that is looked at says that more than 55 % of them are",
                _by_votes(naive[0], "holdout").max() > 0.55,
            ),
            Trend("a reusable one is never off by more than its tolerance and noise", max(gone) < 0.1),
            Trend(
                "of 30 variables and more it says less than 52 % on the whole",
                _by_votes(kept[0], "holdout")[2:].mean() < 0.52,
            ),
            Trend("variables that do predict are found with it", _by_votes(kept[1], "fresh").max() > 0.57),
            Trend(
                "and it says so within 3 %",
                abs(_by_votes(kept[1], "holdout")[1] - _by_votes(kept[1], "fresh")[1]) < 0.03,
            ),
            Trend("its budget lasts", np.all(found["share"] < 1)),
        ]


def _by_votes(part: Measurements, name: str) -> Floats:
    """Means over runs, for each number of variables."""
    return np.array([part.where(chosen=votes)[name].mean() for votes in VOTES])
