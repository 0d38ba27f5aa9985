"""Black boxes for schedules on growing data: private algorithms, each with its accuracy bound."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting.schedules import Law
from chary.accounting.synthesis import earlier_mwem_law, mwem_law
from chary.calls import compute, fields, schedules, synthesis
from chary.calls.algorithm import Algorithm
from chary.calls.quantiles import Quantile, chosen, mechanism_of, values_of
from chary.calls.releases import Release, noises, released
from chary.core.plan import Json, Plan
from chary.data import Binned, Count, NeighborRelation, Neighbors, Universe
from chary.data.universe.axes import Axis
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import Additive, HalvedQuantiles
from chary.mechanisms.small_database import Measure, SmallDatabases
from chary.numbers import Number, flag, probability, set_fields, whole, work_out

# Black boxes for schedules: static private algorithms with the accuracy bound of each.

# The accuracy bound of a box is one of its number of rows, which therefore must be public.
_ROWS = NeighborRelation(Neighbors.REPLACE, None)


@dataclass(frozen=True)
class AlgorithmBox(schedules.BlackBox):
    """Any private algorithm of yours: `make(epsilon)` gives it at that size, `law` is (p, c) or a `Law`.

    You assert the accuracy bound: with probability 1 - beta the error is at most `c (ln(1/beta)/(epsilon n))^p` on n
    rows, for every beta up to 1/2. The algorithm must be the same, with the same name and parameters, at every epsilon.

    >>> def mean_age(rows, source, scale):
    ...     noisy = sum(rows["age"].to_pylist()) + int(noise.discrete_laplace(source, scale, 1)[0])
    ...     return noisy / max(1, rows.num_rows)
    >>> from chary import noise
    >>> AlgorithmBox(
    ...     lambda epsilon: Algorithm("mean age", lambda r, s: mean_age(r, s, 120 / epsilon), epsilon, columns=["age"]),
    ...     law=(1, 120),
    ... ).law.body()
    {'power': '1', 'factor': '120', 'choices': '1', 'log_power': '1'}
    """

    make: Callable[[Fraction], Algorithm] = field(repr=False)
    declared: Law | Sequence[Number] = field(compare=False)

    def __init__(self, make: Callable[[Fraction], Algorithm], *, law: Law | Sequence[Number]) -> None:
        if not callable(make):
            raise InvalidParameter(
                "bring a function of epsilon, such as lambda epsilon: Algorithm(..., epsilon=epsilon)"
            )
        set_fields(self, make=make, declared=Law.of(law))

    @property
    def law(self) -> Law:
        return Law.of(self.declared)

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        made = self.make(epsilon)
        return compute.run_once(compute.RunAlgorithm(made), made)


@dataclass(frozen=True)
class CountsBox(schedules.BlackBox):
    """The noisy counts of all keys of a count or a histogram: discrete Laplace, or with `gaussian` discrete Gaussian.

    Accuracy bound: the largest error of any count, as a fraction of all rows, with p = 1. Laplace: c is the L1 change
    D1 between neighbours (2 with keys: a row leaves one and enters another). Gaussian, for schedules by rho: `c = D2
    sqrt 2` with the L2 change D2, and the root of the logarithm. There are twice as many choices as keys, since a noise
    exceeds t either way with probability at most `2 e^(-t/scale)`, or `2 e^(-t^2/(2 sigma^2))`.

    >>> from chary import count
    >>> CountsBox(count().by("ward", ["a", "b"])).law.factor
    Fraction(2, 1)
    """

    query: Count | Binned
    gaussian: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.query, (Count, Binned)):
            raise InvalidQuery("schedule counts, such as count().by('ward', ['a', 'b']), or chary.histogram(...)")

    @cached_property
    def law(self) -> Law:
        keys, change = 1 if self.query.keys is None else len(self.query.keys), self.query.l1(_ROWS)
        if not self.gaussian:
            return Law(1, change, 2 * keys)
        return Law(1, math.sqrt(2 * change * self.query.sensitivity(_ROWS)), 2 * keys, Fraction(1, 2))

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        return released(Release(self.query, **self._size(epsilon)), neighbor_relation)

    def noise(self, epsilon: Fraction) -> Additive:
        """That of each count in a run of this epsilon."""
        return noises(self.query, _ROWS, **self._size(epsilon))[0]

    def _size(self, epsilon: Fraction) -> dict[str, Any]:
        return {"epsilon": None, "rho": epsilon**2 / 2} if self.gaussian else {"epsilon": epsilon}


@dataclass(frozen=True)
class QuantilesBox(schedules.BlackBox):
    """Quantiles of a column on the public grid between two bounds, by inverse sensitivity.

    Accuracy bound: the largest error of a rank, as a fraction of all rows, with p = 1 and c = 2 for one quantile.
    Several are halved in r rounds, and the errors along a path add up to at most c = 2 r (2 r - 1).

    >>> QuantilesBox("age", [0.5], bounds=(0, 120)).law.body()
    {'power': '1', 'factor': '2', 'choices': '121', 'log_power': '1'}
    """

    column: str
    at: Sequence[Number]
    bounds: tuple[Number, Number]
    step: Number = 1

    def __post_init__(self) -> None:
        set_fields(self, at=tuple(probability(q, "a quantile") for q in self.at))
        work_out(self.law)  # refuses bounds that make no grid

    @cached_property
    def law(self) -> Law:
        rounds, points = len(self.at).bit_length(), values_of(self._asked(Fraction(1))).points
        places = self.mechanism(Fraction(1)).grid(points)
        return Law(1, 2 * rounds * (2 * rounds - 1), len(self.at) * places)

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        return chosen(self._asked(epsilon), neighbor_relation)

    def mechanism(self, epsilon: Fraction) -> HalvedQuantiles:
        """The choice of a run of this epsilon."""
        return mechanism_of(self._asked(epsilon), _ROWS).answers

    def _asked(self, epsilon: Fraction) -> Quantile[Any]:
        return Quantile(self.column, self.at, bounds=self.bounds, step=self.step, epsilon=epsilon)


# MWEM as a black box for schedules ([GROW] section 3; theory chapter 8).

# MWEM divides by the number of rows, so that must be public.


@dataclass(frozen=True)
class MWEMBox(schedules.BlackBox):
    """A synthetic histogram for a list of queries, made anew by each run; see `chary.calls.MWEM`.

    `run.state.latest.answer` is a `SyntheticHistogram`. With `gaussian`, for schedules by rho, a run is
    epsilon^2/2-zCDP, where noise grows with the root of the number of rounds.

    Accuracy bound: the largest error of any of the queries, with p = 1; its base is `sqrt(ln N/(2T))` for N cells and T
    rounds, and its factor that of `chary.accounting.synthesis.mwem_law`. It assumes that every row lies in a cell of
    the universe, and it is for the worst data: errors are mostly far smaller. It is meant for runs of an epsilon of at
    most 1,024 times the number of rounds, or with `gaussian` its root.

    Errors: those of `chary.calls.MWEM`.

    >>> box = MWEMBox({"age": range(100), "smoker": [True, False]}, ["smoker", "age < 30"], rounds=10)
    >>> box.law.body()["choices"], round(box.law.error(size=100_000, epsilon=1, beta="0.05"), 3)
    ('27', 0.543)
    """

    call: synthesis.MWEM
    gaussian: bool = False

    def __init__(
        self,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: fields.AskedQueries,
        *,
        rounds: int,
        gaussian: bool = False,
    ) -> None:
        call = synthesis.MWEM(universe=universe, queries=queries, rounds=rounds, epsilon=1)
        set_fields(self, call=call, gaussian=flag(gaussian, "gaussian"))

    @cached_property
    def law(self) -> Law:
        return mwem_law(**self._sizes, gaussian=self.gaussian)

    @property
    def laws(self) -> Sequence[Law]:
        return [self.law, earlier_mwem_law(**self._sizes, gaussian=self.gaussian)]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        cells, queries = Universe.of(self.call.universe).cells, len(fields.conditions(self.call.queries))
        return {"cells": max(2, cells), "queries": queries, "rounds": self.call.rounds}

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        rho = {"epsilon": None, "rho": epsilon**2 / 2}
        sized = replace(self.call, **(rho if self.gaussian else {"epsilon": epsilon}))
        return synthesis.histogram_plan(sized, neighbor_relation)


# SmallDB as a black box for schedules: SmallDBG of [GROW] section 3.1.1.


@dataclass(frozen=True)
class SmallDatabaseBox(schedules.BlackBox):
    """A small synthetic database for a list of queries, made anew by each run; see `chary.calls.SmallDatabase`.

    `schema` is `session.schema`: the types with which conditions are read. `run.state.latest.answer` is a
    `SyntheticDatabase`.

    Accuracy bound: the largest error of any query, with p = 1, c = 2, as many choices as there are candidates, and the
    coarseness of this many rows as its base. `concentrated`, for schedules by rho, where a run need only be
    epsilon^2/2-zCDP: the exponential mechanism of 2 epsilon is, so that c = 1. It assumes that every row lies in a cell
    of the universe. Errors: those of `chary.calls.SmallDatabase`.

    >>> box = SmallDatabaseBox({"smoker": [True, False]}, ["smoker"], rows=20, schema={"smoker": "boolean"})
    >>> box.law.body()["choices"], round(box.law.error(size=10_000, epsilon="0.1", beta="0.05"), 3)
    ('21', 0.037)
    """

    call: synthesis.SmallDatabase
    workload: synthesis.Workload
    concentrated: bool = False

    def __init__(
        self,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: fields.AskedQueries,
        *,
        rows: int,
        schema: Mapping[str, str],
        measure: Measure = "classes",
        concentrated: bool = False,
    ) -> None:
        flag(concentrated, "concentrated")
        made = synthesis.SmallDatabase(
            universe=universe, queries=queries, epsilon=1, rows=whole(rows, "rows"), measure=measure
        )
        workload = synthesis.Workload.of(universe, queries, dict(schema))
        set_fields(self, call=made, workload=workload, concentrated=concentrated)
        self.plan(Fraction(1), NeighborRelation("replace", None))

    @property
    def rows(self) -> int:
        """How many rows each database has."""
        return self.call.rows or 0

    @cached_property
    def law(self) -> Law:
        return self.workload.law(self.rows, self.call.measure, self.concentrated)

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        sized, claimed = self._sized(epsilon), {"concentrated": self.concentrated}
        return synthesis.database_plan(sized, neighbor_relation, self.workload, self.rows, **claimed)

    def mechanism(self, epsilon: Fraction) -> SmallDatabases:
        """The choice of a run of this epsilon."""
        return synthesis.databases(self._sized(epsilon), self.workload, self.rows)

    def _sized(self, epsilon: Fraction) -> synthesis.SmallDatabase:
        return replace(self.call, epsilon=2 * epsilon if self.concentrated else epsilon)


# A black box that changes as a schedule goes on ([GROW] sections 3 and 3.1.1): another algorithm, or other queries.


@dataclass(frozen=True)
class ChangingBox(schedules.BlackBox):
    """One black box until a run, and another from that run on: `ChangingBox({0: first, 4: later})`.

    Privacy is that of any schedule: each run has its own fraction of the budget, whatever it runs with it. Which box
    serves which run is public and fixed at the opening; every one is checked then. `law` holds for all of them. Its
    factor, choices and base are the largest of theirs, so the growth that is chosen suits the worst. `state.table()`
    shows the errors of each. Their accuracy bounds must have the same powers.

    Errors: `InvalidParameter` for no box for the first run, run 0, for what is no black box, and for other powers.

    >>> from chary import count
    >>> from chary.growth.boxes import CountsBox
    >>> box = ChangingBox({0: CountsBox(count("age >= 65")), 4: CountsBox(count().by("ward", ["a", "b"]))})
    >>> box.changes, box.of_run(3).law.choices, box.of_run(4).law.choices, box.law.choices
    ((0, 4), Fraction(2, 1), Fraction(4, 1), Fraction(4, 1))
    """

    boxes: tuple[tuple[int, schedules.BlackBox], ...]

    def __init__(self, boxes: Mapping[int, schedules.BlackBox]) -> None:
        given = dict(boxes) if isinstance(boxes, Mapping) else {}
        runs = sorted(whole(run, "a run", least=0) for run in given)
        if runs[:1] != [schedules.FIRST]:
            raise InvalidParameter("say which black box serves the first run: ChangingBox({0: box, 4: another})")
        if not all(isinstance(box, schedules.BlackBox) and box.changes == (schedules.FIRST,) for box in given.values()):
            raise InvalidParameter("change between black boxes, such as chary.growth.CountsBox(count())")
        set_fields(self, boxes=tuple((run, given[run]) for run in runs))
        laws = [box.law for _, box in self.boxes]
        if len({(law.power, law.log_power, law.size_log, law.fall) for law in laws}) > 1:
            raise InvalidParameter(
                "the accuracy bounds of these black boxes have other powers: one schedule cannot serve all of them"
            )

    @property
    def changes(self) -> tuple[int, ...]:
        return tuple(run for run, _ in self.boxes)

    def of_run(self, run: int) -> schedules.BlackBox:
        return next(box for first, box in reversed(self.boxes) if first <= run)

    @property
    def law(self) -> Law:
        laws = [box.law for _, box in self.boxes]
        worst = {name: max(Fraction(getattr(law, name)) for law in laws) for name in ("factor", "choices", "base")}
        return replace(laws[0], **worst)

    def plan(self, epsilon: Fraction, neighbor_relation: NeighborRelation) -> Plan[Any]:
        return self.of_run(schedules.FIRST).plan(epsilon, neighbor_relation)

    def body(self, neighbor_relation: NeighborRelation) -> Json:
        return {"changing": [[run, box.body(neighbor_relation)] for run, box in self.boxes]}
