"""Values on the wire: typed answers, with their tags."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

from chary import calls, errors
from chary.accounting import intervals, menu_curve, noise_laws, sparse_vector
from chary.accounting.findings import Finding, Findings
from chary.accounting.sharp_tests import SharpTable, SharpTails, SharpTest
from chary.amounts import Amount
from chary.answers import Answer, Known, NoisyNumber, NoisyNumbers, Spending, Table
from chary.calls.answers import AboveOrNot, Gathered
from chary.calls.releases import MeanNoise, NoisyMean, NoisyMeans
from chary.core.forecast import ExpectedHard, Outlook, Within
from chary.core.quote import Alternative, Quote
from chary.data import Predicate, Universe
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.queries import histogram, moments, sums
from chary.data.queries.stored import CURRENT, STORED
from chary.filters import exact, filter
from chary.ledger import Parts
from chary.mechanisms import additive, local_reports, weights, workloads
from chary.report.content import PublishedValue, ReportedCall, ReportedDataset, SimultaneousHit
from chary.report.public_report import PublicReport

# Typed values on the wire: their tags, and how answers are written and read.

# The tags of classes on the wire and in the service's own database. They never change.
#
# Answers that were published are kept there in these words, so a tag stays when its class is renamed or moves. Answers
# of calls are called as their classes: of one that is renamed the old name is added here.

TAGS: Final[Mapping[str, type[Any]]] = {
    "AboveOrNot": AboveOrNot,
    "Alternative": Alternative,
    "Amount": Amount,
    "Bin": histogram.Bin,
    "Budget": filter.Budget,
    "CategoryReports": local_reports.KRandomizedResponse,
    "Chosen": calls.Chosen,
    "Combination": intervals.Combination,
    "ExactFilter": exact.ExactFilter,
    "ExpectedHard": ExpectedHard,
    "Exponents": weights.Exponents,
    "Finding": Finding,
    "Findings": Findings,
    "Gathered": Gathered,
    "Gaussian": additive.Gaussian,
    "GaussianLaw": noise_laws.GaussianLaw,
    "HashedReports": local_reports.LocalHashing,
    "Known": Known,
    "Laplace": additive.Laplace,
    "LaplaceLaw": noise_laws.LaplaceLaw,
    "LargestOf": intervals.LargestOf,
    "MeanNoise": MeanNoise,
    "MeasuredQuery": calls.MeasuredQuery,
    "MenuCall": menu_curve.MenuCall,
    "MomentNoise": workloads.MomentNoise,
    "Neighbouring": NeighborRelation,
    "NoisyMean": NoisyMean,
    "NoisyMeans": NoisyMeans,
    "NoisyNumber": NoisyNumber,
    "NoisyNumbers": NoisyNumbers,
    "OneHotReports": local_reports.UnaryEncoding,
    "OneSidedNoise": sparse_vector.OneSidedNoise,
    "Outlook": Outlook,
    "Parts": Parts,
    "PublicReport": PublicReport,
    "Publication": intervals.Publication,
    "PublishedValue": PublishedValue,
    "PureFilter": filter.PureFilter,
    "Quote": Quote,
    "RandomizedResponse": local_reports.RandomizedResponse,
    "Relation": Neighbors,
    "RenyiFilter": filter.RenyiFilter,
    "RepeatedReports": local_reports.MemoizedReports,
    "ReportedCall": ReportedCall,
    "ReportedDataset": ReportedDataset,
    "SecondMoments": moments.SecondMoments,
    "SharpTable": SharpTable,
    "SharpTails": SharpTails,
    "SharpTest": SharpTest,
    "Silence": intervals.Silence,
    "SimultaneousHit": SimultaneousHit,
    "SparseTails": sparse_vector.SparseTails,
    "Spending": Spending,
    "Support": intervals.Support,
    "Total": sums.Sum,
    "Within": Within,
} | {
    name: kind
    for name, kind in vars(calls).items()
    if isinstance(kind, type) and issubclass(kind, Answer) and kind not in (Answer, Table)
}

# Tags of answers that are of one class now: its tag, and their fields in the words of today.
MERGED: Final[Mapping[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    "Decided": ("Classified", lambda said: said | {"clear": said["value"] != "boundary"}),
    "Leader": ("ChosenKey", lambda said: {"value" if name == "key" else name: each for name, each in said.items()}),
    "Zoned": ("Classified", lambda said: said | {"clear": said["value"] != "between"}),
}

# Answers and other public values as JSON from which equal ones are made: types are kept, sessions are not.
#
# What JSON has is itself; everything else is an object with one name:
#
# | object | value |
# |---|---|
# | `{"list": [...]}`, `{"dict": [[name, value], ...]}` | a list, a dictionary; a plain array is a tuple |
# | `{"ratio": "1/3"}`, `{"real": "inf"}` | an exact number, a float that is not finite |
# | `{"date": ...}`, `{"time": ...}`, `{"decimal": ...}` | dates, timestamps, decimals as texts |
# | `{"predicate": ...}`, `{"universe": ...}` | what a question was made of, by its own text |
# | `{"of": "NoisyNumber", "fields": {...}}` | a frozen value of the class with that tag, made by its constructor |
#
# Tags are those of `tags`; a class that has none there goes by its own name. Only the classes of public values are
# made, whatever a text says. What is code, such as how an answer is revised, stays behind.

# Where the classes of public values are: all of them hold figures and texts alone.
_MODULES: Final = (
    "chary.accounting",
    "chary.amounts",
    "chary.answers",
    "chary.calls",
    "chary.data",
    "chary.filters",
    "chary.core.forecast",
    "chary.core.quote",
    "chary.mechanisms",
    "chary.report",
    "chary.session",
)
_LEFT_OUT: Final = frozenset({"_cashier"})
# Fields that earlier versions do not know: left out if they have their default.
_IF_SAID: Final = frozenset(
    {"block", "blocks", "guarantee", "hard_answers", "title", "introduction", "limits", "window", "by_test", "clearing"}
)
# Fields of earlier versions, which are ignored.
GONE: Final = frozenset({"extender", "reviser"})
_TEXTS: Final[tuple[tuple[str, type, Callable[[Any], str], Callable[[str], Any]], ...]] = (
    ("ratio", Fraction, str, Fraction),
    ("decimal", Decimal, str, Decimal),
    ("time", datetime, datetime.isoformat, datetime.fromisoformat),
    ("date", date, date.isoformat, date.fromisoformat),
    ("predicate", Predicate, lambda predicate: predicate.text, Predicate.parse),
    (
        "universe",
        Universe,
        lambda universe: json.dumps(universe.body()),
        lambda text: Universe.of_body(json.loads(text)),
    ),
)

_TAG_OF: Final[Mapping[type, str]] = {kind: tag for tag, kind in TAGS.items()}
_READERS: Final = {name: read for name, _, _, read in _TEXTS}


def in_typed(value: Any) -> Any:
    """A public value as JSON.

    >>> in_typed((1, Fraction(1, 3), {"a": [2.5]}))
    [1, {'ratio': '1/3'}, {'dict': [['a', {'list': [2.5]}]]}]
    """
    if isinstance(value, Neighbors):
        return {"of": _tag(Neighbors), "fields": {"value": value.stored}}
    if isinstance(value, Enum):
        return {"of": _tag(type(value)), "fields": {"value": value.value}}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"real": str(value)}
    if isinstance(value, np.generic):
        return in_typed(value.item())
    for name, kind, write, _ in _TEXTS:
        if isinstance(value, kind):
            return {name: write(value)}
    return _composed(value)


def of_typed(written: Any) -> Any:
    """The value that was written; `InvalidParameter` for what `in_typed` does not write.

    >>> of_typed(in_typed({("a", 1): Fraction(1, 3)}))
    {('a', 1): Fraction(1, 3)}
    """
    if isinstance(written, list):
        return tuple(map(of_typed, written))
    if not isinstance(written, dict):
        return written
    try:
        return _read(written)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise errors.InvalidParameter(
            "this is no value of chary: do the service and the client have one version?"
        ) from None


def _composed(value: Any) -> Any:
    if is_dataclass(value) or hasattr(value, "_fields"):
        written = {STORED.get(name, name): _field(value, name) for name in _made_of(type(value))}
        return {
            "of": _tag(type(value)),
            "fields": {
                name: each for name, each in written.items() if each not in (None, "", False) or name not in _IF_SAID
            },
        }
    if isinstance(value, tuple):
        return [in_typed(inner) for inner in value]
    if isinstance(value, Mapping):
        return {"dict": [[in_typed(name), in_typed(inner)] for name, inner in value.items()]}
    if isinstance(value, (list, np.ndarray)):
        return {"list": [in_typed(inner) for inner in value]}
    raise errors.InvalidParameter(f"a {type(value).__name__} is no public value")


def _field(value: Any, name: str) -> Any:
    found = getattr(value, name)
    return None if callable(found) and not is_dataclass(found) else in_typed(found)


def _made_of(kind: Any) -> list[str]:
    if is_dataclass(kind):
        return [each.name for each in fields(kind) if each.init and each.name not in _LEFT_OUT]
    return list(kind._fields)


def _read(written: dict[str, Any]) -> Any:
    if written.keys() == {"of", "fields"}:
        tag, said = written["of"], written["fields"]
        if tag in MERGED:
            tag, read = MERGED[tag]
            said = read(said)
        kind = _classes()[tag]
        if kind is Neighbors:
            return Neighbors.of_stored(said["value"])
        return kind(**{CURRENT.get(name, name): of_typed(inner) for name, inner in said.items() if name not in GONE})
    ((name, inner),) = written.items()
    if name == "list":
        return [of_typed(each) for each in inner]
    if name == "dict":
        return {of_typed(key): of_typed(value) for key, value in inner}
    return float(inner) if name == "real" else _READERS[name](inner)


def _tag(kind: type) -> str:
    """The tag of a class."""
    return _TAG_OF.get(kind, kind.__name__)


@cache
def _classes() -> Mapping[str, Any]:
    """The classes of public values by tag; no two have the same."""
    import_module("chary.calls"), import_module("chary.report"), import_module("chary.session")
    modules = [sys.modules[name] for name in sorted(sys.modules) if name.startswith(_MODULES)]
    found = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    named = {_tag(kind): kind for kind in found if kind.__module__.startswith(_MODULES) and _is_value(kind)}
    return {**TAGS, **named}


def _is_value(kind: Any) -> bool:
    made: Any = kind
    frozen = is_dataclass(kind) and made.__dataclass_params__.frozen
    return frozen or issubclass(kind, Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
