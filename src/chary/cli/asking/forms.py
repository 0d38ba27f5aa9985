"""A kind of call as a command line states it: which options its command has, and the call that they make."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, get_args

import typer

from chary.calls import Call, kinds
from chary.calls.call import MEANINGS
from chary.calls.fields import of_code
from chary.calls.sharpness import HowSharply
from chary.cli.asking.form_fields import QUESTIONS, FieldOption, Typed, declared, flag, options, stating, typed_as
from chary.cli.asking.opened import Opened
from chary.cli.asking.options import (
    BudgetOptions,
    CallOptions,
    QueryOptions,
    SharpOptions,
    SizeOptions,
    SourceOptions,
)
from chary.cli.output import Unsaid
from chary.errors import InvalidParameter

# What only a program can bring besides code of its own: names of targets, votes, a black box, several algorithms, or
# several queries, a workload.
BROUGHT: Final = frozenset(
    {"agreement", "best_of", "greedy", "label", "label_clear", "reselect", "schedule"}
    | {"exponential_mechanism", "inverse_sensitivity", "matrix_mechanism", "release_all"}
    | {name for name, kind in kinds().items() if of_code(kind)}
)
# These may be as precise as leaves room for the hits that are to be paid for.
BY_HITS: Final = frozenset(
    {"between", "classify", "cover", "decide", "release_if", "select", "sketch", "test", "top", "track", "watch"}
)
# Fields that say what a call may cost, and an example of each.
WAYS: Final = {
    "hits": "--hits 20",
    "price": "--price 0.05",
    "within": "--within 100 --tests 1000",
    "tests": "--tests 1000",
    "epsilon": "--epsilon-per-call 0.02",
    "rho": "--rho-per-call 0.001",
    "noise": "--noise 100",
}


def said_ways(said: Typed, size: SizeOptions | None) -> list[str]:
    """In which of these ways a command line says it, with its own options and those of the size."""
    options = dict(said) | ({} if size is None else vars(size))
    return [way for way in WAYS if options.get(typed_as(way)) is not None]


def check_cost_said(name: str, ways: Iterable[str], said: Iterable[str]) -> None:
    """Refuse a command line that says in none of these ways what a call may cost: there is no default for that."""
    examples = [WAYS[way] for way in ways]
    if examples and not set(ways) & set(said):
        told = ", ".join(examples[:-1]) + (" or " if examples[1:] else "") + examples[-1]
        raise Unsaid(f"a {name} has no usual cost: give {told}", examples[0])


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
        """How precise the call is to be, as far as that was said; `Unsaid` or `InvalidParameter` where it must be."""
        made = CallOptions() if given is None else CallOptions(**vars(given))
        self._check_said(said)
        check_cost_said(self.name, self.ways, said_ways(said, given))
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
        if sharp and size.hits is not None and issubclass(self.kind, HowSharply):
            made["hits"] = size.hits  # for the constructor to refuse
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
        missing = [name for name in needed if said[name] is None]
        if missing == ["hits"]:
            raise Unsaid(f"a new {self.name} ends after so many hits, which are paid when it is opened", WAYS["hits"])
        if missing:
            raise InvalidParameter(f"a new {self.name} needs {flag(missing[0])}, see --help")

    @property
    def ways(self) -> list[str]:
        """The fields by one of which it must be said what it may cost; none where all that it takes must be said."""
        fields = {field.name: field.default for field in declared(self.kind)}
        free = {name for name, usual in fields.items() if usual is None}
        free -= {name for name, option in self.changed.items() if not option.parameters}
        if self.by_hits:
            free |= {"hits", "epsilon"}
        elif fields.get("epsilon") is MISSING:
            return ["epsilon"]
        if "within" in fields or "price" not in fields:
            free.discard("tests")  # alone it says what a call may cost only where how near follows from alpha
        return [way for way in WAYS if way in free]

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


# Only with an algorithm, which no command line brings, may a step be left out.
_STATED: Final[dict[str, dict[str, FieldOption]]] = {
    "track": {"step": FieldOption("step", (stating("step", str, MEANINGS["step"]),), lambda said, _: said["step"])}
}


def forms() -> list[Form]:
    """Every kind of call that a command line can state, by its name."""
    return [Form(kind, _STATED.get(name, {})) for name, kind in sorted(kinds().items()) if name not in BROUGHT]


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option that may be left out."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter
    plain, told = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[plain | None, told])
