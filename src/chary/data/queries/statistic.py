"""Statistics of one's own: a function of the rows with an asserted sensitivity, asked wherever a count is."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

from chary.answers import NoisyNumber
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.queries.query import Contribution, Query
from chary.data.rows import Deferred, Rows
from chary.errors import InvalidParameter, InvalidQuery, brought, quietly
from chary.numbers import Number, exact, positive

Direction = Literal["up", "down"]
# That many steps still fit, with noise, into what is added up exactly.
_MOST_STEPS: Final = 2**40


@dataclass(frozen=True, kw_only=True)
class Statistic(Query[NoisyNumber]):
    """A number that a function makes of the rows; built by `statistic`."""

    name: str
    run: Callable[..., Any] | None = field(repr=False)
    moves: Fraction
    step: Fraction
    columns_read: tuple[str, ...] | None
    parameters: str
    bounds: tuple[Fraction, Fraction] | None
    direction: Direction | None

    @property
    def grid(self) -> Fraction:
        """To multiples of which values are rounded down."""
        return self.step

    @property
    def keys(self) -> None:
        """None: it is one number."""
        return None

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """How far a unit moves it: in its direction where it is added or removed, in any where it is replaced."""
        if neighbor_relation.neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidQuery("a statistic is of a table: a series of counts has one of its own, source.series()")
        most = -(-self.moves // self.step)
        both = self.direction is None and neighbor_relation.neighbors is Neighbors.ADD_REMOVE
        low = -most if both or self.direction == "down" else 0
        return Contribution(low, 0 if self.direction == "down" else most)

    def known_range(self, neighbor_relation: NeighborRelation) -> tuple[int | None, int | None]:
        """Its bounds, which are all that is known of it."""
        return (None, None) if self.bounds is None else (self._steps(self.bounds[0]), self._steps(self.bounds[1]))

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description; the function is known by its name."""
        told = {"sensitivity": str(self.moves), "grid": str(self.step), "parameters": json.loads(self.parameters)}
        more = {"bounds": self.bounds and [str(end) for end in self.bounds], "direction": self.direction}
        return {"kind": "statistic", "name": self.name} | told | {name: said for name, said in more.items() if said}

    def describe(self) -> str:
        """Such as `statistic 'longest stay'`."""
        return f"statistic {self.name!r}"

    def reading(self, rows: Rows) -> Deferred:
        """What evaluates it in steps of the grid; `InvalidQuery` for an unknown column, and without its function."""
        self.contribution(rows.neighbor_relation)
        if self.run is None:
            raise InvalidQuery(f"no JSON states a function: only a program asks the statistic {self.name!r}")
        found = rows.snapshot(self.columns_read)

        return Deferred(self, lambda: self.of_rows(found.run()))

    def of_rows(self, rows: Any) -> int:
        """What it is of a table of rows, in steps; `AlgorithmFailed`, which shows nothing of them, if it is nothing."""

        def number() -> Fraction:
            told: Any = self.run and self.run(rows, **json.loads(self.parameters))
            return exact(told.item() if isinstance(told, np.generic) else told, "a statistic")

        value = brought(number, f"the statistic {self.name!r} raised, or returned no finite number")
        return self._steps(value if self.bounds is None else min(max(value, self.bounds[0]), self.bounds[1]))

    def _steps(self, value: Fraction) -> int:
        return int(value // self.step)


def recorded(body: Mapping[str, Any]) -> Statistic:
    """A statistic as a ledger stores it, without its function: its answers can be read, but it cannot be asked."""
    told: dict[str, Any] = {name: body[name] for name in ("parameters", "grid", "bounds", "direction") if name in body}
    return replace(statistic(body["name"], str, sensitivity=body["sensitivity"], **told), run=None)


def statistic(
    name: str,
    run: Callable[..., Any],
    *,
    sensitivity: Number,
    columns: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    grid: Number = 1,
    bounds: tuple[Number, Number] | None = None,
    direction: Direction | None = None,
) -> Statistic:
    """A number that a function makes of the rows, which one unit moves by `sensitivity` at most; asked as a count is.

    `run(rows, **parameters)` is given an Arrow table of the named `columns` (all without), as an `Algorithm` is. It
    returns an integer, a fraction or a float, which is clipped to `bounds`, if there are any, and rounded down to a
    multiple of `grid`. `name` and `parameters` are public and identify the question.

    Guarantee needed of the author, which nothing can check: for any two neighbours of the session what is *returned*,
    roundings of floats included, differs by at most the sensitivity. It raises for no dataset, or for all. With
    `direction="up"` ("down") it never falls (rises) when a unit is added. Rounding down to the grid moves two values
    apart by less than a step, so a sensitivity that is no multiple of the grid counts as the next one.

    Errors: `InvalidParameter` for what is no name or function, parameters that are no JSON, and bounds in the wrong
    order. Also for a sensitivity that is not above 0 or of more than 2**40 steps. When it is asked, `InvalidQuery` for
    an unknown column, for a series, and where more than its number is needed, as for growing averages. In individual
    accounting it is a function of the rows of the units that take part. In a public histogram it is a linear query:
    each row weighs what the function makes of it alone.

    `AlgorithmFailed`, which shows nothing of what was returned, where it raises or returns no finite number. The call
    then keeps its worst cost, which is nothing where a run has paid for it.

    >>> def longest(rows):
    ...     return max(rows["days"].to_pylist(), default=0)
    >>> stay = statistic("longest stay", longest, sensitivity=60, columns=["days"], bounds=(0, 60), direction="up")
    >>> stay.describe(), stay.sensitivity(NeighborRelation("add_remove", "patient"))
    ("statistic 'longest stay'", 60)
    """
    if not isinstance(name, str) or not name or not callable(run):
        raise InvalidParameter('a statistic needs a name and a callable: statistic("longest", run, sensitivity=60)')
    moves, step = positive(sensitivity, "sensitivity"), positive(grid, "grid")
    if moves > _MOST_STEPS * step:
        raise InvalidParameter("the sensitivity of a statistic is at most 2**40 steps of its grid: give a larger grid=")
    ends = None if bounds is None else (exact(bounds[0], "bounds"), exact(bounds[1], "bounds"))
    if ends is not None and ends[0] >= ends[1]:
        raise InvalidParameter("bounds of a statistic are two numbers, the lower one first: bounds=(0, 60)")
    if direction not in (None, "up", "down"):
        raise InvalidParameter('direction is "up" or "down": which way a unit that is added moves it')
    told = quietly(
        lambda: json.dumps(dict(parameters or {}), sort_keys=True, allow_nan=False),
        InvalidParameter("parameters of a statistic must be finite JSON values"),
    )
    return Statistic(
        name=name,
        run=run,
        moves=Fraction(moves),
        step=Fraction(step),
        columns_read=None if columns is None else tuple(columns),
        parameters=told,
        bounds=ends,
        direction=direction,
    )
