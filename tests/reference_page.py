"""Renders docs/reference.md from the docstrings: python -m tests.reference_page > docs/reference.md."""

import inspect
import sys

import chary
import chary.audit
import chary.growing
import chary.learning
import chary.streaming

GROUPS = {
    "Opening": ("open", "open_series", "open_stream", "open_rows", "Budget", "Neighbouring", "Relation", "Ballots"),
    "Questions": ("count", "total", "mean", "histogram"),
    "Universes": ("Universe", "Bins"),
    "Private algorithms": ("Algorithm",),
    "Randomized response": ("RandomizedResponse",),
    "The session": ("Session",),
    "Answers": (
        "Answer",
        "Answers",
        "Conditional",
        "WatchResult",
        "Outcome",
        "Pair",
        "Tracker",
        "Tracked",
        "Race",
        "RaceOutcome",
        "Randomized",
        "ShareEstimate",
        "Top",
        "Selected",
        "Chosen",
        "Coverage",
        "IndividualStream",
        "LivingCount",
        "Winner",
        "ThresholdRun",
        "FirstAbove",
        "SparseVector",
        "SparseTest",
        "SparseWatch",
        "SparseAccuracy",
        "SparseQuote",
        "GrowingSparseVector",
        "GrowingTest",
        "GrowingRound",
        "GrowingAccuracy",
        "DistinctCount",
        "DistinctEstimate",
        "PublicWeights",
        "SparseWeights",
        "WeightedAnswer",
        "WeightsQuote",
        "SparseWeightsQuote",
        "SmallDatabase",
        "SyntheticHistogram",
        "MeasuredQuery",
        "BlackBox",
        "ContinualCount",
        "RunningCount",
        "Schedule",
        "ScheduledRun",
        "PlannedRun",
        "Label",
        "Interval",
        "Quantile",
        "QuantileAnswers",
        "Quote",
        "Spending",
        "Entry",
        "Version",
        "PlainComposition",
    ),
    "Planning": ("advise", "Advice", "Option", "Unfit", "plan", "compose"),
}
PACKAGES = {
    "Growing databases": chary.growing,
    "Robust streams": chary.streaming,
    "Private learning": chary.learning,
    "Attacks": chary.audit,
}


def render():
    """The whole page."""
    errors = tuple(name for name in chary.__all__ if _is_error(name))
    parts = ["# Reference", "Every public name with its docstring. This page is written by `make reference`."]
    for title, names in (GROUPS | {"Errors": errors}).items():
        parts.append(f"## {title}")
        parts += [part for name in names for part in _entry(chary, name)]
    for title, package in PACKAGES.items():
        parts.append(f"## {title}")
        parts += [part for name in package.__all__ for part in _entry(package, name)]
    return "\n\n".join(parts) + "\n"


def _is_error(name):
    thing = getattr(chary, name, None)
    return inspect.isclass(thing) and issubclass(thing, chary.CharyError)


def _entry(package, name):
    thing = getattr(package, name)
    yield f"### `{package.__name__}.{name}`"
    if not _is_error(name) and (inspect.isfunction(thing) or inspect.isclass(thing)):
        yield f"```text\n{name}{_parameters(thing)}\n```"
    yield _text(thing)
    for attribute, member in _members(thing) if inspect.isclass(thing) and not _is_error(name) else ():
        if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"**`{attribute}{_parameters(member)}`**"
            yield _text(getattr(thing, attribute))


def _members(thing):
    """What a class defines, and then what it inherits from classes of ours."""
    ours = [base for base in thing.__mro__ if base.__module__.startswith("chary")]
    return {name: member for base in reversed(ours) for name, member in vars(base).items()}.items()


def _parameters(thing):
    """Names and defaults; types are in the docstrings' words."""
    if isinstance(thing, property):
        return ""
    given = inspect.signature(thing).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in given if p.name != "self"]
    return str(inspect.Signature(plain))


def _text(thing):
    """The docstring; examples as code."""
    lines, fenced = [], False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if line.startswith(">>>") and not fenced:
            lines.append("```python")
            fenced = True
        if fenced and not line:
            lines.append("```")
            fenced = False
        lines.append(line)
    return "\n".join([*lines, "```"] if fenced else lines)


if __name__ == "__main__":
    sys.stdout.write(render())
