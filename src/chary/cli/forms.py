"""Forms of calls at a shell: an option for each field."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple, get_args

import typer

from chary.calls import Call, kinds, sharpness
from chary.calls import fields as typed
from chary.calls.call import meaning
from chary.calls.fields import declared, of_code, type_of
from chary.calls.language import OF_A_RUN, QUERIES, Called, Language, Said, spoken
from chary.cli import commands, output, session
from chary.errors import InvalidParameter

# The fields of calls as options: what is typed for each type of field, and what the constructor takes for it.

Typed = Mapping[str, Any]
KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
QUESTIONS: Final = ("query", "question", "candidates")
# Options that mean something else for the dataset or the question have another name here.
NAMES: Final = {
    "sensitivity": "query_sensitivity",
    "value": "value_share",
}
# Quantiles have no default in a call; typed without --at they are the usual three.
QUARTILES: Final = "0.25,0.5,0.75"


class FieldOption(NamedTuple):
    """A field of a call: the parameters of its command that state it, and what they say in a session."""

    field: str
    parameters: tuple[inspect.Parameter, ...]
    read: Callable[[Typed, session.Opened], Any]


def options(kind: type[Call[Any]], changed: Mapping[str, FieldOption]) -> list[FieldOption]:
    """An option for each field, but for the question and epsilon, which all commands state in the same words.

    What must be said comes first. Those that are changed are stated as they say, whatever their field is. A condition
    is code, and has no option.
    """
    named = (field for field in declared(kind) if field.name not in (*QUESTIONS, "epsilon"))
    own = [field for field in named if type_of(field).control]
    own.sort(key=lambda field: field.default is not MISSING)
    return [changed.get(field.name) or _option(field, kind.kind) for field in own]


def flag(name: str) -> str:
    """How an option is typed.

    >>> flag("row_level")
    '--row-level'
    """
    return f"--{name.replace('_', '-')}"


def typed_as(field: str) -> str:
    """The name of the option that states a field of a call.

    >>> typed_as("value"), typed_as("within")
    ('value_share', 'within')
    """
    return NAMES.get(field, field)


# What a program says of a dataset in one argument, and a command in others.
_TYPED_AS: Final = {"privacy_unit": "unit", "csv": "csv_format", "universe": "values", "groups": "values"}


@dataclass(frozen=True)
class Options(Language):
    """Options of a command, such as `--hits 20`; `known` are those of the command where the message appears.

    >>> from chary.calls.language import spoken
    >>> spoken("give tests= as well, such as tests=100, or epsilon=", Options())
    'give --tests as well, such as --tests 100, or --epsilon'
    >>> spoken("declare columns={'age': 'BIGINT', 'day': 'DATE'}", Options())
    'declare --columns age=BIGINT,day=DATE'
    >>> spoken("columns={} for none", Options())
    '--columns "" for none'
    >>> spoken('condition="age >= 65", or count().by("clinic", ["a", "b"])', Options())
    '--condition "age >= 65", or --count --by clinic --keys a,b'
    >>> spoken("another is opened by session.start(SparseVector(above=..., hits=3))", Options())
    'another is opened by chary ask FILE sparse-vector --above ... --hits 3'
    >>> spoken("budget=chary.Budget(epsilon=1, delta=1e-6), privacy_unit=None, monotone=False", Options())
    '--budget-epsilon 1 --budget-delta 1e-6, --row-level, --no-monotone'
    """

    known: frozenset[str] = frozenset()
    row_level = "--row-level"

    def _field(self, said: Said) -> str:
        """An option, alone or with its value."""
        if isinstance(said.value, Called):
            return self.call(said.value) or f"{self._flag(said.name)} {said.text}"
        if isinstance(said.value, bool):
            return self._flag(said.name) if said.value else f"--no{self._flag(said.name)[1:]}"
        if (
            isinstance(said.value, dict)
            and said.value
            and all(isinstance(each, (list, tuple)) for each in said.value.values())
        ):
            parts = {name: ",".join(map(str, values)) for name, values in said.value.items()}
            return " ".join(f"{self._flag(said.name)} {name}={values}" for name, values in parts.items())
        if isinstance(said.value, str) and said.value in self.known and typed_as(said.name) not in self.known:
            return flag(str(said.value))
        return f"{self._flag(said.name)} {_typed_value(said)}".rstrip()

    def _call(self, called: Called) -> str | None:
        """The command of a call, or the options of a query."""
        if called.name in (*OF_A_RUN, "by"):
            return self.line(called.arguments) or None
        line = _LINES.get(called.name.removeprefix("chary."))
        if line is not None:
            return line(self, called.arguments)
        if called.plain in QUERIES:
            return self._query(called)
        if called.linear is not None:
            return f"'{called.linear}'"
        if called.kind is None or not called.kind.typed:
            return called.brought or (None if called.kind is None else f"{called.plain} (in Python)")
        form = Form(called.kind)
        own = replace(self, known=frozenset(parameter.name for parameter in form.parameters))
        return f"chary ask FILE {form.name} {own.line(called.arguments)}".rstrip()

    def name(self, name: str) -> str:
        """A field as its option."""
        return self._flag(name) if name in self.known else name

    def _flag(self, name: str) -> str:
        typed = typed_as(name) if typed_as(name) in self.known else _TYPED_AS.get(name, name)
        return flag(typed)

    def line(self, arguments: Iterable[Said]) -> str:
        """Several options."""
        said = (each for each in arguments if not (each.open and each.name in QUESTIONS))
        return " ".join(f"{self._flag(each.name)} ..." if each.open else self.field(each) for each in said)

    def _query(self, called: Called) -> str:
        asked = [each for each in called.arguments if each.name != "column"]
        column = next((str(each.value) for each in called.arguments if each.name == "column"), "")
        return " ".join(filter(None, (f"--{called.plain}", column, self.line(asked))))


def in_options(message: str) -> str:
    """A message of the library in the options of the command that runs.

    >>> in_options("give hits= or price=0.05")
    'give --hits or --price 0.05'
    """
    return spoken(message, Options(output.KNOWN.get()))


# How a command says what a program says of a session.
_LINES: Final[Mapping[str, Callable[[Options, tuple[Said, ...]], str]]] = {
    "session.quote": lambda _, said: "chary quote",
    "session.resume": lambda _, said: f"chary resume FILE {said[0].text if said else 'RUN'}",
    "session.blocks": lambda _, said: f"--in-blocks {'..'.join(str(each.value) for each in said)}".rstrip(),
    # What stands for any value is typed anyhow, and the grain follows from the first call.
    "open": lambda options, said: options.line(each for each in said if not each.open and each.name != "grain"),
    "Budget": lambda _, said: " ".join(f"--budget-{each.name} {each.text}" for each in said),
    "Blocks": lambda _, said: f"--blocks {','.join(f'{each.name}={each.value}' for each in said)}",
    "CSVFormat": lambda _, said: " ".join(f"--csv-format {each.name}={each.value}" for each in said),
}


def _typed_value(said: Said) -> str:
    """A value as a shell takes it: lists with commas, names with their values, in quotes where it has spaces."""
    if isinstance(said.value, (dict, list, tuple)):
        pairs = said.value.items() if isinstance(said.value, dict) else [(None, each) for each in said.value]
        text = ",".join(str(each) if name is None else f"{name}={each}" for name, each in pairs) or '""'
    else:
        text = str(said.value) if isinstance(said.value, str) else said.text
    return f'"{text}"' if " " in text else text


def _option(field: Field[Any], of: str) -> FieldOption:
    kind, name = type_of(field), typed_as(field.name)
    if kind.options:
        return FieldOption(
            field.name,
            tuple(map(_several, kind.options)),
            lambda said, asked: _joined(kind, [said[each.name] for each in kind.options], _beside(said, asked)),
        )
    usual = QUARTILES if field.name == "at" else inspect.Parameter.empty if field.default is MISSING else field.default
    parameter = stating(name, kind.option if usual is not None else kind.option | None, meaning(of, field.name), usual)
    return FieldOption(field.name, (parameter,), lambda said, asked: _read(kind, said[name], _beside(said, asked)))


def _several(option: typed.Option) -> inspect.Parameter:
    usual = inspect.Parameter.empty if option.usual is MISSING else option.usual
    annotation = option.plain | None if usual is None else option.plain
    return stating(option.name, annotation, option.meaning, usual, *option.flags)


def _joined(kind: typed.FieldType, said: list[Any], beside: typed.Beside) -> Any:
    return kind.read(said[0] or [], beside) if kind.joined is None else kind.joined(said, beside)


def _read(kind: typed.FieldType, said: Any, beside: typed.Beside) -> Any:
    """What was typed, read; the shell has read integers and flags."""
    return (
        kind.read(session.listed_lines(said) if kind.lines else said, beside) if isinstance(said, (str, list)) else said
    )


def _beside(said: Typed, asked: session.Opened) -> typed.Beside:
    return typed.Beside(asked.session.schema, said.get("column"), opened=session.opened_list)


def stating(
    name: str, annotation: Any, told: str, default: Any = inspect.Parameter.empty, *flags: str
) -> inspect.Parameter:
    """The parameter of a command that states a field."""
    shown = str(default) if annotation is str and default not in (None, inspect.Parameter.empty) else default
    option = typer.Option(*flags, help=told)
    return inspect.Parameter(name, KEYWORD, default=shown, annotation=Annotated[annotation, option])


# A kind of call as a command line states it: which options its command has, and the call that they make.

# Fields that say what a call may cost, and an example of each.
WAYS: Final = {
    "hits": "--hits 20",
    "price": "--price 0.05",
    "within": "--within 100 --tests 1000",
    "tests": "--tests 1000",
    "epsilon": "--epsilon 0.02",
    "rho": "--rho 0.001",
    "noise": "--noise 100",
}


def said_ways(said: Typed, size: commands.SizeOptions | None) -> list[str]:
    """In which of these ways a command line says it, with its own options and those of the size."""
    options = dict(said) | ({} if size is None else vars(size))
    return [way for way in WAYS if options.get(typed_as(way)) is not None]


def check_cost_said(name: str, ways: Iterable[str], said: Iterable[str]) -> None:
    """Refuse a command line that says in none of these ways what a call may cost: there is no default for that."""
    examples = [WAYS[way] for way in ways]
    if examples and not set(ways) & set(said):
        told = ", ".join(examples[:-1]) + (" or " if examples[1:] else "") + examples[-1]
        raise output.Unsaid(f"{name} has no default cost: give {told}", examples[0])


@dataclass(frozen=True)
class Form:
    """One kind of call with the options of its command.

    `changed` has the options that this command has for some fields instead of the usual ones. `earlier` names an option
    that continues a run, so that nothing else need be said. `keyed` is what requests call the opening of a run.
    """

    kind: type[Call[Any]]
    changed: Mapping[str, FieldOption] = field(default_factory=dict)
    earlier: str | None = None
    keyed: str = "opening"
    sized_by_hits: bool | None = None

    @property
    def name(self) -> str:
        """The name of its command."""
        return self.kind.name.replace("_", "-")

    @property
    def told(self) -> str:
        """The help of its command: the first paragraph of its docstring."""
        paragraph = inspect.cleandoc(self.kind.__doc__ or "").split("\n\n")[0]
        return " ".join(paragraph.split())

    @property
    def by_hits(self) -> bool:
        """Whether its size may follow the hits that are to be paid for."""
        return self.kind.by_hits if self.sized_by_hits is None else self.sized_by_hits

    @property
    def groups(self) -> dict[str, type]:
        """The groups of options of its command."""
        size = (
            commands.SizeOptions
            if not self.by_hits
            else commands.SharpOptions
            if issubclass(self.kind, sharpness.HowSharply)
            else commands.CallOptions
        )
        found: dict[str, type] = {"source": commands.SourceOptions, "blocks": commands.BlockOptions}
        found["budget"] = commands.BudgetOptions
        found |= {"size": size} if "epsilon" in self._names else {}
        return found | ({"query": commands.QueryOptions} if self._question else {})

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
        told = typer.Option(help=f"Continue the {self.name} of that call.")
        named = inspect.Parameter(
            self.earlier, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[int | None, told]
        )
        return [*map(_optional, found), named]

    @property
    def sizes(self) -> list[str]:
        """The options that an earlier run was opened with."""
        return [parameter.name for option in self.own for parameter in option.parameters] + ["epsilon", "hits"]

    def size(self, given: commands.SizeOptions | None, said: Typed) -> commands.CallOptions:
        """How precise the call is to be, as far as that was said; `Unsaid` or `InvalidParameter` where it must be."""
        made = commands.CallOptions() if given is None else commands.CallOptions(**vars(given))
        self._check_said(said)
        check_cost_said(self.name, self.ways, said_ways(said, given))
        return made

    def read(self, asked: session.Opened, said: Typed) -> dict[str, Any]:
        """The fields of the call that its own options state."""
        return {option.field: option.read(said, asked) for option in self.own}

    def call(
        self, asked: session.Opened, size: commands.CallOptions, said: Typed, brought: dict[str, Any]
    ) -> Call[Any]:
        """The call that the options state; what is brought stands in for what was said."""
        made = self.read(asked, said)
        if self._question:
            made[self._question] = asked.question
        sharp = any(made.get(way) is not None for way in ("price", "within"))
        if sharp and size.hits is not None and issubclass(self.kind, sharpness.HowSharply):
            made["hits"] = size.hits  # for the constructor to refuse
        if not sharp and size.epsilon is None and self._tested_sharply(made, asked):
            made["hits"], sharp = asked.hits, True
        if "epsilon" not in brought and ((self.by_hits and not sharp) or size.epsilon is not None):
            made["epsilon"] = asked.epsilon
        return self.kind(**made | brought)

    def _tested_sharply(self, made: dict[str, Any], asked: session.Opened) -> bool:
        """Whether hits are those of optimal tests, as in a program: under the filter that has costs for them, or where
        something was said that only they have."""
        if not issubclass(self.kind, sharpness.HowSharply):
            return False
        usual = asked.sharp and (self.kind.groups_sharply or asked.question.keys is None)
        return usual or any(made.get(term) is not None for term in ("tests", "value"))

    def _check_said(self, said: Typed) -> None:
        """What an earlier run makes superfluous is needed without one."""
        needed = [p.name for option in self.own for p in option.parameters if p.default is inspect.Parameter.empty]
        missing = [name for name in needed if said[name] is None]
        if missing == ["hits"]:
            raise output.Unsaid(
                f"a new {self.name} ends after a number of hits, which are paid for when it is opened",
                WAYS["hits"],
            )
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


def forms() -> list[Form]:
    """Every kind of call that a command line can state, by its name."""
    known = [kind for _, kind in sorted(kinds().items()) if kind.typed and not of_code(kind)]
    return [Form(kind, {} if kind.stated is None else {kind.stated: _must(kind.stated, kind.kind)}) for kind in known]


def _must(name: str, of: str) -> FieldOption:
    """An option that may not be left out."""
    return FieldOption(name, (stating(name, str, meaning(of, name)),), lambda said, _: said[name])


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option that may be left out."""
    if parameter.default is not inspect.Parameter.empty:
        return parameter
    plain, told = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[plain | None, told])
