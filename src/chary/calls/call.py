"""What a call is: its declaration, fields, body, and its way to an interaction."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
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
from pydantic_core import PydanticSerializationError

from chary.calls.refusals import refusal
from chary.core.plan import ENCODER, Interaction, Json
from chary.core.transaction import Spine
from chary.data import Neighbouring
from chary.errors import InvalidParameter, InvalidQuery
from chary.interruption import interrupted
from chary.numbers import Number

AnswerT = TypeVar("AnswerT")
CallT = TypeVar("CallT", bound="Call[Any]")
# The ledger names the kind by itself, and that a false alarm is meant is no part of the question.
_UNASKED: Final = ("kind", "below_margin")
KindT = TypeVar("KindT", bound="type[Call[Any]]")
_CONFIG: Final = ConfigDict(
    arbitrary_types_allowed=True, extra="forbid", ser_json_inf_nan="null", validate_default=True
)


class Call(ABC, Generic[AnswerT]):
    """What every call is: frozen, equal to calls with equal fields, readable from its own JSON.

    Constructors refuse what can be right for no dataset; `bind` refuses what this dataset cannot answer. Neither
    touches data nor charges anything. `kind` names the call in ledgers, commands and JSON, `subject` its room.
    """

    kind: ClassVar[str]
    subject: ClassVar[str]
    # A module of tests that imports `Test` must not have it collected.
    __test__: ClassVar[bool] = False

    @abstractmethod
    def bind(self, spine: Spine) -> Interaction:
        """What the spine carries through reserve - run - settle, for these rows under this filter."""

    def perform(self, spine: Spine, request: str | None = None) -> AnswerT:
        """Ask it; most calls are one interaction."""
        answer: AnswerT = spine.perform(self.bind(spine), request)
        return answer

    def body(self) -> Json:
        """The call as JSON, from which `read` makes an equal one."""
        try:
            fields: Json = adapter(type(self)).dump_python(self, mode="json", exclude_none=True)
        except PydanticSerializationError as error:
            if interrupted(error):
                raise KeyboardInterrupt from None
            raise
        return {"kind": self.kind} | fields

    @classmethod
    def recorded(cls, body: Json) -> Self:
        """The call whose record in a ledger has this body; what the rows added to it is left out.

        Errors: those of the constructor, for what JSON cannot say, such as algorithms.
        """
        known = {field.name for field in dataclasses.fields(cast("Any", cls))}
        return cls(**{name: value for name, value in body.items() if name in known})

    def __hash__(self) -> int:
        return hash(ENCODER.encode(self.body()))


@dataclasses.dataclass(frozen=True)
class Bound(Interaction, Generic[CallT]):
    """A call and the neighbours that its answer must not tell apart: what the spine carries.

    The fields of the call were checked by its constructor and are nowhere checked again; what this dataset cannot
    answer is refused when it is bound. The body in the ledger is that of the call.
    """

    call: CallT
    neighbouring: Neighbouring

    def __post_init__(self) -> None:
        self.event, self.accuracy()  # refuses noise out of range before anything is reserved

    @property
    def kind(self) -> str:
        return self.call.kind

    @property
    def said_epsilon(self) -> Fraction | None:
        epsilon = getattr(self.call, "epsilon", None)
        return None if epsilon is None else Fraction(epsilon)

    def at_epsilon(self, epsilon: Fraction) -> Interaction:
        own: Any = self.call
        return dataclasses.replace(self, call=dataclasses.replace(own, epsilon=epsilon))

    def body(self) -> Json:
        return {name: value for name, value in self.call.body().items() if name not in _UNASKED}


def adapter(kind: type[Call[Any]]) -> TypeAdapter[Any]:
    """Checks, JSON and JSON schema of a kind of call, all from its one declaration."""
    return _ADAPTERS[kind.kind]


def kinds() -> Mapping[str, type[Call[Any]]]:
    """Every kind of call that was declared, by its name."""
    return dict(_KINDS)


def asked(call: Any) -> Call[Any]:
    """The call; `InvalidQuery` for anything else, such as a bare query."""
    if not isinstance(call, Call):
        raise InvalidQuery("ask a call, such as chary.calls.Test(query, above=500, epsilon=0.02)")
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
def call(kind: str, *, subject: str) -> Callable[[KindT], KindT]:
    """Declare a kind of call: its fields become the constructor with its checks, JSON, JSON schema and options."""

    def declare(declared: KindT) -> KindT:
        declared.kind, declared.subject = kind, subject
        made: Any = checked_dataclass(frozen=True, config=_CONFIG)(declared)
        made.__signature__ = _readable(made)
        made.__init__, made.__hash__ = _refusing(made.__init__, made.__signature__), Call.__hash__
        if kind in _KINDS:
            raise TypeError(f"there are two kinds of call named {kind!r}")
        _KINDS[kind], _ADAPTERS[kind] = made, TypeAdapter(made)
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
    given = inspect.signature(kind).parameters.values()
    return inspect.Signature([p.replace(annotation=_Words(_written(p.annotation))) for p in given])


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


def _refusing(init: Callable[..., None], signature: inspect.Signature) -> Callable[..., None]:
    """The constructor with refusals in chary's own words and types."""

    def checked(self: Any, /, *arguments: Any, **options: Any) -> None:
        try:
            init(self, *arguments, **options)
            return
        except ValidationError as error:
            refused = refusal(type(self).__name__, error)
        # Outside of the handler: pydantic's error holds what a check raised, and if it were the context of that too, no
        # collector could free the two, nor the frames of the caller with its session.
        raise refused

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    checked.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])  # type: ignore[attr-defined]
    checked.__doc__ = init.__doc__
    return checked


_KINDS: dict[str, type[Call[Any]]] = {}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
