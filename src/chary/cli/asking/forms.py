"""A kind of call as a command line states it: which options its command has, and the call that they make."""

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final, get_args

import typer

from chary.calls import Call, kinds
from chary.calls.fields import of_code
from chary.calls.thresholds.how_sharply import HowSharply
from chary.cli.asking.form_fields import QUESTIONS, FieldOption, Typed, declared, flag, options
from chary.cli.asking.opened import DEFAULT_HITS, Opened
from chary.cli.asking.options import (
    BudgetOptions,
    CallOptions,
    QueryOptions,
    SharpOptions,
    SizeOptions,
    SourceOptions,
)
from chary.errors import InvalidParameter

# What only a program can bring besides code of its own: names of targets, votes, a black box, several algorithms, or
# several queries, a workload.
BROUGHT: Final = frozenset(
    {"agreement", "best_of", "greedy", "label", "label_clear", "reselect", "schedule"}
    | {"exponential_mechanism", "inverse_sensitivity", "matrix_mechanism", "release_all"}
    | {name for name, kind in kinds().items() if of_code(kind)}
)
# Without a size of their own, these are as precise as leaves room for the hits that are to be paid for.
BY_HITS: Final = frozenset(
    {"between", "classify", "cover", "decide", "release_if", "select", "sketch", "test", "top", "track", "watch"}
)
SIZES: Final = ("epsilon", "rho", "noise", "hits")


@dataclass(frozen=True)
class Form:
    """One kind of call with the options of its command.

    `changed` has the options that this command has for some fields instead of the usual ones; `earlier` names an option
    that goes on with a run, so that nothing else need be said; `keyed` is what requests call the opening of a run.
    """

    kind: type[Call[Any]]
    changed: Mapping[str, FieldOption] = field(default_factory=dict)
    earlier: str | None = None
    keyed: str = "opening"
    sized_by_hits: bool | None = None

    @property
    def name(self) -> str:
        """The name of its command."""
        return self.kind.kind.replace("_", "-")

    @property
    def told(self) -> str:
        """The help of its command: the first paragraph of its docstring."""
        paragraph = inspect.cleandoc(self.kind.__doc__ or "").split("\n\n")[0]
        return " ".join(paragraph.split())

    @property
    def by_hits(self) -> bool:
        """Whether its size may follow the hits that are to be paid for."""
        return self.kind.kind in BY_HITS if self.sized_by_hits is None else self.sized_by_hits

    @property
    def groups(self) -> dict[str, type]:
        """The groups of options of its command."""
        size = SizeOptions if not self.by_hits else SharpOptions if issubclass(self.kind, HowSharply) else CallOptions
        found: dict[str, type] = {"source": SourceOptions, "budget": BudgetOptions}
        found |= {"size": size} if "epsilon" in self._names else {}
        return found | ({"query": QueryOptions} if self._question else {})

    @cached_property
    def own(self) -> list[FieldOption]:
        """Its own options; hits of a call that is sized by them are asked for with its size."""
        found = options(self.kind, self.changed)
        return [option for option in found if not (self.by_hits and option.field == "hits")]

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Those of its own options, and the one that names an earlier run."""
        found = [parameter for option in self.own for parameter in option.parameters]
        if self.earlier is None:
            return found
        told = typer.Option(help=f"Go on with the {self.name} of that call.")
        named = inspect.Parameter(
            self.earlier, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[int | None, told]
        )
        return [*map(_optional, found), named]

    @property
    def sizes(self) -> list[str]:
        """The options that an earlier run was opened with."""
        return [parameter.name for option in self.own for parameter in option.parameters] + ["epsilon_per_call", "hits"]

    def size(self, given: SizeOptions | None, said: Typed) -> CallOptions:
        """How precise the call is to be, as far as that was said; `InvalidParameter` where it must be."""
        made = CallOptions() if given is None else CallOptions(**vars(given))
        self._check_said(said)
        if not self.by_hits:
            self._check_size(made, said)
        elif self._must("k") and (made.epsilon_per_call, made.hits) == (None, None):
            made = replace(made, hits=max(said["k"], DEFAULT_HITS))
        return made

    def read(self, asked: Opened, said: Typed) -> dict[str, Any]:
        """The fields of the call that its own options state."""
        return {option.field: option.read(said, asked) for option in self.own}

    def call(self, asked: Opened, size: CallOptions, said: Typed, brought: dict[str, Any]) -> Call[Any]:
        """The call that the options state; what is brought stands in for what was said."""
        made = self.read(asked, said)
        if self._question:
            made[self._question] = asked.question
        sharp = any(made.get(way) is not None for way in ("price", "within"))
        if not sharp and size.epsilon_per_call is None and self._tested_sharply(made, asked):
            made["hits"], sharp = asked.hits, True
        if "epsilon" not in brought and ((self.by_hits and not sharp) or size.epsilon_per_call is not None):
            made["epsilon"] = asked.epsilon
        return self.kind(**made | brought)

    def _tested_sharply(self, made: dict[str, Any], asked: Opened) -> bool:
        """Whether hits are those of sharp tests, as in a program: under the filter that has prices for them, or where
        something was said that only they have."""
        said = any(made.get(term) is not None for term in ("tests", "value"))
        return issubclass(self.kind, HowSharply) and (said or (asked.sharp and self.kind.usually_sharp))

    def _check_said(self, said: Typed) -> None:
        """What an earlier run makes superfluous is needed without one."""
        needed = [p.name for option in self.own for p in option.parameters if p.default is inspect.Parameter.empty]
        if missing := [name for name in needed if said[name] is None]:
            raise InvalidParameter(f"a new {self.name} needs {flag(missing[0])}, see --help")

    def _check_size(self, made: CallOptions, said: Typed) -> None:
        sizes = [name for name in SIZES if name in self._names]
        stated = [said.get(name, said.get(f"{name}_per_call")) for name in sizes[1:]]
        free = not self._must("epsilon") and (any(size is not None for size in stated) or self._sized)
        if "epsilon" in sizes and made.epsilon_per_call is None and not free:
            raise InvalidParameter(f"a {self.name} needs its own size, such as --epsilon-per-call 0.1")

    @property
    def _sized(self) -> bool:
        """Whether it has a size of its own by default: that of as many hits as are usual."""
        return any(field.name == "hits" and field.default is None for field in declared(self.kind))

    def _must(self, name: str) -> bool:
        """Whether it has this field and no default for it."""
        return any(field.name == name and field.default is MISSING for field in declared(self.kind))

    @property
    def asks_all(self) -> bool:
        """Whether it counts everything if no question is named."""
        return any(field.name == self._question and field.default is None for field in declared(self.kind))

    @property
    def _names(self) -> list[str]:
        return [field.name for field in declared(self.kind)]

    @property
    def _question(self) -> str | None:
        return next((name for name in self._names if name in QUESTIONS), None)


def forms() -> list[Form]:
    """Every kind of call that a command line can state, by its name."""
    return [Form(kind) for name, kind in sorted(kinds().items()) if name not in BROUGHT]


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option that may be left out."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter
    plain, told = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[plain | None, told])
