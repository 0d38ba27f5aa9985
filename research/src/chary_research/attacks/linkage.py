"""Linkage: a table without names, joined with a public register by what both hold, has names again."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from chary.calls import NoisyNumbers
from chary.data import NeighborRelation, RowTable, count
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Budget
from chary.numbers import Number
from chary_research.attacks.limits import Figures, attacked, checked, generator, value_limit

# Types whose values are the same for everybody who writes them down: joining on fractions would miss by rounding.
KEY_TYPES = ("boolean", "int64", "string", "date", "timestamp")
# One count for each person and value, all asked at once: it bounds time and memory.
MOST_QUESTIONS = 500_000
Value = Any
Person = tuple[Value, ...]


@dataclass(frozen=True)
class Linkage(Figures):
    """What an attacker learned who has a register of names and public columns.

    - `rows` used; `incomplete`: rows left out because a column was missing in them. `quasi`: the public columns.
      `sensitive`: the column that only the release holds. `values`: how many values it has.
    - `unique`: how many rows are the only ones of their kind by the first 1, 2, ... public columns.
    - `reidentified`: names that matched exactly one row of the release without names; `right`: those whose row it was.
    - `revealed`: people whose sensitive value is certain, since all rows that match theirs hold the same one.
    - `private_accuracy`: the proportion of the re-identified people whose value the same attacker guesses from a
      session of budget `epsilon`, asked for the count of each of them with each value. `baseline`: the proportion he
      gets by always saying the commonest value. `limit`: the most that any attacker can get who knows how common each
      value is and everybody else's row. None if nobody was re-identified.
    """

    rows: int
    incomplete: int
    quasi: tuple[str, ...]
    sensitive: str
    values: int
    unique: tuple[int, ...]
    reidentified: int
    right: int
    revealed: int
    epsilon: float
    private_accuracy: float | None
    baseline: float | None
    limit: float | None


def link(register: pa.Table, release: pa.Table, on: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of positions (register, release) of the rows that are the only ones of their kind in both tables.

    Rows with a missing value in a column of `on` are nobody's. Errors: `InvalidQuery` for a column that one of the two
    does not have, or none named.

    >>> register = pa.table({"name": ["Ann", "Bob", "Cy"], "age": [30, 41, 41]})
    >>> release = pa.table({"age": [41, 41, 30], "ill": [True, True, False]})
    >>> link(register, release, ["age"])
    [(0, 2)]
    """
    if isinstance(on, str) or not on or not set(on) <= set(register.column_names) & set(release.column_names):
        raise InvalidQuery("link on a list of columns that both tables have")
    named, unnamed = _only(_people(register, on)), _only(_people(release, on))
    return [(position, unnamed[person]) for person, position in named.items() if person in unnamed]


def linkage(
    rows: Any, *, quasi: Sequence[str], sensitive: str, epsilon: Number, table: str | None = None, seed: int | None = 0
) -> Linkage:
    """Re-identify the rows of an "anonymised" table, and ask a session about the same people.

    `rows` is anything that `chary.open` takes; each row is one person. The register holds everybody's `quasi` columns,
    the release everybody's `quasi` and `sensitive` columns in another order. The session is opened for replaced rows,
    so any two values of one person are epsilon-indistinguishable.

    The result is about the rows themselves: where they are secret so is the result, which no budget protects.

    Errors: `InvalidQuery` for unknown columns. `InvalidParameter` for no quasi-identifiers, a column of fractional
    numbers (round it to whole ones), fewer than two complete rows or a sensitive column with one value.

    >>> from chary.demo.panel import of_year, people
    >>> found = linkage(of_year(people(), 1), quasi=["site", "plan", "female", "time"], sensitive="mdvis", epsilon=1)
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: column 'time' is float64: round it to integers, or leave it out
    >>> found = linkage(of_year(people(), 1), quasi=["site", "plan", "mdvis"], sensitive="female", epsilon=1)
    >>> found.unique, found.right == found.reidentified
    ((0, 0, 279), True)
    """
    budget, rng, names = checked(epsilon), generator(seed), _named(quasi, sensitive)
    whole = NeighborRelation("replace", None)
    with closing(RowTable.open(rows, neighbor_relation=whole, table=table, infer_types=True)) as opened:
        everybody = opened.snapshot(names).run()
        _check_types(opened.schema, names)
        people = _complete(everybody)
        shuffled = rng.permutation(people.num_rows)
        pairs = link(people, release := people.take(shuffled), quasi)
        truth = _secrets(release, names, [there for _, there in pairs])
        values = sorted(people[sensitive].unique().to_pylist())
        guesses = _guesses(opened, budget, truth, (names, values), rng, seed) if truth else {}
    return Linkage(
        rows=people.num_rows,
        incomplete=everybody.num_rows - people.num_rows,
        quasi=names[:-1],
        sensitive=sensitive,
        values=len(values),
        unique=tuple(len(_only(_people(people, quasi[:k]))) for k in range(1, len(names))),
        reidentified=len(pairs),
        right=sum(int(shuffled[there]) == here for here, there in pairs),
        revealed=_revealed(people, names),
        epsilon=float(budget.exact[0]),
        **_accuracies(epsilon, truth, guesses),
    )


def _named(quasi: Sequence[str], sensitive: str) -> tuple[str, ...]:
    """All columns that are used, the sensitive one last."""
    if isinstance(quasi, str) or not quasi:
        raise InvalidParameter("name the quasi-identifiers, a list of public columns such as ['age', 'sex']")
    names = (*quasi, sensitive)
    if len(set(names)) != len(names):
        raise InvalidParameter("a column can be a quasi-identifier once, or sensitive, not both")
    return names


def _check_types(schema: Mapping[str, str], names: Sequence[str]) -> None:
    for name in names:
        if schema[name] not in KEY_TYPES:
            raise InvalidParameter(f"column {name!r} is {schema[name]}: round it to integers, or leave it out")


def _complete(everybody: pa.Table) -> pa.Table:
    """The rows without a missing value, in an order that depends on them alone."""
    people = everybody.drop_null()
    people = people.sort_by([(name, "ascending") for name in people.column_names])
    if people.num_rows < 2 or len(people[people.column_names[-1]].unique()) < 2:
        raise InvalidParameter("linkage needs at least two complete rows, and two values of the sensitive column")
    return people


def _people(table: pa.Table, columns: Sequence[str]) -> list[Person]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _only(people: Sequence[Person]) -> dict[Person, int]:
    """The people who are the only one of a kind, and where; a missing value makes nobody of a row."""
    often = Counter(people)
    return {person: place for place, person in enumerate(people) if often[person] == 1 and None not in person}


def _secrets(release: pa.Table, names: Sequence[str], places: list[int]) -> dict[Person, Value]:
    """The sensitive values at some places of the release, by the public columns there."""
    linked = _people(release.take(pa.array(places, pa.int64())), names)
    return {row[:-1]: row[-1] for row in linked}


def _revealed(people: pa.Table, names: Sequence[str]) -> int:
    """How many rows are of a kind all rows of which hold one sensitive value."""
    held: dict[Person, list[Value]] = defaultdict(list)
    for row in _people(people, names):
        held[row[:-1]].append(row[-1])
    return sum(len(values) for values in held.values() if len(set(values)) == 1)


def _guesses(
    opened: RowTable,
    budget: Budget,
    truth: Mapping[Person, Value],
    asked: tuple[Sequence[str], Sequence[Value]],
    rng: np.random.Generator,
    seed: int | None,
) -> dict[Person, Value]:
    """For each person the value that is likeliest, given how common it is and the session's noisy counts.

    A count of 1 rather than 0 is e^(epsilon/2) times likelier if its noisy value is at least 1, and less likely by the
    same factor if not. For noise for replaced rows has half of epsilon for each of the two counts that a row can
    change.
    """
    names, values = asked
    if len(truth) * len(values) > MOST_QUESTIONS:
        raise InvalidParameter(f"this takes more than {MOST_QUESTIONS} counts: name columns with fewer values")
    keys = [(*person, value) for person in truth for value in values]
    answers = attacked(opened, budget, rng, seed).release(count().by(list(names), keys), epsilon=budget.exact[0])
    assert isinstance(answers, NoisyNumbers)
    half = float(budget.exact[0]) / 2
    noisy = np.asarray(answers.values).reshape(len(truth), len(values))
    common = Counter(truth.values())
    before = [math.log(common[value]) if common[value] else -math.inf for value in values]
    best = np.argmax(np.asarray(before) + np.where(noisy >= 1, half, -half), axis=1)
    return {person: values[choice] for person, choice in zip(truth, best, strict=True)}


def _accuracies(epsilon: Number, truth: Mapping[Person, Value], guesses: Mapping[Person, Value]) -> dict[str, Any]:
    if not truth:
        return {"private_accuracy": None, "baseline": None, "limit": None}
    shares = [often / len(truth) for often in Counter(truth.values()).values()]
    right = sum(guesses[person] == value for person, value in truth.items())
    limit = value_limit(epsilon, shares)
    return {"private_accuracy": right / len(truth), "baseline": max(shares), "limit": limit}
