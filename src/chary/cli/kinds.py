"""`chary ask FILE KIND` and `chary quote FILE KIND`: one command for each kind of call, generated from the calls."""

import re
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Final, cast

import typer

from chary.addresses import without_password
from chary.answers import Answer, NoisyNumbers
from chary.calls import Call, IndividualTests, Release, ReleaseIf, Rerun, ThresholdTest, kinds
from chary.calls.call import SUBJECTS, Expert
from chary.cli import answers, app, output
from chary.cli.commands import Above, BlockOptions, CallOptions, Found, Picture, QueryOptions, Shown
from chary.cli.forms import FieldOption, Form, check_cost_said, flag, forms, in_options, said_ways
from chary.cli.rows import ROWS, Stated, of_form, on_rows, paid_for
from chary.core.quote import warns
from chary.data import Query
from chary.errors import InvalidParameter
from chary.session import Quote

Distance = Annotated[
    str | None, typer.Option(help=Expert("Distance of a value from the threshold (default: the error bar)."))
]
Truth = Annotated[str | None, typer.Option(help="Largest ordinary true value (default: 0 for counts).")]
Over = Annotated[
    int | None, typer.Option(help=Expert("Number of tests (default: the groups, or the --tests of the call)."))
]
Expected = Annotated[int | None, typer.Option(help=Expert("Compare mechanisms at the cost of this many hits."))]
Value = Annotated[bool, typer.Option("--value", help="Also publish the noisy value of a hit, at no extra cost.")]
Each = Annotated[
    int | None, typer.Option(help=Expert("Individual accounting: pay once for this many hits of each unit."))
]
DEFAULT: Final = "question"
TEST: Final = Form(ThresholdTest)
# The part of the price of a hit that its value takes: as usual.
USUAL_SHARE: Final = FieldOption("value", (), lambda *_: None)
# What files and servers have in their names, and kinds have not.
_PLACE: Final = re.compile("[./:]")
# Ledgers hold keys of streams in the words that options had when they were opened.
_KEPT: Final = {"epsilon": "--epsilon-per-call"}


class KindGroup(app.DoorGroup):
    """Commands that are named after the file: FILE KIND is read as KIND FILE."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The rest of the command line, its kind first."""
        return super().parse_args(ctx, self._ordered(ctx, args))

    def _ordered(self, ctx: Any, args: list[str]) -> list[str]:
        names = [arg.replace("_", "-") for arg in args[:2]]
        if len(names) > 1 and names[1] in self.doors:
            return [names[1], args[0], *args[2:]]
        if not names or args[0] in ctx.help_option_names or ctx.resilient_parsing:
            return args
        if names[0] in self.doors:
            return [names[0], *args[1:]]
        if len(args) > 1 and not any(arg.startswith("-") for arg in args[:2]):
            raise typer.BadParameter(self._unknown(*args[:2]))
        if DEFAULT in self.doors:
            return [DEFAULT, *args]
        raise typer.BadParameter("a kind comes after the file, as in: chary ask FILE test --count --above 500")

    def _unknown(self, *names: str) -> str:
        """What is said of a kind that has no command here: the last of these that is like one, or else no place."""
        named = {kind.name.replace("_", "-"): kind for kind in kinds().values()}
        near = [name for name in names if get_close_matches(name.replace("_", "-"), {*self.doors, *named}, 1)]
        name = without_password((near or [each for each in names if not _PLACE.search(each)] or names)[-1])
        known = named.get(name.replace("_", "-"))
        if known is None:
            meant = "".join(f" did you mean {other}?" for other in get_close_matches(name, self.doors, 1))
            return f"there is no kind of call named {name!r};{meant or ' chary ask --help lists all'}"
        if known is Rerun:
            return "that has a command of its own: chary rerun --help"
        return f"a command line cannot say what {known.__name__} takes: ask it in Python, from chary.calls"


def asked(stated: Stated, *, plot: Picture = None) -> Found:
    """Ask the call that is stated."""
    call = stated.call()
    if plot is not None:
        answers.check_drawn(call, plot)
    stated.warn(call)
    answer = stated.session.ask(call, request=stated.request)
    figures = stated.told(answer) | stated.charged(getattr(call, "epsilon", None), paid_for(answer))

    def people(found: Any) -> None:
        # In JSON it is the answer that came first, to the last byte.
        output.show_tables(found, price=answer.price if isinstance(answer, Answer) else None)

    yield Shown(figures, people)
    if plot is not None:
        answers.draw_answer(answer, plot, stated.asked.labels, getattr(call, "above", None))


def _release_if(stated: Stated, *, individual: Each = None, plot: Picture = None) -> Found:
    """Ask by itself, or ask the analyst's stream of that size, which is opened and charged if there is none."""
    if individual is None:
        yield from asked(stated, plot=plot)
        return
    if stated.given.hits is not None:
        raise InvalidParameter("--individual says how many hits each unit pays for: leave --hits out")
    check_cost_said("stream", Form(IndividualTests).ways, said_ways(stated.said, stated.given))
    call = stated.call()
    if plot is not None:
        answers.check_drawn(call, plot)
    stated.session.quote(call)  # refused before a stream is paid
    terms = {name: said for name, said in call.ways.items() if name != "below_margin"}
    how = " ".join(f"{_KEPT.get(name) or flag(name)} {said}" for name, said in terms.items())
    stream = stated.session.start(
        IndividualTests(hits=individual, **terms), request=f"watch --individual {individual} {how}"
    )
    question = cast("Query[NoisyNumbers]", stated.asked.question)
    answer = stream.ask(question, above=call.above, request=stated.request)
    yield Shown(stated.told(answer) | stated.charged(call.epsilon, stream.spent))
    if plot is not None:
        answers.draw_answer(answer, plot, None, call.above)


def _test(stated: Stated, *, value: Value = False) -> Found:
    """Ask whether it is above the threshold, or for the value if it is."""
    if value:
        stated.form = replace(TEST, kind=ReleaseIf, changed={"value": USUAL_SHARE})
    yield from asked(stated)


def quoted(
    stated: Stated, *, distance: Distance = None, truth: Truth = None, over: Over = None, expected: Expected = None
) -> Found:
    """Cost the call that is stated."""
    terms: dict[str, Any] = {"distance": distance, "truth": truth, "tests": over, "hits": expected}
    yield _quote(stated.session.quote(stated.call(), **terms))


def question(
    stated: Stated,
    *,
    above: Above = None,
    distance: Distance = None,
    truth: Truth = None,
    over: Over = None,
    expected: Expected = None,
) -> Found:
    """What a question would cost and how accurate it would be; free, nothing is read."""
    stated.targets = above is not None
    ways = ["epsilon"] if above is None else ["hits", "epsilon"]
    check_cost_said("question", ways, said_ways({}, stated.given))
    terms: dict[str, Any] = {"distance": distance, "truth": truth, "tests": over, "hits": expected}
    yield _quote(stated.session.quote(_priced(stated, above), **terms))


def _priced(stated: Stated, above: str | None) -> Call[Any]:
    """The call that a quote is for: a test or a release above a threshold, or a release."""
    asked = stated.asked
    if above is None:
        return Release(asked.question, epsilon=asked.epsilon)
    kind = ThresholdTest if asked.question.keys is None else ReleaseIf
    if asked.sharp and stated.size.epsilon is None:
        return kind(asked.question, above=above, hits=asked.hits)
    return kind(asked.question, above=above, epsilon=asked.epsilon)


def _quote(found: Quote) -> Shown:
    """The figures of a quote, and for people sentences; red is what is paid at no cost."""

    def people(figures: dict[str, Any]) -> None:
        if output.VERBOSE.get():
            output.show_answer(
                {name: figure for name, figure in figures.items() if not isinstance(figure, (dict, list, type(None)))}
            )
        for line in [*found.lines(), *found.compared_lines()]:
            output.console.print(in_options(line), style="red" if warns(line) else None, soft_wrap=True, markup=False)

    return Shown(found.as_dict(), people)


def _group(command: Callable[[Form], Callable[..., None]], told: str, *more: app.Lazy) -> typer.Typer:
    """A command with one for each kind."""
    doors = [app.Lazy(form.name, form.told, SUBJECTS[form.kind.subject], partial(command, form)) for form in forms()]
    kind = app.group_of({str(door.name): door for door in (*more, *doors)}, KindGroup)
    return typer.Typer(cls=kind, help=told, subcommand_metavar="FILE KIND [OPTIONS]", callback=lambda: None)


def _quoting(form: Form) -> Callable[..., None]:
    return of_form(form, quoted, f"Cost and accuracy of a call, free of charge. {form.told}")


def __getattr__(name: str) -> Any:
    """The short form of a kind: `chary top_k` is `chary ask FILE top-k`."""
    for form in forms():
        if form.kind.name == name:
            return of_form(form, asked)
    raise AttributeError(f"there is no kind of call {name!r}")


_sized: dict[str, type] = {"blocks": BlockOptions, "size": CallOptions, "query": QueryOptions}
_any = app.Lazy(
    DEFAULT, "A question, of any kind of call.", "Commands", lambda: on_rows(question, ROWS | _sized, DEFAULT)
)
ask = _group(partial(of_form, hook=asked), "Ask any kind of call: chary ask FILE KIND.")
quote = _group(_quoting, "Show what a call would cost and how accurate it would be. Free.", _any)
test = of_form(
    TEST,
    _test,
    "Test whether a value, groups or rows of a series are at or above a threshold. Yes is charged, no is free.",
)
release_if = of_form(
    Form(ReleaseIf),
    _release_if,
    "Publish the values at or above a threshold: one, those of groups, or of a series. Only these are charged.\n\n"
    "With --individual each unit has a number of hits of its own: one charge at the opening, and none later.",
)
