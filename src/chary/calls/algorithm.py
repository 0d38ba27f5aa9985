"""Algorithms that are brought along, the outcomes that count as hits, and scores of their own."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from numbers import Rational
from typing import Any, Final

import numpy as np
import pyarrow as pa

from chary import noise
from chary.accounting import Approximate, Event, Pure, StatedLaws, Targeted, ZeroConcentrated
from chary.answers import bytes_in_json, with_bytes
from chary.data import Neighbors, Reading, Rows
from chary.data.columns import TypeClass
from chary.errors import AlgorithmFailed, InvalidParameter, InvalidQuery, brought
from chary.numbers import Number, checked, exact, failing, optional, per_call, plain, positive, set_fields

# Any private algorithm: what its author declares, and how it runs without leaking data through errors.

Json = dict[str, Any]


@dataclass(frozen=True)
class Algorithm:
    """A computation on the rows that its author asserts to be (epsilon, delta)-DP, or rho-zCDP, for neighbours.

    Guarantee needed of the author, which nothing can check: take any two neighbouring datasets and the distributions of
    what `run(rows, source, **parameters)` returns (raising counts as an outcome). They are (epsilon,
    delta)-indistinguishable, or their Renyi divergence of every order a > 1, either way, is at most `a rho`. Give one
    of the two: `epsilon=`, with a `delta=` if needed, or `rho=`. The second is charged as it is, without a conversion
    to a delta, and needs no `delta_reserve`. It can have no target, since a target is charged by an epsilon.

    `rows` is an Arrow table of the named `columns` (all without), or an int64 array for a series. Take all randomness
    from `source`, such as `chary.noise.discrete_laplace(source, scale, 1)`.

    The outcome is published as JSON: numbers, strings, Booleans, None, lists, dicts, NumPy arrays and bytes. Bytes may
    be up to 4 MiB each; the ledger keeps their base64 and their SHA-256. An outcome with more bytes counts as a
    failure. `name` and `parameters` are public and identify the question. `outcomes`, if given, lists all that can come
    out. `probabilities(rows, **parameters)`, if given, returns the probability of each, in that order, in one of three
    forms. It returns exact rationals that add up to 1, or a distribution of `chary.noise` or of a mechanism, such as
    `Exponential(...).law(counts)`, or floats. A `Boundary` draws from these probabilities. The author asserts that they
    are returned for every dataset, in the same form for all. Of floats the author asserts that none is farther than
    2^-44 from the probability of an epsilon-DP distribution. The uniform distribution is mixed in until what is drawn
    from is epsilon-DP.

    `laws`, if given, are pairs of distributions of the outcomes, in that order, as exact rationals. The author asserts
    that no run raises, and one fact about any two neighbours: their distributions are a mixture of these pairs, in
    either order. Then targets are paid by them (`StatedLaws`), which is never more expensive than by the epsilon, and
    need no q. This holds for the targets of a `RunAlgorithm`, a race, an `OnChange` and a `PublishIf`, and for "two
    published runs of a `Boundary` differ".

    `loss(outcome)`, if given, is what an outcome lost, at most epsilon. The author asserts that no outcome is more than
    e^loss times likelier under one of two neighbours than under the other. Outcomes that lose more than epsilon have a
    probability of at most delta together. A `RunAlgorithm` without a target is then charged what it reports ([GAUSS]
    Algorithm 4). It is a function of the outcome, in JSON values, and of what is public.

    Errors: `InvalidParameter` for an invalid name or size, for parameters that are not JSON, and for two sizes. The
    same for `laws` that are no distributions, or less private than epsilon; and, when it is asked, for invalid
    probabilities of an empty table.

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
    loss: Callable[[Any], Number] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.run):
            raise InvalidParameter('an algorithm needs a name and a callable: Algorithm("median", run, epsilon=0.1)')
        self._settle_size()
        set_fields(self, columns=None if self.columns is None else tuple(self.columns))
        if isinstance(self.outcomes, np.ndarray):
            set_fields(self, outcomes=self.outcomes.tolist())
        if not isinstance(self.outcomes, (list, tuple, type(None))):
            raise InvalidParameter("outcomes of an algorithm are a list of all that can come out")
        for kept in (dict(self.parameters), self.outcomes):
            if not _is_plain(plain_outcome(kept)):
                raise InvalidParameter("parameters and outcomes of an algorithm must be finite JSON values")
        if self.laws is not None and len(declared(self) or ()) < len(self.outcomes or ()):
            raise InvalidParameter("laws= needs outcomes that are listed once each")
        if self.laws is not None and self.stated([True] * len(self.outcomes or ())).epsilon > self.size[0]:
            raise InvalidParameter(
                "the distributions are less private than the epsilon of the algorithm: give a larger epsilon"
            )

    def _settle_size(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("say how private the algorithm is as one of epsilon= (with a delta=) and rho=")
        set_fields(self, epsilon=None if self.epsilon is None else per_call(self.epsilon), delta=failing(self.delta))
        checked(self, rho=optional(positive))
        if self.rho is not None and self.delta:
            raise InvalidParameter("an algorithm with rho= has no delta")
        if self.loss is not None and (self.rho is not None or not callable(self.loss)):
            raise InvalidParameter(
                "losses are reported of an algorithm with epsilon=, by a function: loss=lambda outcome: 0"
            )

    @property
    def size(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta; `InvalidParameter` for an algorithm with a rho, which can have no target."""
        if self.epsilon is None:
            raise InvalidParameter(
                f"{self.name!r} has a rho: only a call without a target (or prior) can charge it, since no price of a "
                "hit is finite (docs/theory/charging.md); state its epsilon= and delta="
            )
        return Fraction(self.epsilon), Fraction(self.delta)

    @property
    def event(self) -> Event:
        """The event of a run of which every outcome is charged."""
        if self.epsilon is None:
            return ZeroConcentrated(self.rho or 0)
        epsilon, delta = self.size
        return Approximate(epsilon, delta) if delta else Pure(epsilon)

    def targeted(self, q: Number | None) -> Event:
        """The event of a run that is charged for a target, by its epsilon; `q=None` means all outcomes but one."""
        epsilon, delta = self.size
        return Targeted(epsilon, q, delta)

    def stated(self, hits: Sequence[bool]) -> StatedLaws:
        """The event of a run by its stated distributions, when these outcomes hit."""
        return StatedLaws.of(self.laws or (), hits, self.delta)

    def reported(self, outcome: Any) -> Fraction | None:
        """The loss of an outcome, as its author reports it; None where that is no number from 0 to epsilon."""
        told, most = self.loss, self.size[0]
        if told is None:
            return most
        try:
            lost = brought(lambda: exact(told(handed(outcome)), "loss"), self.name)
        except AlgorithmFailed:
            return None
        return lost if 0 <= lost <= most else None

    @property
    def lawful(self) -> bool:
        """Whether the distribution of its outcomes is known."""
        return self.probabilities is not None

    def law(self, rows: Any) -> noise.FiniteLaw:
        """The distribution of the outcomes' positions. `AlgorithmFailed`, naming no data, if there is none."""
        failure = f"the probabilities of {self.name!r} raised, or are no distribution over its outcomes"
        stated = self.probabilities
        if stated is None:
            raise AlgorithmFailed(failure)
        known = brought(lambda: _law_of(stated(_own(rows), **self.parameters), self.size[0]), failure)
        if known.size != len(self.outcomes or ()):
            raise AlgorithmFailed(failure)
        return known

    def rehearse(self, rows: Rows) -> None:
        """Refuse probabilities that are no distribution where there are no rows, which is a dataset like any other if
        units come and go; `InvalidParameter`. Nothing is read."""
        names = self.columns if self.columns is not None else list(rows.schema)
        types = [_ARROW.get(rows.schema.get(name, "")) for name in names]
        if rows.neighbor_relation.neighbors is not Neighbors.ADD_REMOVE or None in types:
            return
        empty = pa.table({name: pa.array([], kind) for name, kind in zip(names, types, strict=True)})
        try:
            self.law(empty)
        except AlgorithmFailed as refused:
            failure = f"{refused}, for a table without rows"
        else:
            return
        raise InvalidParameter(failure)

    def prepare(self, rows: Rows) -> Reading:
        """The reading of its columns; `InvalidQuery` for an unknown column."""
        return rows.snapshot(self.columns)

    def body(self) -> Json:
        """The body that identifies it in a question."""
        sizes = {"rho": self.rho} if self.epsilon is None else {"epsilon": self.epsilon, "delta": self.delta}
        told = {name: str(size) for name, size in sizes.items() if size}
        return {"algorithm": self.name, "parameters": plain_outcome(dict(self.parameters)), **told}

    def outcome(self, rows: Any, source: noise.Source) -> Any:
        """Run it; the outcome in JSON values. `AlgorithmFailed`, naming no data, if it raises or returns no outcome."""
        failure = f"the algorithm {self.name!r} raised, or returned what is no finite JSON value"

        def outcome() -> Any:
            found = plain_outcome(self.run(_own(rows), source, **self.parameters))
            canonical_outcome(found)  # raises for what JSON cannot hold
            if not _is_plain(found):
                raise AlgorithmFailed(failure)
            return found

        return brought(outcome, failure)


# How far a float may be from the probability that it stands for: hundreds of roundings of a number near 1.
_FLOATS_ERR: Final = Fraction(1, 2**44)
# The largest part of the uniform distribution that is mixed in; more would distort the stated probabilities.
_MOST_MIXED: Final = Fraction(1, 100)
_ARROW: Final[Mapping[str, Any]] = {
    TypeClass.BOOLEAN: pa.bool_(),
    TypeClass.INTEGER: pa.int64(),
    TypeClass.FLOAT: pa.float64(),
    TypeClass.STRING: pa.string(),
    TypeClass.DATE: pa.date32(),
    TypeClass.TIMESTAMP: pa.timestamp("us"),
}


def _law_of(told: Any, epsilon: Fraction) -> noise.FiniteLaw:
    """The probabilities that an author returned, as a distribution that is epsilon-DP to the last digit; an error if
    they are none.

    Floats p + e, |e| <= a, that add up to about 1, are scaled to add up to 1. Then they err by 2 (n + 1) a at most. Mix
    in a part g of the uniform distribution. Then p + e + g/n <= E (q + f + g/n) follows from p <= E q where g (E - 1)/n
    covers both errors: (E + 1)/(E - 1) <= 1 + 2/epsilon.
    """
    if isinstance(told, noise.FiniteLaw):
        return told
    chances = list(told)
    if not any(isinstance(chance, float) for chance in chances):
        return noise.RationalLaw(chances)
    exactly: list[Fraction] = [Fraction(chance if isinstance(chance, float) else _number(chance)) for chance in chances]
    many, least = len(chances), min(exactly)
    # 1 less the sum of the others may be a little below 0: to fail there would tell one dataset from its neighbour.
    exactly = [max(chance, Fraction(0)) for chance in exactly]
    total, mixed = sum(exactly, Fraction(0)), 2 * (many + 1) * many * _FLOATS_ERR * (1 + 2 / epsilon)
    if least < -_FLOATS_ERR or abs(total - 1) > many * _FLOATS_ERR or mixed > _MOST_MIXED:
        raise InvalidParameter(
            "these floats are no distribution: they do not add up to 1, or are too many for this epsilon"
        )
    return noise.RationalLaw([(chance / total + mixed / many) / (1 + mixed) for chance in exactly])


def _own(rows: Any) -> Any:
    """The rows for one run: a copy of an array, so that no other run sees its changes."""
    return rows.copy() if isinstance(rows, np.ndarray) else rows


# Of an outcome in bytes. Their text in a ledger is a third longer, and every copy of the ledger has it.
MOST_BYTES: Final = 2**22


def plain_outcome(value: Any) -> Any:
    """The value with NumPy scalars and arrays, tuples, mappings and bytes turned into plain JSON ones; others
    unchanged. `InvalidParameter` for more than 4 MiB of bytes."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (bytes, bytearray)):
        if len(value) > MOST_BYTES:
            raise InvalidParameter(f"bytes of an outcome are at most {MOST_BYTES:,}, these are {len(value):,}")
        return bytes_in_json(bytes(value))
    if isinstance(value, Mapping):
        return {str(key): plain_outcome(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_outcome(part) for part in value]
    return value


def canonical_outcome(value: Any) -> str:
    """One text for equal outcomes: 1, 1.0 and True differ. `InvalidParameter` for what JSON cannot hold."""
    try:
        return json.dumps(plain_outcome(value), sort_keys=True, separators=(",", ":"))
    except InvalidParameter:
        raise
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidParameter("outcomes are strings, numbers, Booleans, None, bytes, and lists and objects of them")


def handed(outcome: Any) -> Any:
    """A copy of an outcome as callers see it: in JSON values, and bytes as bytes.

    >>> handed((1, b"model"))
    [1, b'model']
    """
    return with_bytes(json.loads(canonical_outcome(outcome)))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


# Targets: the outcomes of a private algorithm that are hits, given in one of several ways.


class Unsaid(Enum):
    """Stands for an argument that was not given, since None is an outcome like any other."""

    UNSAID = "unsaid"

    def __repr__(self) -> str:
        return self.name


UNSAID: Final = Unsaid.UNSAID


@dataclass(frozen=True)
class When:
    """A set of outcomes, given as a condition: those for which `holds(outcome)` is true.

    `name` is public and stands for the condition in the ledger: one name, one condition. Guarantee needed of its
    author: whether it holds depends on the outcome, in JSON values or bytes, and on what is public. It is code that
    sees outcomes before they are published, or that never are, so like an `Algorithm` it must say nothing of them to
    anybody. If it raises, the outcome is a hit that failed: charged, and not published.

    Errors: `InvalidParameter` for what cannot be a name or a condition.

    >>> When("large", lambda outcome: outcome >= 500)(700)
    True
    """

    name: str
    holds: Callable[[Any], Any] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.holds):
            raise InvalidParameter("a condition has a name and a callable: When('large', lambda outcome: outcome > 9)")

    def __call__(self, outcome: Any) -> bool:
        """Whether the outcome is in the set; `AlgorithmFailed`, naming no data, if the condition raises."""
        own = handed(outcome)  # what it changes must not be published
        failure = f"the condition {self.name!r} raised, or is neither true nor false"
        return brought(lambda: bool(self.holds(own)), failure)


@dataclass(frozen=True)
class Target:
    """A set of outcomes. `hits(outcome)` is whether an outcome is in it; `told` identifies the set in a question.

    `q` is how often the set is hit at least, None where all outcomes but one are in it. A run that fails is a hit as
    well, which makes the set larger and its q no smaller. `whole`: every outcome is a hit, so the call is a release.
    """

    hits: Callable[[Any], bool]
    told: Json
    q: Number | None = None
    whole: bool = False

    def event(self, algorithm: Algorithm) -> Event:
        """The event of a run of the algorithm that is charged for hits."""
        return algorithm.event if self.whole else algorithm.targeted(self.q)

    def event_by_laws(self, algorithm: Algorithm) -> Event:
        """The same by the distributions of its outcomes, where the author stated them; they make a q needless.

        Errors: `InvalidParameter` for a q larger than they allow.
        """
        if algorithm.laws is None or self.whole:
            return self.event(algorithm)
        stated = algorithm.stated([self.hits(outcome) for outcome in algorithm.outcomes or ()])
        if self.q is not None and exact(self.q, "q") > stated.most_q:
            raise InvalidParameter(
                f"the distributions in laws= leave its target a q of at most {plain(stated.most_q)}: leave q= out, the "
                "call is paid by the distributions"
            )
        return stated


EVERYTHING: Final = Target(lambda outcome: True, {}, whole=True)


def not_prior(algorithm: Algorithm, prior: Any, q: Number | None = None) -> Target:
    """All outcomes but one, named before the call.

    Errors: `InvalidParameter` for a prior that is not among the declared outcomes, if there are any.
    """
    known = declared(algorithm)
    free = canonical_outcome(prior)
    if known is not None and free not in known:
        raise InvalidParameter("the target (or the prior) is not among the algorithm's declared outcomes")
    told = {"prior": plain_outcome(prior)} | ({} if q is None else {"q": str(q)})
    return Target(lambda outcome: canonical_outcome(outcome) != free, told, q)


def listed(algorithm: Algorithm, target: Sequence[Any], q: Number | None) -> Target:
    """Some of the declared outcomes. An outcome that was not declared is a hit as well.

    Errors: `InvalidParameter` for an empty list, outcomes that are not declared, and a target that leaves several
    outcomes free without its q, unless the algorithm has distributions.
    """
    known, named = declared(algorithm), {canonical_outcome(outcome) for outcome in target}
    if known is None:
        raise InvalidParameter("a target is a set of declared outcomes: give the algorithm outcomes=[...]")
    if not named <= known:
        raise InvalidParameter("the target (or the prior) is not among the algorithm's declared outcomes")
    if not named:
        raise InvalidParameter("an empty target is never hit: name at least one outcome")
    told = {"target": [plain_outcome(outcome) for outcome in target]} | ({} if q is None else {"q": str(q)})
    return _all_but(algorithm, known - named, told, q)


def conditional(algorithm: Algorithm, when: When, q: Number | None) -> Target:
    """The outcomes for which a condition holds. It is evaluated now on declared outcomes, and otherwise on the result.

    Errors: `InvalidParameter` for a condition that raises for a declared outcome or holds for none, and where q is
    needed: outcomes are not declared, or several are free.
    """
    known, told = declared(algorithm), {"hit": when.name} | ({} if q is None else {"q": str(q)})
    if known is None:
        if q is None:
            raise InvalidParameter("a condition needs its q=, or outcomes=[...] of which it leaves one free")
        return Target(when, told, q)
    try:
        free = {outcome for outcome in known if not when(json.loads(outcome))}
    except AlgorithmFailed as failure:
        raise InvalidParameter(f"{failure}, for a declared outcome") from None
    if free == known:
        raise InvalidParameter("the condition holds for no declared outcome, so it is never a hit")
    return _all_but(algorithm, free, told, q)


def _all_but(algorithm: Algorithm, free: set[str], told: Json, q: Number | None) -> Target:
    """All outcomes but these canonical ones: NotPrior if there is one of them, and nothing is free if there is none.

    Several may be free by a q, or by distributions, which then decide the cost of every call that has such a target
    (`event_by_laws`)."""
    if len(free) > 1 and q is None and algorithm.laws is None:
        raise InvalidParameter("a target that leaves several outcomes free needs its q=, see docs/theory/charging.md")
    return Target(lambda outcome: canonical_outcome(outcome) not in free, told, q, whole=not free)


def declared(algorithm: Algorithm) -> set[str] | None:
    """The declared outcomes, canonically; None where none are declared."""
    return None if algorithm.outcomes is None else {canonical_outcome(outcome) for outcome in algorithm.outcomes}


# Scores and distances that callers bring: a function of the rows, or queries; and how either becomes whole steps.

Score = int | float | Fraction
# 2**40 units together move no score farther than that, so nothing is lost where scores start near 0.
MOST_UNITS: Final = 2**40
# What scores are rounded down to: a millionth of what one unit moves.
FINEST: Final = 2**20


@dataclass(frozen=True)
class ScoreFunction:
    """A function of the rows that scores every candidate, or says how far each is from being the true answer.

    `run(rows, candidates, **parameters)` returns one number for each candidate, in their order: integers,
    fractions and floats, which are read as exactly what they are. `rows` is an Arrow table of the named `columns` (all
    without), or an int64 array for a series. `name` and `parameters` are public and identify the question.

    Guarantee needed of the author, which nothing can check: what is required of it where it is used, such as that no
    unit moves a score farther than the sensitivity. It holds for the numbers that are *returned*, including the
    rounding of floats, for every dataset. It raises for no dataset, or for all. With `coins=True` it takes a source of
    random words as well, `run(rows, candidates, source, **parameters)`, to draw a sample or a pairing of the rows. Then
    the coins of two neighbours can be paired, each with its own distribution, so that the same holds for every pair.
    Where that holds only if each row is a unit under one `neighbors`, name it: then every other session refuses the
    score.

    Errors: `InvalidParameter` for what is no name, no callable, or parameters that are not JSON; `InvalidQuery` in a
    session with other neighbours than `neighbors` names, before anything is charged.

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
    neighbors: Neighbors | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.run):
            raise InvalidParameter('a score needs a name and a callable: ScoreFunction("gap", run)')
        set_fields(self, columns=None if self.columns is None else tuple(self.columns))
        if not isinstance(self.parameters, Mapping) or not _is_plain(plain_outcome(dict(self.parameters))):
            raise InvalidParameter("parameters of a score must be finite JSON values")

    def prepare(self, rows: Rows) -> Reading:
        """The reading of its columns; `InvalidQuery` for an unknown column, and for other neighbours than it is for."""
        held = rows.neighbor_relation
        if self.neighbors is not None and (held.unit is not None or held.neighbors is not self.neighbors):
            raise InvalidQuery(
                f"the score {self.name!r} is for rows that are units: open the table with privacy_unit=None, "
                f"neighbors={str(self.neighbors)!r}"
            )
        return rows.snapshot(self.columns)

    def body(self) -> Json:
        """The body that identifies it in a question."""
        return {"function": self.name, "parameters": plain_outcome(dict(self.parameters))}

    def scores(self, rows: Any, candidates: Sequence[Any], source: noise.Source) -> list[Score]:
        """One number for each candidate. `AlgorithmFailed`, naming no data, if it raises or returns anything else."""

        def scored() -> list[Score]:
            given: Any = self.run(_own(rows), tuple(candidates), *((source,) if self.coins else ()), **self.parameters)
            return [_number(each) for each in given]

        found = brought(scored, failed(self.name))
        if len(found) != len(candidates):
            raise AlgorithmFailed(failed(self.name))
        return found


def failed(name: str) -> str:
    """The error message of a function that returned no scores."""
    return f"the score {name!r} raised, or returned what is not one number for each candidate; charged"


def score_step(sensitivity: Fraction) -> Fraction:
    """The step to which scores are rounded down. Integers and multiples of the sensitivity are multiples of it.

    >>> score_step(Fraction(3, 4))
    Fraction(1, 4194304)
    """
    return Fraction(1, sensitivity.denominator * FINEST)


def score_steps(scores: Sequence[Score], sensitivity: Fraction) -> list[int]:
    """Scores in whole steps, rounded down, none farther than 2**40 sensitivities from 0; what is no number lies lowest.

    Neither moves two scores farther apart than the sensitivity, which is an integer of steps, and both keep the
    direction in which a score moves.

    >>> score_steps([1, 0.5, float("-inf"), float("nan")], Fraction(2**20))
    [1048576, 524288, -1208925819614629174706176, -1208925819614629174706176]
    """
    step, most = score_step(sensitivity), int(sensitivity / score_step(sensitivity)) * MOST_UNITS
    return [_clipped(score, step, -most, most) for score in scores]


def distance_steps(distances: Sequence[Score]) -> list[int]:
    """Distances as integers of units from 0 to 2**40, rounded down; what is no number is farthest.

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
