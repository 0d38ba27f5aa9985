"""What a call is: its declaration, fields, body, and its way to a plan."""

import dataclasses
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from fractions import Fraction
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import ArgsKwargs, PydanticSerializationError

from chary.accounting import Event
from chary.core.forecast import Forecast
from chary.core.plan import ENCODER, AnswerT, Cost, Data, Json, PerHit, Plan, Result, Size, nothing_refused
from chary.core.transaction import Spine
from chary.data import Reading, Rows
from chary.data.queries.stored import current, current_kind, options_of, stored, stored_kind
from chary.errors import CharyError, InvalidParameter, InvalidQuery, NotWithheld
from chary.interruption import interrupted
from chary.numbers import Number

# A call is a value: what is asked, with everything that can be checked without the rows it is asked of.

CallT = TypeVar("CallT", bound="Call[Any]")
# The subjects of calls with their titles, in the order in which pages and commands list them.
SUBJECTS: Final[Mapping[str, str]] = {
    "thresholds": "Thresholds",
    "numbers": "Numbers",
    "selection": "Selection",
    "algorithms": "Algorithms of your own",
    "sparse": "Sparse vectors",
    "gaussian": "Gaussian selection",
    "weights": "Public histograms",
    "synthesis": "Synthetic data",
    "growing": "Tables that grow",
    "individual": "Units that pay for themselves",
    "sketches": "Sketches",
    "votes": "Votes",
}
# The kinds that most people need, in the order in which they are shown. All others are for experts.
FRONT: Final = (
    *("release", "histogram", "quantiles", "test", "release_if", "agreed_tests", "classify", "sparse_vector"),
    *("choose", "top", "multiplicative_weights", "alert"),
)
# Fields that are no part of a stored question: ledgers store the kind beside it, and `below_margin` only confirms.
_UNASKED: Final = ("kind", "below_margin")
KindT = TypeVar("KindT", bound="type[Call[Any]]")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*")
# The validator of a kind is built when the kind is first used (`_adapter`), since most processes use few kinds.
_ONCE: Final = PerHit()
_CONFIG: Final = ConfigDict(
    arbitrary_types_allowed=True, defer_build=True, extra="forbid", ser_json_inf_nan="null", validate_default=True
)


class Call(ABC, Generic[AnswerT]):
    """What every call is: frozen, equal to calls with equal fields, readable from its own JSON.

    Constructors refuse what can be right for no dataset; `plan` refuses what this dataset cannot answer. Neither
    touches data nor charges anything. `kind` names the call in ledgers and JSON, where it stays, `name` in commands and
    `title` wherever people read it; `subject` is its topic, one of `SUBJECTS`. `stated` names a field that a command
    line requires although programs may leave it out. `call` sets and explains the other class variables."""

    kind: ClassVar[str]
    name: ClassVar[str]
    title: ClassVar[str]
    subject: ClassVar[str]
    stated: ClassVar[str | None] = None
    publishes: ClassVar[bool | str]
    again: ClassVar[bool]
    by_hits: ClassVar[bool]
    typed: ClassVar[bool]
    tells: ClassVar[str]
    meanings: ClassVar[Mapping[str, str]]
    # A module of tests that imports `ThresholdTest` must not have it collected.
    __test__: ClassVar[bool] = False

    def plan(self, spine: Spine) -> Plan[AnswerT]:
        """The plan that a transaction carries through reserve - run - settle, for these rows under this filter.

        Nothing is read or charged. Errors: `InvalidQuery` for a call that consists of several plans.
        """
        raise InvalidQuery(f"{self.title} asks several questions, one after another: it has no plan of its own")

    def planned(
        self,
        spine: Spine,
        event: Event,
        run: Callable[[Data], Result],
        present: Callable[[Json, int], AnswerT],
        reads: Callable[[Rows], Sequence[Reading]],
        cost: Cost = _ONCE,
        forecast: Callable[[], Forecast] = Forecast,
        *,
        kind: str | None = None,
        body: Json | None = None,
        check: Callable[[bytes | None], None] = nothing_refused,
    ) -> Plan[AnswerT]:
        """The plan of this call, stored under its own kind and body unless others are given."""
        kind, text = kind or self.stored_kind, self.text() if body is None else ENCODER.encode(body)
        return Plan(kind, text, event, run, present, reads, cost, forecast, check=check, size=self.size(spine))

    def size(self, spine: Spine) -> Size | None:
        """The epsilon of the call, and its plan at another epsilon; None for a call without epsilon."""
        own: Any = self
        epsilon = getattr(own, "epsilon", None)
        if epsilon is None:
            return None
        return Size(Fraction(epsilon), lambda epsilon: dataclasses.replace(own, epsilon=epsilon).plan(spine))

    @property
    def numeric(self) -> bool:
        """Whether its answer can be one number, so that operators can rank it among candidates."""
        return False

    @property
    def stored_kind(self) -> str:
        """The kind under which ledgers store the call."""
        return stored_kind(self.kind, vars(self))

    def question_body(self) -> Json:
        """The body under which ledgers store the question."""
        return stored({name: said for name, said in self.body().items() if name not in _UNASKED}, self.kind)

    def text(self) -> str:
        """`question_body` as canonical JSON. Ledgers find a repeated request by this text."""
        return ENCODER.encode(self.question_body())

    def perform(self, spine: Spine, request: str | None = None) -> AnswerT:
        """Make the call. A call that consists of several plans overrides this."""
        return spine.perform(self.plan(spine), request)

    @property
    def limits(self) -> str:
        """Which values, rows and groups of its query count, in words; empty where all do, or where it has no query."""
        return next((said for value in vars(self).values() if (said := getattr(value, "limits", ""))), "")

    def body(self) -> Json:
        """The call as JSON, from which `read` makes an equal one."""
        try:
            told: Json = adapter(type(self)).dump_python(self, mode="json", exclude_none=True)
        except PydanticSerializationError as error:
            if interrupted(error):
                raise KeyboardInterrupt from None
            raise
        return {"kind": self.kind} | told

    @classmethod
    def recorded(cls, body: Json) -> Self:
        """The call that a ledger stores under this body; entries that are no fields of the call are ignored.

        Errors: those of the constructor, for fields that JSON cannot hold, such as algorithms.
        """
        known = {field.name for field in dataclasses.fields(cast("Any", cls))}
        return cls(**{name: value for name, value in current(body, cls.kind).items() if name in known})

    @classmethod
    def widened(cls, widen: Any, original: Json, spine: Spine) -> Plan[Any]:
        """The plan of `widen`, to publish what the call with this body withheld.

        Errors: `NotWithheld` for a kind that withholds nothing.
        """
        raise NotWithheld(f"call {widen.held} withholds nothing, whatever came out")

    def __hash__(self) -> int:
        return hash(ENCODER.encode(self.body()))


class Shorthand(Call[AnswerT]):
    """A call that stands for another one. It makes the other's plan, so ledgers store the other call."""

    @abstractmethod
    def stands_for(self) -> Call[AnswerT]:
        """The call that is made."""

    def plan(self, spine: Spine) -> Plan[AnswerT]:
        return self.stands_for().plan(spine)

    @property
    def limits(self) -> str:
        return self.stands_for().limits

    @property
    def numeric(self) -> bool:
        return self.stands_for().numeric


def numbers_among(values: Iterable[Any] | None) -> bool:
    """Whether one of these values, or of keys of one column, is a number.

    >>> numbers_among([("a",), (3,)]), numbers_among([True, "b"]), numbers_among(None)
    (True, False, False)
    """
    own = (value[0] if isinstance(value, tuple) and len(value) == 1 else value for value in values or ())
    return any(isinstance(value, Real) and not isinstance(value, bool) for value in own)


def adapter(kind: type[Call[Any]]) -> TypeAdapter[Any]:
    """Checks, JSON and JSON schema of a kind of call, all from its one declaration."""
    return _adapter(kind.kind)


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    found: TypeAdapter[Any] = TypeAdapter(_KINDS[kind])
    found.rebuild()
    return found


def kinds() -> Mapping[str, type[Call[Any]]]:
    """Every kind of call that was declared, by its name."""
    return dict(_KINDS)


def of_ledger(kind: str) -> type[Call[Any]] | None:
    """The kind of call that ledgers store under this word; None for questions to runs."""
    return _KINDS.get(current_kind(kind))


def named(kind: str) -> str:
    """The command for a stored kind. A question to a run has no command: its kind is returned as it is.

    >>> named("fraction"), named("individual_ask")
    ('proportion', 'individual_ask')
    """
    known = of_ledger(kind)
    return kind if known is None else known.name


def of_record(kind: str, body: Json) -> Call[Any]:
    """The call that a ledger stores under this kind, which must be known, and this body; errors as `Call.recorded`."""
    return _KINDS[current_kind(kind)].recorded({**body, **options_of(kind)})


def asked(call: Any) -> Call[Any]:
    """The call; `InvalidQuery` for anything else, such as a bare query."""
    if not isinstance(call, Call):
        raise InvalidQuery("ask a call, such as chary.calls.ThresholdTest(query, above=500, epsilon=0.02)")
    return call


def read(body: Any) -> Call[Any]:
    """The call of a JSON object, such as `{"kind": "test", "query": {...}, "above": "500", "epsilon": "0.02"}`.

    Errors: `InvalidParameter` for an unknown kind and for what its constructor refuses.
    """
    given = dict(body) if isinstance(body, Mapping) else {}
    kind = _KINDS.get(str(given.pop("kind", None)))
    if kind is None:
        raise InvalidParameter(f"a call names its kind, one of {', '.join(sorted(_KINDS))}")
    return kind(**given)


@dataclass_transform(frozen_default=True)
def call(
    kind: str,
    *,
    subject: str,
    name: str | None = None,
    publishes: bool | str = False,
    again: bool = False,
    by_hits: bool = False,
    typed: bool = True,
    tells: str = "value",
    meanings: Mapping[str, str] | None = None,
) -> Callable[[KindT], KindT]:
    """Declare a kind of call: its fields become the constructor with its checks, JSON, JSON schema and options.

    - `name`: the command; by default the words of the class, which also make its title.
    - `publishes`: its values have known noise; a string limits this to calls that ledgers store under that kind.
    - `again`: it is asked repeatedly, and publishes a single value as time goes on.
    - `by_hits`: its accuracy may be chosen by the number of hits that have to fit into the budget.
    - `typed=False`: no command has it, since only a program can bring votes, black boxes or lists of algorithms.
    - `tells`: the name under which commands print the value of an answer.
    - `meanings`: descriptions of fields where they differ from `MEANINGS` in this kind.
    """

    def declare(declared: KindT) -> KindT:
        words = _WORDS.findall(declared.__name__)
        declared.kind, declared.subject = kind, subject
        declared.publishes, declared.again, declared.by_hits = publishes, again, by_hits
        declared.typed, declared.tells = typed, tells
        declared.meanings = meanings or {}
        declared.name = name or "_".join(words).lower()
        # PMW and MWEM stay as they are written.
        later = (word if word[1:].isupper() else word.lower() for word in words[1:])
        declared.title = " ".join([words[0], *later])
        made: Any = checked_dataclass(frozen=True, config=_CONFIG)(declared)
        made.__signature__ = _readable(made)
        made.__init__, made.__hash__ = _checking(kind, made), Call.__hash__
        if kind in _KINDS:
            raise TypeError(f"there are two kinds of call named {kind!r}")
        _KINDS[kind] = made
        found: KindT = made
        return found

    return declare


class _Words(str):
    """A type as a person writes it, which a signature shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _readable(kind: Any) -> inspect.Signature:
    """The constructor's signature with the types that its callers write, without what checks them."""
    return inspect.Signature(
        [_parameter(field) for field in sorted(fields(kind), key=lambda field: bool(field.kw_only))]
    )


def _parameter(field: Field[Any]) -> inspect.Parameter:
    place = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, place, default=default, annotation=_Words(_written(field.type)))


def _written(kind: Any) -> str:
    """A type in the words of the source.

    >>> _written(Annotated[Number, "checked"] | None), _written(Mapping[str, tuple[Any, ...]])
    ('Number | None', 'Mapping[str, tuple[Any, ...]]')
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind == Number:
        return "Number"
    if origin is Annotated:
        return _written(parts[0])
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(_written, sorted(parts, key=lambda part: part is NoneType))))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if kind in (NoneType, ...):
        return "None" if kind is NoneType else "..."
    if isinstance(kind, list):
        return f"[{', '.join(map(_written, kind))}]"
    inner = [] if set(parts) == {Any} else [_written(part) for part in parts]
    return getattr(kind, "__name__", str(kind)) + (f"[{', '.join(inner)}]" if inner else "")


def _checking(kind: str, made: Any) -> Callable[..., None]:
    """The constructor: it validates every field, and raises errors of chary with messages of its own."""

    def checked(self: Any, /, *arguments: Any, **options: Any) -> None:
        try:
            _adapter(kind).validator.validate_python(ArgsKwargs(arguments, options), self_instance=self)
            return
        except ValidationError as error:
            refused = refusal(type(self).__name__, error)
        # Outside of the handler: pydantic's error holds what a check raised, and if it were the context of that too, no
        # collector could free the two, nor the frames of the caller with its session.
        raise refused

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *made.__signature__.parameters.values()]
    checked.__signature__ = made.__signature__.replace(parameters=parameters)  # type: ignore[attr-defined]
    checked.__doc__ = made.__init__.__doc__
    return checked


_KINDS: dict[str, type[Call[Any]]] = {}

# Fields with the number of an earlier call whose outcome or state this call uses. An analyst who may not see that call
# must not reach it through another one.
EARLIER: Final = ("held", "warm_start")

# What each field of a call means, in one line: a name means the same in every kind of call.


class Expert(str):
    """The meaning of a field that few people need: forms and the help of commands show it after the usual ones."""

    __slots__ = ()


MEANINGS: Final[Mapping[str, str]] = {
    "above": "The threshold: at or above it is a hit.",
    "alpha": "Largest error of a proportion, such as 0.1.",
    "among": "Public values to choose from.",
    "at": "One quantile between 0 and 1, or several in increasing order.",
    "below_margin": Expert("Run even though most hits are expected to be false alarms."),
    "bins": "Public bin edges, in increasing order.",
    "bounds": "Values are clipped to this range.",
    "candidates": "A grouped query: its groups are the candidates.",
    "charged": Expert("What the run is charged by: losses or hits (default: the cheaper)."),
    "clear_below": "An active group becomes quiet below this value (default: the threshold).",
    "clear": "No cost if the label is clear; an unclear label is reported and charged.",
    "column": "The column to query.",
    "columns": "Columns and their public values.",
    "condition": 'The condition, such as "age >= 65".',
    "constants": Expert("exact, or published (the constants of the theorem)."),
    "delta": Expert("Delta of this call."),
    "distance": "Number of units between each candidate and the true answer: a function, or a query.",
    "epsilon": "Epsilon of this call (of each group that is tested).",
    "exponent": Expert("Exponent of the schedule of rounds."),
    "fineness": Expert("Number of steps in half of a range."),
    "follow_size": Expert("Adapt to the number of rows as it grows."),
    "gap": Expert("Stop if the next one is lower than the last by more than this."),
    "grid": Expert("Common step of all queries."),
    "held": "Number of the call whose outcome is withheld.",
    "high": "Upper bound: larger values are clipped to it.",
    "hits": "Number of hits: a run ends after them; for a test, the whole budget must pay for them.",
    "interval": Expert("Confidence of the intervals, such as 0.95; they cost two thirds of epsilon."),
    "k": "Largest number of results.",
    "lag": "The window ends this long before the question, such as '1 day' where rows come a day late.",
    "lead": Expert("Also publish how far the winner is ahead."),
    "max_groups_per_unit": "chary keeps at most this many groups of each unit.",
    "longest": Expert("Longer rows are shortened to this length, in halves of the ranges."),
    "low": "Lower bound: smaller values are clipped to it.",
    "measure": Expert("What synthetic databases are drawn from: classes or databases."),
    "mechanism": Expert("Which mechanism answers (default: the best one)."),
    "misses": Expert("Fraction of the cost that pays for misses (default: the best one)."),
    "mixing": Expert("Fraction of the uniform histogram that is mixed in."),
    "monotone": Expert("No unit moves a value down (default: yes if neighbours add units)."),
    "note": "Public note for the readers of the alert.",
    "noise": Expert("Standard deviation of the Gaussian noise."),
    "of": "Count the distinct values of this column instead of units.",
    "of_unit": Expert("Which values of a unit count: spread evenly, random, mean or weighted (all of them, equally)."),
    "outside": Expert("Values outside the bins: ignore, or edges (the first and last bin)."),
    "part": Expert("Fraction of the budget for misses and hits together (default: all)."),
    "prepaid": Expert("Pay for all queries now, by rounds of sparse vector."),
    "price": "Fraction of the budget for one hit, such as 0.01 (instead of epsilon).",
    "publish": Expert("Publish the outcomes of both runs."),
    "queries": 'Conditions to answer, such as "age >= 65".',
    "query": "What to compute: a count, a sum or a mean, grouped or not.",
    "query_noise": Expert("Standard deviation of the Gaussian noise of each query."),
    "question": "What to compute: a count, a sum or a mean, grouped or not.",
    "ranges": "Columns and the ranges to which their values are clipped.",
    "registers": Expert("Number of registers, a power of two; more are more accurate."),
    "response": "The column to explain by the others.",
    "rho": Expert("Zero-concentrated DP with Gaussian noise (instead of epsilon)."),
    "room": Expert("Withhold outcomes in this many bytes each; another condition can publish them later."),
    "rounds": Expert("Number of rounds."),
    "rows": Expert("Number of rows (default: the best number)."),
    "max_rows_per_unit": "Keep at most this many values of each unit, spread evenly.",
    "runs": Expert("Maximum number of runs; delta is divided equally among them."),
    "score": "Score of each candidate: a function, or one query for each.",
    "sensitivity": "Largest change of one query by one unit.",
    "assumed_groups_per_unit": Expert("You assert that a unit is in at most this many groups."),
    "since": "Only rows from this day or time on, such as '2014-01-01'.",
    "step": "Answers are multiples of this; for optimal tests, the change that is worth a new answer.",
    "steps": "Largest number of steps.",
    "severity": "Public severity: info, warning or critical.",
    "stop": Expert("Rule that stops the runs: pure; with a delta renyi, self-reporting or whitehouse."),
    "strategy": Expert("What to measure (default: the least mean squared error)."),
    "confidence": Expert("Confidence that all tests together are right (default: 0.95)."),
    "tests": "Number of tests; thresholds are placed where all of them are right.",
    "threshold": "The public threshold.",
    "threshold_noise": "Standard deviation of the Gaussian noise of the threshold.",
    "time": "Column of dates or timestamps that a window uses.",
    "universe": "Public columns and their cells.",
    "update": Expert("How the histogram learns: projected, refitted (once more on each earlier answer) or published."),
    "value": Expert("Fraction of a hit's cost that pays for its value (default: 0.25)."),
    "values": "Publish a noisy value with each hit.",
    "warm_start": Expert("The number of the call of another histogram of these rows: start from a copy of it."),
    "where": 'Only rows with this condition, such as "age >= 65 AND smoker".',
    "workload": "Sums of cells to answer: a name, lists of columns, or weights.",
    "window": "Only rows of the last hours, days or weeks, such as '7 days'.",
    "within": "All tests must be right this near to the threshold (instead of epsilon).",
}


def meaning(kind: str, field: str) -> str:
    """The description of a field in a kind of call, in one line; empty where there is none.

    >>> meaning("release", "epsilon"), meaning("release", "nothing")
    ('Epsilon of this call (of each group that is tested).', '')
    """
    usual = MEANINGS.get(field, "")
    return type(usual)(_KINDS[kind].meanings.get(field) or usual)


# Errors of invalid calls.

_SAID = {"missing": "is missing", "unexpected_keyword_argument": "is not known", "missing_argument": "is missing"}


def refusal(name: str, error: ValidationError) -> CharyError:
    """The first error: chary's own where a check raised one. Its `field` is the name of the invalid field."""
    first = error.errors(include_url=False)[0]
    raised, where = first.get("ctx", {}).get("error"), ".".join(str(part) for part in first["loc"])
    told = f"{name}: {where} {_SAID.get(first['type'], first['msg'].lower())}"
    found = raised if isinstance(raised, CharyError) else InvalidParameter(told)
    found.field = where.partition(".")[0] or None
    return found
