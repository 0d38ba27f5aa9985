"""Commands on rows: check them, write their configuration."""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any, Final, Self

import typer

from chary.addresses import without_password
from chary.answers import Answer, Spending
from chary.calls import Call, Run
from chary.cli import answers, commands, output
from chary.cli.config import KINDS, TYPED, Settings, check_rows, is_ledger
from chary.cli.forms import Form, flag, in_options
from chary.cli.session import Opened, ask, blocked, budget_unsaid, check_table, declared, dialect, unpivoted
from chary.config import NAME
from chary.core import charges, quote
from chary.data import Check
from chary.data.source import ENDINGS, UNDECIDED
from chary.data.table import NOT_PRIVATE
from chary.data.table import check as checked
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import EVERY_CHARGED, counted, percent
from chary.session import Session
from chary.session.opening import usual_name

# Commands on rows: what a command line states, the session that it is asked in, and the hook that asks.
#
# A hook is a generator of what is to be shown. It gets what is stated, and its further parameters are options.

ROWS: Final[dict[str, type]] = {"source": commands.SourceOptions, "budget": commands.BudgetOptions}
NO_SIZE: Final = commands.CallOptions()


class Stated:
    """The options of one command line; the session opens when it is first asked for, so a hook may refuse before."""

    def __init__(self, groups: dict[str, Any], said: dict[str, Any], settings: Settings, form: Form | None):
        self.said, self.settings, self.form = said, settings, form
        self.source: commands.SourceOptions = groups["source"]
        self.query: commands.QueryOptions = groups.get("query", commands.QueryOptions(count=True))
        self.budget = commands.BudgetOptions(**vars(groups["budget"]))
        self.given: commands.CallOptions | Any = groups.get("size")
        self.blocks: commands.BlockOptions = groups.get("blocks", commands.BlockOptions())
        self.targets = form is not None and form.by_hits
        self._opened, self._spinner = ExitStack(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.rest()
        self._opened.__exit__(*error)

    def rest(self) -> None:
        """Stop the spinner, before anything is shown."""
        self._spinner.close()

    @property
    def request(self) -> str | None:
        """The key under which it is asked."""
        return self.budget.request

    def part(self, name: str) -> str | None:
        """The key of a part of what is asked."""
        return None if self.request is None else f"{self.request} ({name})"

    @property
    def earlier(self) -> int | None:
        """The run that is continued, where one is named."""
        return None if self.form is None or self.form.earlier is None else self.said[self.form.earlier]

    @cached_property
    def size(self) -> commands.CallOptions:
        """How precise the call is to be, as far as that was said."""
        if self.form is None:
            return self.given or NO_SIZE
        if self.earlier is not None:
            return NO_SIZE
        try:
            return self.form.size(self.given, self.said)
        except output.Unsaid as unsaid:
            # The line that is told is to work, so a budget that is not said either stands in it.
            unsaid.words[:0] = budget_unsaid(self.source, self.budget).split()
            raise

    @cached_property
    def words(self) -> commands.QueryOptions:
        """The question; a call that asks all by default counts."""
        counts = self.form is not None and self.form.asks_all and not self.query.named
        return commands.QueryOptions(count=True) if counts else self.query

    @cached_property
    def asked(self) -> Opened:
        """The open session, with a spinner on the terminal while it works."""
        tell = self._spinner.enter_context(output.spinning(f"reading {Path(self.source.shown).name}"))
        named: dict[str, Any] = {"blocks": self.blocks.ends, "dataset": self.settings.said.dataset}
        asked = ask(self.source, self.budget, self.size, self.words, targets=self.targets, **named)
        self._opened.enter_context(asked.session)
        tell("asking")
        return asked

    @property
    def session(self) -> Session:
        """The open session."""
        return self.asked.session

    def call(self, **brought: Any) -> Any:
        """The call that is stated; what is brought wins over what was said."""
        assert self.form is not None
        return self.form.call(self.asked, self.size, self.said, brought)

    def run(self) -> Run[Any, Any]:
        """The run that is continued, or a new one of the call that is stated."""
        assert self.form is not None
        if self.earlier is None:
            call = self.call()
            self._warn_of_the_last(call)
            return self.session.start(call, request=self.part(self.form.keyed))
        if wrong := [name for name in self.form.sizes if name in self.settings.typed]:
            raise InvalidParameter(
                f"an earlier {self.form.name} keeps what it was opened with: leave {flag(wrong[0])} out"
            )
        return self.session.resume(self.earlier)

    def warn(self, call: Call[Any]) -> None:
        """Say before a charge that it ends free misses; and before the first one that it binds the rows to misses that
        are charged, where a delta frees them."""
        self._warn_of_the_last(call)
        spine = self.session.spine
        if any(True for _ in spine.ledger.calls(spine.dataset, limit=1)):
            return
        freed = charges.freed_by_a_delta(call.plan(spine), spine.filter)
        if freed is not None:
            self.rest()
            free = f"would be free {freed} (--budget-delta 1e-6)"
            told = f"misses are charged here, and {free}; this charge fixes the budget"
            output.errors.print(f"note: {in_options(told)}", markup=False, soft_wrap=True)

    def _warn_of_the_last(self, call: Call[Any]) -> None:
        spine = self.session.spine
        if charges.ends_free_misses(call.plan(spine), spine.filter, spine.accounts()):
            self.rest()
            output.errors.print(f"note: {quote.LAST_FREE}: after it {EVERY_CHARGED}", markup=False, soft_wrap=True)

    def told(self, answer: Any, kind: str | None = None) -> dict[str, Any]:
        """An answer by names, with the labels of a series."""
        assert kind is not None or self.form is not None
        return answers.figures(answer, kind or self.form.kind.kind, self.asked.labels)  # type: ignore[union-attr]

    def charged(self, epsilon: Fraction | None, *paid: Spending) -> dict[str, Any]:
        """The figures that every answer ends with: what was charged for it, as shares of the budget, and what is left.

        `spent` is what all analysts spent so far.
        """
        size = {} if epsilon is None else {"epsilon": float(epsilon)}
        price = {"charged": fsum(each.share for each in paid), "remaining": self.session.remaining.share}
        return size | price | {"spent": self.session.spent.as_dict()}


def paid_for(answer: Answer | Run[Any, Any]) -> Spending:
    """What an answer was charged, or a run with all that it was asked."""
    return answer.spent if isinstance(answer, Run) else answer.charged


def of_form(form: Form, hook: commands.Hook, told: str | None = None, name: str | None = None) -> Callable[..., None]:
    """The command of a kind of call: its options are those of the call's fields, and those of the hook."""
    return on_rows(hook, form.groups, name or form.name, told or form.told, form)


def on_rows(
    hook: commands.Hook,
    groups: Mapping[str, type],
    name: str,
    told: str | None = None,
    form: Form | None = None,
    *,
    of_ledgers: bool = False,
) -> Callable[..., None]:
    """A command on rows: `hook` gets what is stated, and each of its further parameters as an option.

    One `of_ledgers` takes a ledger as well where others take rows.
    """
    extra = commands.extras(hook)

    def act(ctx: typer.Context, values: dict[str, Any]) -> commands.Found:
        settings = Settings.of(values, typed(ctx, values))
        values = settings.filled(values)
        parts = {name: commands.taken(group, values) for name, group in groups.items()}
        options = {parameter.name: values.pop(parameter.name) for parameter in extra}
        if not (of_ledgers and is_ledger(parts["source"].file)):
            check_rows(parts["source"].file, settings.said.known)
        with Stated(parts, values, settings, form) as stated:
            for shown in hook(stated, **options):
                stated.rest()
                yield shown

    own = sorted(
        [*(form.parameters if form else ()), *extra], key=lambda parameter: parameter.default is not commands.EMPTY
    )
    shared = [parameter for group in groups.values() for parameter in commands.parameters_of(group)]
    return commands.made(
        act,
        [*shared, *own, *commands.parameters_of(commands.SettingsOptions)],
        name,
        told or inspect.getdoc(hook) or "",
    )


def typed(ctx: typer.Context, values: Mapping[str, Any]) -> frozenset[str]:
    """The options that stand on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in values}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


# `chary check`: what of the rows cannot be read, for who owns them.


def _check(ctx: typer.Context, **values: Any) -> None:
    """Count rows, and for each column the cells that are not of its declared type. EXACT, NOT PRIVATE.

    For the owner of the rows, before analysts ask about them. Nothing is charged. Empty cells are of every type.

    Example: chary check visits.csv --columns age=BIGINT,day=DATE
    """
    as_json = values.pop("as_json")
    settings = Settings.of(values, typed(ctx, values))
    said = commands.CheckedOptions(**settings.filled(values))
    with output.spinning("reading"):
        read: dict[str, Any] = {"infer_types": said.infer_types, "table": said.table, "unit": said.unit}
        read["unpivot"] = unpivoted(said.unpivot)
        found = checked(said.file, columns=declared(said.columns), csv=dialect(said.csv_format), **read)
    if as_json:
        output.errors.print(NOT_PRIVATE, soft_wrap=True)
        output.show_json(found.as_dict())
    else:
        _show(found)


def _show(found: Check) -> None:
    output.console.print(NOT_PRIVATE, style="bold", soft_wrap=True)
    output.console.print(f"{found.rows:,} rows")
    if (units := found.units) is not None:
        share = percent(units.largest / found.rows) if found.rows else "0 %"
        output.console.print(
            f"{units.units:,} units: half of them have {counted(units.usual, 'row', 'rows')} or fewer, and the largest "
            f"has {units.largest:,}, {share} of all; {units.rows_without:,} rows are of no unit",
            soft_wrap=True,
        )
    rows = [
        (name, column["type"], column["unparsed"], *found.lengths.get(name, (None, None)))
        for name, column in found.as_dict()["columns"].items()
    ]
    output.show_table(["column", "type", "not of it", "shortest", "longest"], rows)


_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
check = commands.signed(
    _check,
    [
        inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context),
        *commands.parameters_of(commands.CheckedOptions),
        *commands.parameters_of(commands.SettingsOptions),
        inspect.Parameter("as_json", _KEYWORD, default=False, annotation=commands.AsJson),
    ],
    "check",
    inspect.getdoc(_check) or "",
)

# `chary config` and `chary init`: what holds for a file and where from, and the chary.toml that says it.


def _config(stated: Stated) -> commands.Found:
    """Show the options that apply to a file, and where each comes from: command line, chary.toml, ledger or default."""
    said = stated.settings.said
    rows = [
        {"option": name.replace("_", "-"), "value": _plain(value), "from": stated.settings.origin(name)}
        for name, value in _options(stated).items()
        if value not in (None, False)
    ]
    rows += [{"option": f"keys.{name}", "value": keys, "from": str(said.place)} for name, keys in said.keys.items()]
    if said.plots is not None:
        rows.append({"option": "plots", "value": str(said.plots), "from": str(said.place)})
    place = None if said.place is None else str(said.place)
    yield commands.Shown({"file": stated.source.shown, "config": place, "dataset": said.dataset, "options": rows})


def _init(stated: Stated) -> commands.Found:
    """Write options into a chary.toml, so that no later command on this file repeats them.

    Example: chary init visits.csv --unit patient_id --columns age=BIGINT --budget-epsilon 1 --budget-delta 1e-6
    """
    source, place = stated.source, Path(NAME)
    if without_password(source.file) != source.file:
        raise InvalidParameter("a chary.toml is no place for a password: leave it to ~/.pgpass")
    if (source.unit is not None) + source.row_level + (source.series is not None) != 1:
        raise InvalidParameter("say what is protected: --unit COLUMN, or --row-level if every row is a unit of its own")
    if stated.settings.said.dataset is not None:
        raise InvalidParameter(f"{stated.settings.said.place} has options for {source.shown}: change them there")
    declared(source.columns), dialect(source.csv_format), blocked(source.blocks)
    if stated.budget.budget_epsilon is not None:
        Budget(stated.budget.budget_epsilon, stated.budget.budget_delta or 0)
    name = usual_name(source.file, source.table)
    check_table(source)
    untyped = source.columns is None and not source.infer_types and source.series is None
    if untyped and str(source.file).lower().endswith(ENDINGS["csv"]):
        raise InvalidParameter(UNDECIDED.format(name))
    typed = {name: _plain(value) for name, value in _options(stated).items() if stated.settings.origin(name) == TYPED}
    lines = [f"[dataset.{json.dumps(name)}]", f"file = {_written(source.file)}"]
    lines += [f"{name.replace('_', '-')} = {_written(value)}" for name, value in typed.items()]
    before = "\n" if place.exists() else ""
    with place.open("a", encoding="utf-8") as opened:
        opened.write(before + "\n".join(lines) + "\n")
    yield commands.Shown({"config": NAME, "dataset": name, "file": source.shown, **typed}, output.show_pairs)


def _options(stated: Stated) -> dict[str, Any]:
    groups: tuple[Any, ...] = (stated.source, stated.budget)
    return {each.name: getattr(group, each.name) for group in groups for each in fields(group) if each.name in KINDS}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _written(value: Any) -> str:
    # JSON's texts, numbers, truths and lists are TOML's too, but for a pair of escapes that stands for one sign.
    return json.dumps(value, ensure_ascii=False)


config = on_rows(_config, ROWS, "config")
init = on_rows(_init, ROWS, "init")
