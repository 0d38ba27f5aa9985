"""Several unlike queries released at once, with noise for what one unit can change of all of them together."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from chary import noise
from chary.accounting import Event, Findings, Pure, Repeated, Told, ZeroConcentrated
from chary.answers import NoisyNumber, NoisyNumbers, Table, Value, in_row, scalar
from chary.calls.answers import published
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Positive, Probability
from chary.calls.numbers.matrix_mechanism import check_sizes, noising_of
from chary.core.plan import Json, Ran, Touched, natural
from chary.core.transaction import Spine
from chary.data import Query
from chary.data.queries.bodies import query_of
from chary.data.queries.joint_change import JointChange
from chary.errors import InvalidParameter
from chary.mechanisms import Additive, Gaussian, Laplace
from chary.numbers import plain

MOST_QUERIES: Final = 1000


def _queries(value: Any) -> Any:
    listed = value if isinstance(value, (list, tuple)) else [value]
    queries = tuple(query_of(each) if isinstance(each, dict) else each for each in listed)
    if not 1 <= len(queries) <= MOST_QUERIES or not all(isinstance(each, Query) for each in queries):
        raise InvalidParameter(
            f'queries are 1 to {MOST_QUERIES} counts, totals and histograms: [count(), total("cost", ...)]; '
            "a mean is asked as its total and its count"
        )
    if len(set(queries)) < len(queries):
        raise InvalidParameter("each query is released once")
    return queries


Together = Annotated[
    Sequence[Query],
    PlainValidator(_queries),
    PlainSerializer(lambda queries: [query.body() for query in queries], when_used="json"),
    WithJsonSchema({"type": "array", "items": {"type": "object"}, "description": "Bodies of queries."}),
]


def _place(number: int, key: Any) -> Any:
    return number if key is None else (number, key)


@dataclass(frozen=True)
class NoisyAnswers(Table):
    """The answers of several queries; `parts` has those of each, in the order in which they were asked.

    As a table it has a row for each number: which query it is, in words too, its key (None without keys), value and
    interval.
    """

    parts: tuple[NoisyNumber | NoisyNumbers, ...]

    @property
    def value(self) -> dict[Any, Value]:
        """The position of the query, with its key where it has one, to value."""
        places = [_place(number, key) for number, _, key in self.keys]
        return dict(zip(places, (row["value"] for row in self.rows()), strict=True))

    @property
    def findings(self) -> Findings:
        parts = enumerate(self.parts)
        return Findings.of(
            replace(each, key=_place(number, each.key)) for number, part in parts for each in part.findings
        )

    def cells(self, position: int) -> dict[str, Any]:
        number = self.keys[position][0]
        part = self.parts[number]
        if isinstance(part, NoisyNumbers):
            return part.cells(position - self._firsts[number])
        return {"value": part.value} | in_row(part.interval)

    @cached_property
    def _firsts(self) -> dict[int, int]:
        """The row at which each query begins."""
        return {number: place for place, (number, *_) in reversed(list(enumerate(self.keys)))}


@call("release_all", subject="numbers")
class ReleaseAll(Call[NoisyAnswers]):
    """Several counts, totals and histograms at once, with keys or without; each has noise for its own sensitivity.

    Guarantee: epsilon-DP with discrete Laplace noise, or rho-zCDP with discrete Gaussian noise (for `rho`, or for
    `epsilon` and `delta`), for all of them together. The noise follows from what one unit can change of all of them at
    once: where each row is a unit, only queries whose conditions can hold of one row add up, so that ten disjoint
    groups cost as much as one. A unit with many rows may be in all of them, so they all add up. Always charged.

    Errors: `InvalidParameter` for no queries, one that is listed twice and a missing epsilon or rho; `InvalidQuery` for
    a mean, which is two numbers, and a series.

    >>> from chary import count, total
    >>> asked = ReleaseAll([count("age < 30"), count("age >= 30"), total("cost", bounds=(0, 500))], epsilon="0.1")
    >>> len(asked.queries), asked.kind
    (3, 'release_all')
    """

    queries: Together
    _: KW_ONLY
    epsilon: Positive | None = None
    rho: Positive | None = None
    delta: Probability | None = None

    def __post_init__(self) -> None:
        check_sizes(self.epsilon, self.rho, self.delta)

    def bind(self, spine: Spine) -> "AskAll":
        neighbouring = spine.rows.neighbouring
        # A report knows no columns: how an answer was drawn is in the answer.
        schema = getattr(spine.rows, "schema", None)
        return AskAll(self, neighbouring, JointChange.of(tuple(self.queries), neighbouring, schema))


@dataclass(frozen=True)
class AskAll(Bound[ReleaseAll]):
    """The release, as it is made."""

    change: JointChange = field(compare=False)

    @cached_property
    def noises(self) -> Sequence[Additive]:
        """The noise of each query."""
        return self._noises(self.change)

    def _noises(self, change: JointChange) -> Sequence[Additive]:
        """All are the same multiple of the query's sensitivity."""
        noising = noising_of(self.call.epsilon, self.call.rho, self.call.delta)
        size, singles = Fraction(noising.size), [query.sensitivity(self.neighbouring) for query in self.call.queries]
        if noising.gaussian:
            least = noise.SMALLEST_VARIANCE
            variances = [single**2 * change.l2_squared / (2 * size) for single in singles]
            return [Gaussian(max(least, each), single**2) for each, single in zip(variances, singles, strict=True)]
        scales = [single * change.l1 / size for single in singles]
        return [Laplace(max(noise.SMALLEST_SCALE, each), single) for each, single in zip(scales, singles, strict=True)]

    @cached_property
    def event(self) -> Event:
        """Log-moments of Laplace noise are convex in the change and 0 at 0: a change of a part of the sensitivity has
        at most that part of the whole one's, so what adds up to so many sensitivities is at most so many changes."""
        first, *others = self.noises
        noising = noising_of(self.call.epsilon, self.call.rho, self.call.delta)
        if noising.gaussian:
            return ZeroConcentrated(noising.size)
        times = self.change.l1
        if times.denominator != 1:
            return Pure(noising.size)
        alike = all(other == first for other in others)
        return Repeated(first.event() if alike else Pure(Fraction(noising.size) / times), int(times))

    def foretold(self) -> str:
        pairs = zip(self.call.queries, self.noises, strict=True)
        told = [f"{plain(float(part.error_bar() * query.grid))} ({query.describe()})" for query, part in pairs]
        more = f", and {len(told) - 5} more" if len(told) > 5 else ""
        return f"values are within these of the truth 95 times in 100: {', '.join(told[:5])}{more}"

    def queries(self) -> Sequence[Query]:
        return tuple(self.call.queries)

    def run(self, touched: Touched) -> Ran:
        applied = [part.apply(touched.integers(k), touched.source) for k, part in enumerate(self.noises)]
        known = {"l1": str(self.change.l1), "l2_squared": str(self.change.l2_squared)}
        return Ran({"noisy": [[int(value) for value in noisy] for noisy in applied]} | known, 0, 0)

    def present(self, answer: Json, call: int) -> NoisyAnswers:
        noises = self._noises(JointChange(Fraction(answer["l1"]), Fraction(answer["l2_squared"])))
        parts = tuple(
            _part(query, drawn, noisy, published(drawn, query, self.neighbouring), call)
            for query, drawn, noisy in zip(self.call.queries, noises, answer["noisy"], strict=True)
        )
        keys = tuple(
            (number, query.describe(), None if key is None else scalar(key))
            for number, query in enumerate(self.call.queries)
            for key in query.keys or (None,)
        )
        return NoisyAnswers(call, ("number", "query", "key"), keys, parts)


def _part(query: Query, drawn: Additive, noisy: Sequence[int], told: Told, call: int) -> NoisyNumber | NoisyNumbers:
    values, bar = tuple(natural(steps, query.grid) for steps in noisy), float(drawn.error_bar() * query.grid)
    if query.keys is None:
        return NoisyNumber(call, values[0], bar, told=told)
    return NoisyNumbers(call, query.columns, tuple(query.keys), values, bar, told=told)
