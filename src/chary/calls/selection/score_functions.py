"""Scores and distances that callers bring: a function of the rows, or queries; and how either becomes whole steps."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational
from typing import Annotated, Any, Final

import numpy as np
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from chary import noise
from chary.calls.algorithms.algorithm import plain_outcome
from chary.data import Query, Reading, Relation, Rows
from chary.data.queries.bodies import query_of
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery

Json = dict[str, Any]
Score = int | float | Fraction
# 2**40 units together move no score farther than that, so nothing is lost where scores start near 0.
MOST_UNITS: Final = 2**40
# What scores are rounded down to: a millionth of what one unit moves.
FINEST: Final = 2**20


@dataclass(frozen=True)
class ScoreFunction:
    """A function of the rows that scores every candidate, or says how far each is from being the true answer.

    `run(rows, candidates, **parameters)` returns one number for each candidate, in their order: whole numbers,
    fractions and floats, which are read as exactly what they are. `rows` is an Arrow table of the named `columns` (all
    without), or an int64 array for a series. `name` and `parameters` are public and identify the question.

    Guarantee needed of the author, which nothing can check: what is said of it where it is used, such as that no
    unit moves a score farther than the sensitivity, holds for the numbers that are *returned*, roundings of floats
    included, for every dataset; and it raises for no dataset, or for all. With `coins=True` it takes a source of
    random words as well, `run(rows, candidates, source, **parameters)`, to draw a sample or a pairing of the rows: then
    the coins of two neighbours can be paired, each with its own law, so that the same holds for every pair. Where that
    holds only if each row is a unit under one `relation`, name it: then every other session refuses the score.

    Errors: `InvalidParameter` for what is no name, no callable, or parameters that are not JSON; `InvalidQuery` in a
    session with other neighbours than `relation` names, before anything is charged.

    >>> def lead(rows, candidates, cap):
    ...     ages = rows["age"].to_pylist()
    ...     return [min(cap, sum(age >= candidate for age in ages)) for candidate in candidates]
    >>> ScoreFunction("lead", lead, columns=["age"], parameters={"cap": 100}).body()
    {'function': 'lead', 'parameters': {'cap': 100}}
    """

    name: str
    run: Callable[..., Any] = field(repr=False)
    columns: Sequence[str] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    coins: bool = False
    relation: Relation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.run):
            raise InvalidParameter('a score needs a name and a callable: ScoreFunction("gap", run)')
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        if not isinstance(self.parameters, Mapping) or not _plain(plain_outcome(dict(self.parameters))):
            raise InvalidParameter("parameters of a score must be finite JSON values")

    def prepare(self, rows: Rows) -> Reading:
        """A plan for what it reads; `InvalidQuery` for an unknown column, and for other neighbours than it is for."""
        held = rows.neighbouring
        if self.relation is not None and (held.unit is not None or held.relation is not self.relation):
            raise InvalidQuery(
                f"the score {self.name!r} is for rows that are units: open the table with privacy_unit=None, "
                f"relation={str(self.relation)!r}"
            )
        return rows.snapshot(self.columns)

    def body(self) -> Json:
        """What identifies it as a question."""
        return {"function": self.name, "parameters": plain_outcome(dict(self.parameters))}

    def scores(self, rows: Any, candidates: Sequence[Any], source: noise.Source) -> list[Score]:
        """One number for each candidate. `AlgorithmFailed`, naming no data, if it raises or returns anything else."""
        found: list[Score] = []
        own = rows.copy() if isinstance(rows, np.ndarray) else rows
        try:
            drawn = (source,) if self.coins else ()
            given: Any = self.run(own, tuple(candidates), *drawn, **self.parameters)
            found = [_number(each) for each in given]
        except KeyboardInterrupt:
            raise
        except BaseException:  # what an extension panics with is no Exception
            found = []
        if len(found) != len(candidates):
            raise AlgorithmFailed(failed(self.name))
        return found


def failed(name: str) -> str:
    """What is told of a function that has no scores."""
    return f"the score {name!r} raised, or returned what is not one number for each candidate; charged"


def score_step(sensitivity: Fraction) -> Fraction:
    """What scores are rounded down to: whole numbers are kept, and so are multiples of the sensitivity.

    >>> score_step(Fraction(3, 4))
    Fraction(1, 4194304)
    """
    return Fraction(1, sensitivity.denominator * FINEST)


def score_steps(scores: Sequence[Score], sensitivity: Fraction) -> list[int]:
    """Scores in whole steps, rounded down, none farther than 2**40 sensitivities from 0; what is no number lies lowest.

    Neither moves two scores farther apart than the sensitivity, which is a whole number of steps, and both keep the
    direction in which a score moves.

    >>> score_steps([1, 0.5, float("-inf"), float("nan")], Fraction(2**20))
    [1048576, 524288, -1208925819614629174706176, -1208925819614629174706176]
    """
    step, most = score_step(sensitivity), int(sensitivity / score_step(sensitivity)) * MOST_UNITS
    return [_clipped(score, step, -most, most) for score in scores]


def distance_steps(distances: Sequence[Score]) -> list[int]:
    """Distances as whole numbers of units from 0 to 2**40, rounded down; what is no number is farthest.

    Neither makes one unit move a distance by more than 1.

    >>> distance_steps([0, 2.5, float("inf"), -3])
    [0, 2, 1099511627776, 0]
    """
    known = [math.inf if distance != distance else distance for distance in distances]
    return [_clipped(distance, Fraction(1), 0, MOST_UNITS) for distance in known]


def _clipped(score: Score, step: Fraction, least: int, most: int) -> int:
    # `isnan` would turn fractions into floats, which some are too large for.
    if score != score or score == -math.inf:
        return least
    return most if score == math.inf else min(max(math.floor(Fraction(score) / step), least), most)


def _number(value: Any) -> Score:
    """A plain number that is exactly this one; `TypeError` for what is none."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        return float(plain)
    if isinstance(plain, bool) or not isinstance(plain, Rational):
        raise TypeError
    return Fraction(int(plain.numerator), int(plain.denominator))


def _plain(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return all(map(_plain, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _brought(value: Any, info: ValidationInfo) -> Any:
    """A function, a query, or a list of queries, one for each candidate."""
    if isinstance(value, (ScoreFunction, Query)):
        return value
    if isinstance(value, dict):
        return query_of(value)
    if isinstance(value, (list, tuple)) and value:
        queries = tuple(query_of(each) if isinstance(each, dict) else each for each in value)
        if all(isinstance(each, Query) for each in queries):
            return queries
    raise InvalidParameter(
        f'{info.field_name} is a ScoreFunction("gap", run), a query, or a list such as [count("age < 9"), count()]'
    )


def _bodies(brought: Any) -> Any:
    return [each.body() for each in brought] if isinstance(brought, tuple) else brought.body()


Scores = Annotated[
    ScoreFunction | Query | Sequence[Query],
    PlainValidator(_brought),
    PlainSerializer(_bodies, when_used="json"),
    WithJsonSchema({"type": ["object", "array"], "description": "Bodies of queries; no JSON can state a function."}),
]
