"""Prints a page of every public name from the docstrings: python -m tests.reference_page."""

import inspect
import sys

import chary
import chary.advise
import chary.audit
import chary.calls
import chary.growth
import chary.learning
import chary.report
import chary.session
import chary.streaming
import chary_research.experiments
from chary.calls import kinds
from chary.calls.call import SUBJECTS
from chary.calls.run import Opening, run_of

GROUPS = {
    "Opening": (
        "open",
        "open_counts",
        "open_votes",
        "CSVFormat",
        "Blocks",
        "Budget",
        "NeighborRelation",
        "Neighbors",
        "Votes",
        "check",
    ),
    "Questions": ("count", "sum", "mean", "histogram", "statistic"),
    "Universes": ("Universe", "Bins"),
    "Private algorithms": ("Algorithm",),
    "The session": ("Session",),
    "Planning": ("plan",),
}
PACKAGES = {
    "Sessions' figures": chary.session,
    "Public reports": chary.report,
    "Advice": chary.advise,
    "Growing databases": chary.growth,
    "Robust streams": chary.streaming,
    "Private learning": chary.learning,
    "Auditing": chary.audit,
    "Attacks": chary_research.attacks,
    "Experiments": chary_research.experiments,
}
# What a session is made of, which analysts do not use.
UNTOLD = ("EXPERIMENTS", "STEPS", "Settings", "Spine", "entry_budget", "unit_budget")


def render():
    """The whole page."""
    errors = tuple(name for name in chary.__all__ if _is_error(name))
    parts = ["# Reference", "Every public name with its docstring, written by `make reference`."]
    for title, names in (GROUPS | {"Errors": errors}).items():
        parts.append(f"## {title}")
        parts += [part for name in names for part in _entry(chary, name)]
    for subject, title in SUBJECTS.items():
        parts.append(f"## Calls: {title}")
        parts += [part for kind in calls_of(subject) for part in _call(kind)]
    parts.append("## Answers and what calls share")
    parts += [part for name in shared() for part in _entry(chary.calls, name)]
    for title, package in PACKAGES.items():
        parts.append(f"## {title}")
        told = [name for name in package.__all__ if name not in chary.__all__ and name not in UNTOLD]
        parts += [part for name in told for part in _entry(package, name)]
    return "\n\n".join(parts) + "\n"


def calls_of(subject):
    """The kinds of call of one room, in the order of their names."""
    return sorted((kind for kind in kinds().values() if kind.subject == subject), key=lambda kind: kind.__name__)


def shared():
    """What `chary.calls` has beside its calls."""
    return [name for name in chary.calls.__all__ if getattr(chary.calls, name) not in kinds().values()]


def _call(kind):
    """One kind of call: how it is written, what it promises, and how its run is asked."""
    yield f"### `chary.calls.{kind.__name__}`"
    yield f"```text\n{kind.__name__}{_parameters(kind)}\n```"
    yield f"The kind `{kind.kind}` of calls. {_text(kind)}"
    if issubclass(kind, Opening):
        yield _text(run_of(kind.kind))


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
