"""Any private algorithm: what its author declares, and how it is run without its data leaking through errors."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from chary import noise
from chary.accounting import Approximate, Event, Pure, StatedLaws, ZeroConcentrated
from chary.data import Reading, Rows
from chary.errors import AlgorithmFailed, InvalidParameter
from chary.numbers import Number, failing, per_call, positive

Json = dict[str, Any]


@dataclass(frozen=True)
class Algorithm:
    """A computation on the rows that its author vouches to be (epsilon, delta)-DP, or rho-zCDP, for neighbours.

    Guarantee needed of the author, which nothing can check: for any two neighbouring datasets the laws of what
    `run(rows, source, **parameters)` returns (raising counts as an outcome) are (epsilon, delta)-indistinguishable, or
    their Renyi divergence of every order a > 1, either way, is at most `a rho`. Say one of the two: `epsilon=`, with a
    `delta=` if need be, or `rho=`. The second is charged as it is, without a detour by a delta, needs no
    `approximate_delta`, and can have no target, since a target is charged by an epsilon.

    `rows` is an Arrow table of the named `columns` (all without), or an int64 array for a series. Take all randomness
    from `source`, such as `chary.noise.discrete_laplace(source, scale, 1)`.

    The outcome is published as JSON: numbers, strings, Booleans, None, lists, dicts, NumPy arrays. `name` and
    `parameters` are public and identify the question. `outcomes`, if given, lists all that can come out;
    `probabilities(rows, **parameters)`, if given, returns the chance of each, in that order, as exact rationals that
    add up to 1. That is what a `Boundary` draws from; whoever gives it vouches that it does so for every dataset.

    `laws`, if given, are pairs of laws of the outcomes, in that order, as exact rationals: whoever gives them vouches
    that for any two neighbours the two laws are a mixture of these pairs, in either order, and that no run raises. Then
    the target of a `Compute`, alone or in a race, is paid by them (`StatedLaws`), which is never dearer than by the
    epsilon, and needs no q. Other calls are paid by the epsilon, with laws or without.

    Errors: `InvalidParameter` for what cannot be a name, a size, or parameters in JSON, for two sizes, and for laws
    that are none, or less private than epsilon.

    >>> def oldest(rows, source, cap):
    ...     ages = np.minimum(rows["age"].to_numpy(), cap)
    ...     return int(ages.max()) + int(noise.discrete_laplace(source, Fraction(cap, 1) * 2, 1)[0])
    >>> Algorithm("oldest", oldest, epsilon=0.5, columns=["age"], parameters={"cap": 100}).name
    'oldest'
    >>> Algorithm("rounds", lambda rows, source: 7, rho="0.005").event
    ZeroConcentrated(rho=Fraction(1, 200))
    """

    name: str
    run: Callable[..., Any] = field(repr=False)
    epsilon: Number | None = None
    delta: Number = 0
    columns: Sequence[str] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Sequence[Any] | None = None
    rho: Number | None = None
    probabilities: Callable[..., Sequence[Rational]] | None = field(default=None, repr=False)
    laws: Sequence[Sequence[Sequence[Number]]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.run):
            raise InvalidParameter('an algorithm needs a name and a callable: Algorithm("median", run, epsilon=0.1)')
        self._settle_size()
        columns = None if self.columns is None else tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        if isinstance(self.outcomes, np.ndarray):
            object.__setattr__(self, "outcomes", self.outcomes.tolist())
        if not isinstance(self.outcomes, (list, tuple, type(None))):
            raise InvalidParameter("outcomes of an algorithm are a list of all that can come out")
        for kept in (dict(self.parameters), self.outcomes):
            if not _is_plain(plain_outcome(kept)):
                raise InvalidParameter("parameters and outcomes of an algorithm must be finite JSON values")
        if self.laws is not None and self.stated([True] * len(self.outcomes or ())).epsilon > self.size[0]:
            raise InvalidParameter("the laws of an algorithm are less private than its epsilon: give a larger epsilon")

    def _settle_size(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("say how private the algorithm is as one of epsilon= (with a delta=) and rho=")
        object.__setattr__(self, "delta", failing(self.delta))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", per_call(self.epsilon))
            return
        object.__setattr__(self, "rho", positive(self.rho or 0, "rho"))
        if self.delta:
            raise InvalidParameter("an algorithm with rho= has no delta")

    @property
    def size(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta; `InvalidParameter` for an algorithm with a rho, which can have no target."""
        if self.epsilon is None:
            raise InvalidParameter(f"{self.name!r} has a rho: only a call without a target (or prior) can charge it")
        return Fraction(self.epsilon), Fraction(self.delta)

    @property
    def event(self) -> Event:
        """What a run may reveal when every outcome is paid."""
        if self.epsilon is None:
            return ZeroConcentrated(self.rho or 0)
        epsilon, delta = self.size
        return Approximate(epsilon, delta) if delta else Pure(epsilon)

    def stated(self, hits: Sequence[bool]) -> StatedLaws:
        """What a run may reveal by its laws, when these of its outcomes hit."""
        return StatedLaws.of(self.laws or (), hits, self.delta)

    def law(self, rows: Any) -> noise.FiniteLaw:
        """The law of the outcomes' positions. `AlgorithmFailed`, naming no data, if there is none."""
        known = None
        try:
            stated = self.probabilities
            known = None if stated is None else noise.RationalLaw(stated(_own(rows), **self.parameters))
        except KeyboardInterrupt:
            raise
        except BaseException:  # what an extension panics with is no Exception
            pass
        if known is None or known.size != len(self.outcomes or ()):
            raise AlgorithmFailed(f"the probabilities of {self.name!r} raised, or are no law of its outcomes")
        return known

    def prepare(self, rows: Rows) -> Reading:
        """A plan for what it reads; `InvalidQuery` for an unknown column."""
        return rows.snapshot(self.columns)

    def body(self) -> Json:
        """What identifies it as a question."""
        sizes = {"rho": self.rho} if self.epsilon is None else {"epsilon": self.epsilon, "delta": self.delta}
        told = {name: str(size) for name, size in sizes.items() if size}
        return {"algorithm": self.name, "parameters": plain_outcome(dict(self.parameters)), **told}

    def outcome(self, rows: Any, source: noise.Source) -> Any:
        """Run it; the outcome in JSON values. `AlgorithmFailed`, naming no data, if it raises or returns no outcome."""
        try:
            found = plain_outcome(self.run(_own(rows), source, **self.parameters))
            kept = _is_plain(found) and bool(canonical_outcome(found))
        except KeyboardInterrupt:
            raise
        except BaseException:  # what an extension panics with is no Exception
            kept = False
        if not kept:
            raise AlgorithmFailed(f"the algorithm {self.name!r} raised, or returned what is no finite JSON value")
        return found


def _own(rows: Any) -> Any:
    """Another run must not see what this one changes."""
    return rows.copy() if isinstance(rows, np.ndarray) else rows


def plain_outcome(value: Any) -> Any:
    """The value with NumPy scalars and arrays, tuples and mappings turned into plain JSON ones; others unchanged."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_outcome(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_outcome(part) for part in value]
    return value


def canonical_outcome(value: Any) -> str:
    """One text for equal outcomes: 1, 1.0 and True differ. `InvalidParameter` for what JSON cannot say."""
    try:
        return json.dumps(plain_outcome(value), sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidParameter("outcomes are texts, numbers, truths, None, and lists and objects of them")


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
