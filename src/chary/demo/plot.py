"""The picture of the demonstration: hits, the same by releasing everything, and what a budget buys."""

from pathlib import Path
from typing import Any, Final

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter

from chary.demo.story import TESTS, THRESHOLD, Story, noisy

matplotlib.use("Agg")
OWN, OTHER, FALSE, LINE = "#1f5fa8", "#b9b9b9", "#c0392b", "#444444"
# The simulated noise of the other method is the same in every picture.
_SEED: Final = 20


def draw(story: Story, path: Path) -> None:
    """Write a PNG; truths are shown next to answers because these data are public."""
    with matplotlib.rc_context({"text.parse_math": False}):  # labels hold dollar signs
        figure = plt.figure(figsize=(16, 10), layout="constrained")
        halves: Any = figure.subfigures(1, 2, width_ratios=(1.1, 1))
        _hits(halves[0].subplots(), story)
        parts = halves[1].subfigures(3, 1, height_ratios=(2, 0.9, 1.4))
        for part, drawing in zip(parts, (_cloud, _methods, _budget), strict=True):
            drawing(part.subplots(), story)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _hits(axes: Axes, story: Story) -> None:
    """Every hit, largest first."""
    hits = sorted(story.hits, key=lambda hit: -hit.value)
    for place, hit in enumerate(hits):
        ends, color = [[max(0, hit.value - hit.low)], [max(0, hit.high - hit.value)]], FALSE if hit.false else OWN
        axes.errorbar(hit.value, place, xerr=ends, fmt="o", color=color, ms=5, capsize=2)
    axes.plot([hit.truth for hit in hits], range(len(hits)), "kx", ms=5, label="truth (these data are public)")
    axes.errorbar([], [], xerr=[], fmt="o", color=OWN, capsize=2, label="published, 95 % interval")
    axes.plot([], [], "o", color=FALSE, label="false alarm: the truth is below the threshold")
    axes.axvline(THRESHOLD, color=LINE, ls="--", lw=1, label=f"threshold: {THRESHOLD:,} people")
    axes.set_yticks(range(len(hits)), [hit.label for hit in hits], fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set(title=f"{len(hits)} hits among {TESTS:,} tests", xlabel="people")
    axes.figure.legend(loc="outside lower center", ncols=2, fontsize=9)


def _cloud(axes: Axes, story: Story) -> None:
    """All answers of a Gaussian release against the truth, and the hits among them."""
    released = noisy(story, _SEED)
    axes.plot(
        story.truths, released, ".", color=OTHER, ms=2, rasterized=True, label="Gaussian release of all (simulated)"
    )
    ends = (min(story.truths), max(story.truths))
    axes.plot(ends, ends, color="black", lw=0.8, label="the truth")
    axes.plot([h.truth for h in story.hits], [h.value for h in story.hits], "o", color=OWN, ms=4, label="chary's hits")
    axes.axhline(THRESHOLD, color=LINE, ls="--", lw=1)
    false = int(np.sum((released >= THRESHOLD) & (np.array(story.truths) < THRESHOLD)))
    own = sum(hit.false for hit in story.hits)
    axes.set(
        title=f"False alarms under the same guarantee: release of all {false:,}, chary {own}",
        xlabel="truth",
        ylabel="published",
    )
    axes.legend(loc="lower right", fontsize=8, markerscale=2)


def _methods(axes: Axes, story: Story) -> None:
    """The error of the tests of each method."""
    errors = [method.tests for method in story.methods]
    bars = axes.barh([m.name for m in story.methods], errors, color=[OWN, *[OTHER] * (len(errors) - 1)])
    axes.bar_label(bars, [f"±{error:,.0f}" for error in errors], padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=f"Error of all {TESTS:,} tests together, 95 % confidence", xticks=[])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _budget(axes: Axes, story: Story) -> None:
    """The budget spent, question by question, at the precision of these tests."""
    places = [1, *(hit.place for hit in story.hits), len(story.truths)]
    spent = 100 * (story.misses + story.price_of_hit * np.arange(len(story.hits) + 1))
    axes.step(places, [*spent, spent[-1]], where="post", color=OWN, lw=2, label="chary: misses prepaid, then hits")
    counts, label = np.arange(1, story.answers + 1), f"Gaussian release within ±{story.methods[0].tests:,.0f}"
    axes.plot(counts, 100 * counts / story.answers, color="grey", lw=2, label=label)
    axes.plot(story.answers, 100, "X", color=FALSE, ms=9)
    told = f"spent after {story.answers:,}"
    axes.annotate(told, (story.answers, 100), (-9, -11), textcoords="offset points", ha="right", fontsize=9)
    axes.axhline(100, color=FALSE, lw=0.8)
    axes.set(xscale="log", ylim=(0, 110), xlabel="questions", ylabel="% spent")
    axes.set_title("Budget spent, question by question")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(loc="center left", fontsize=8)
