"""Commands on rows: what a command line states, the session that it is asked in, and the hook that asks.

A hook is a generator of what is to be shown. It gets what is stated, and its further parameters are options.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any, Final, Self

import typer

from chary.answers import Answer, Spending
from chary.calls import Call, Run
from chary.cli.asking.form_fields import flag, spoken
from chary.cli.asking.forms import Form
from chary.cli.asking.opened import Opened, ask, budget_unsaid
from chary.cli.asking.options import BudgetOptions, CallOptions, QueryOptions, SettingsOptions, SourceOptions
from chary.cli.asking.settings import Settings
from chary.cli.asking.shown_answers import figures
from chary.cli.commands import EMPTY, Found, Hook, extras, made, parameters_of, taken
from chary.cli.output import Unsaid, errors
from chary.cli.places import check_rows, is_ledger
from chary.cli.spinner import spinning
from chary.core.charges import ends_free_misses, freed_by_a_delta
from chary.core.quote import LAST_FREE
from chary.errors import CharyError, InvalidParameter
from chary.numbers import EVERY_CHARGED
from chary.session import Session

ROWS: Final[dict[str, type]] = {"source": SourceOptions, "budget": BudgetOptions}
NO_SIZE: Final = CallOptions()


class Stated:
    """The options of one command line; the session opens when it is first asked for, so a hook may refuse before."""

    def __init__(self, groups: dict[str, Any], said: dict[str, Any], settings: Settings, form: Form | None):
        self.said, self.settings, self.form = said, settings, form
        self.source: SourceOptions = groups["source"]
        self.query: QueryOptions = groups.get("query", QueryOptions(count=True))
        self.budget = BudgetOptions(**vars(groups["budget"]))
        self.given: CallOptions | Any = groups.get("size")
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
        """The run that is gone on with, where one is named."""
        return None if self.form is None or self.form.earlier is None else self.said[self.form.earlier]

    @cached_property
    def size(self) -> CallOptions:
        """How precise the call is to be, as far as that was said."""
        if self.form is None:
            return self.given or NO_SIZE
        if self.earlier is not None:
            return NO_SIZE
        try:
            return self.form.size(self.given, self.said)
        except Unsaid as unsaid:
            # The line that is told is to work, so a budget that is not said either stands in it.
            unsaid.words[:0] = budget_unsaid(self.source, self.budget).split()
            raise

    @cached_property
    def words(self) -> QueryOptions:
        """The question; a call that asks all by default counts."""
        counts = self.form is not None and self.form.asks_all and not self.query.named
        return QueryOptions(count=True) if counts else self.query

    @cached_property
    def asked(self) -> Opened:
        """The open session, with a spinner on the terminal while it works."""
        tell = self._spinner.enter_context(spinning(f"reading {Path(self.source.shown).name}"))
        asked = ask(self.source, self.budget, self.size, self.words, targets=self.targets)
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
        """The run that is gone on with, or a new one of the call that is stated."""
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
        freed = freed_by_a_delta(call.bind(spine), spine.filter)
        if freed is not None:
            self.rest()
            told = f"misses are charged here, and would be free {freed} (--delta 1e-6); this charge fixes the budget"
            errors.print(f"note: {spoken(told, ['epsilon_per_call'])}", markup=False, soft_wrap=True)

    def _warn_of_the_last(self, call: Call[Any]) -> None:
        spine = self.session.spine
        if ends_free_misses(call.bind(spine), spine.filter, spine.accounts()):
            self.rest()
            errors.print(f"note: {LAST_FREE}: after it {EVERY_CHARGED}", markup=False, soft_wrap=True)

    def told(self, answer: Any, kind: str | None = None) -> dict[str, Any]:
        """An answer by names, with the labels of a series."""
        assert kind is not None or self.form is not None
        return figures(answer, kind or self.form.kind.kind, self.asked.labels)  # type: ignore[union-attr]

    def charged(self, epsilon: Fraction | None, *paid: Spending) -> dict[str, Any]:
        """The figures that every answer ends with: what was charged for it, as shares of the budget, and what is left.

        `spent` is what all analysts spent so far.
        """
        size = {} if epsilon is None else {"epsilon_per_call": float(epsilon)}
        price = {"charged": fsum(each.share for each in paid), "remaining": self.session.remaining.share}
        return size | price | {"spent": self.session.spent.as_dict()}


def paid_for(answer: Answer | Run[Any, Any]) -> Spending:
    """What an answer was charged, or a run with all that it was asked."""
    return answer.spent if isinstance(answer, Run) else answer.charged


def of_form(form: Form, hook: Hook, told: str | None = None, name: str | None = None) -> Callable[..., None]:
    """The command of a kind of call: its options are those of the call's fields, and those of the hook."""
    return on_rows(hook, form.groups, name or form.name, told or form.told, form)


def on_rows(
    hook: Hook,
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
    extra = extras(hook)

    def act(ctx: typer.Context, values: dict[str, Any]) -> Found:
        settings = Settings.of(values, typed(ctx, values))
        values = settings.filled(values)
        parts = {name: taken(group, values) for name, group in groups.items()}
        options = {parameter.name: values.pop(parameter.name) for parameter in extra}
        try:
            if not (of_ledgers and is_ledger(parts["source"].file)):
                check_rows(parts["source"].file, settings.said.known)
            with Stated(parts, values, settings, form) as stated:
                for shown in hook(stated, **options):
                    stated.rest()
                    yield shown
        except CharyError as error:
            error.args = (spoken(str(error), [parameter.name for parameter in ctx.command.params]), *error.args[1:])
            raise

    own = sorted([*(form.parameters if form else ()), *extra], key=lambda parameter: parameter.default is not EMPTY)
    shared = [parameter for group in groups.values() for parameter in parameters_of(group)]
    return made(act, [*shared, *own, *parameters_of(SettingsOptions)], name, told or inspect.getdoc(hook) or "")


def typed(ctx: typer.Context, values: Mapping[str, Any]) -> frozenset[str]:
    """The options that stand on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in values}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")
