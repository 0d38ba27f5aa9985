"""Commands of runs: sparse vectors, Gaussian runs, distinct counts, weights, and what they found."""

import hashlib
import inspect
import json
import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Final, cast

import typer

from chary.accounting import Findings, Procedure
from chary.addresses import place_of
from chary.calls import PMW, DistinctSketch, Run, SelfReporting, SparseVector
from chary.calls.call import named
from chary.calls.fields import declared
from chary.calls.thresholds import keyed
from chary.calls.weights import HistogramRun, HistogramState, WeightedAnswer
from chary.charts import check_picture, plotter
from chary.cli import config, output, session
from chary.cli.commands import (
    Above,
    BlockOptions,
    Found,
    Picture,
    QueryOptions,
    Shown,
    SizeOptions,
    parameters_of,
    signed,
)
from chary.cli.forms import KEYWORD, FieldOption, Form, stating
from chary.cli.rows import ROWS, Stated, of_form, on_rows
from chary.data import Query
from chary.errors import BudgetExceeded, InvalidParameter
from chary.ledger import State, open_ledger
from chary.numbers import exact
from chary.report.content import findings_in
from chary.session import findings

# What stays open, opened and asked, or asked again: `sparse-vector`, `self-reporting`, `distinct-sketch`, `resume`.

Since = Annotated[str | None, typer.Option(help="First day: its label or position (default: the first new one).")]
Published = Annotated[bool, typer.Option("--published", help="Published noise instead of one-sided noise.")]
Bar = Annotated[str, typer.Option(help="Publish the estimate if it is at or above this threshold; below it is free.")]
Number = Annotated[int, typer.Argument(help="Number of the run, as printed when it was opened.")]
Lines = Annotated[str | None, typer.Option(help="File with one query a line, written as options; - is standard input.")]
At = Annotated[str | None, typer.Option(help="End of the window of an alert: a day or a time (default: now).")]
Learn = Annotated[
    str | None,
    typer.Option(
        help="Teach a public histogram for free: the ends of the proportion, such as 0.2,0.3, or published for what "
        "published answers say."
    ),
]
OfRun = Annotated[int | None, typer.Option(help="Only the queries of this run (default: all calls).")]
Sure = Annotated[str, typer.Option(help="Confidence of the intervals.")]
Most = Annotated[int | None, typer.Option(help="Largest number of tests, fixed in advance (default: not fixed).")]
Rate = Annotated[str | None, typer.Option(help="False discovery rate of the hits to act on, such as 0.1.")]
Dataset = Annotated[str | None, typer.Option(help="Dataset of the ledger, if it has several.")]
How = Annotated[str | None, typer.Option(help="Procedure: online, spending, e-values or benjamini-hochberg.")]
ASKED: Final = ("query", "where")
PUBLISHED: Final = "published"


def _moved(asked: session.Opened) -> tuple[Any, Any]:
    """The sensitivity and the grid of the question, as the opening declares them."""
    if not isinstance(asked.question, Query):
        return 1, 1
    step = asked.question.grid
    return asked.question.sensitivity(asked.session.spine.rows.neighbor_relation) * step, step


def _planned(asked: session.Opened) -> int | None:
    """One test for each key."""
    keys = asked.question.keys if isinstance(asked.question, Query) else None
    return len(keys) if keys else None


def _sparse(stated: Stated) -> Found:
    """Open one, or go on, and make one pass over the keys."""
    rows, asked = stated.session.spine.rows, stated.asked
    if stated.earlier is None:
        # Opening is what is charged: only for a question that can be asked.
        opening: Any = stated.call()
        query = keyed(asked.question)
        opening.law(rows.neighbor_relation).check(query)
        rows.prepare(query)
    run = stated.run()
    found = run.ask(asked.question, request=stated.request)
    more = {"error": run.state.accuracy(tests=len(found.keys)).error, "call": run.call}
    size = asked.epsilon if stated.earlier is None else None
    yield Shown(stated.told(found) | more | stated.charged(size, run.spent))


def _reporting(stated: Stated, *, since: Since = None) -> Found:
    """Open runs, or go on, and test each key, or each day of a series that was not tested yet."""
    if since is not None and stated.source.series is None:
        raise InvalidParameter("--since names a day of a series: leave it out")
    run = stated.run()
    query: Any = stated.asked.question
    if stated.source.series is not None:
        query = query.since(_position(since, stated.asked.labels, run.state.day))
    found = run.ask(query, request=stated.request)
    more = {"run": run.call, "loss": run.state.loss, "told": run.state.told}
    yield Shown(stated.told(found) | more | stated.charged(None, run.spent))


def _position(day: str | None, labels: tuple[Any, ...] | None, usual: int) -> int:
    """The position of a day that is named by its label, or by its position."""
    named = [str(label) for label in labels or ()]
    if day is None or day in named:
        return usual if day is None else named.index(day)
    if not day.isdecimal():
        raise InvalidParameter("--since names a day by its label (see --labels) or its position, such as --since 0")
    return int(day)


def _distinct(stated: Stated, *, above: Bar = "0") -> Found:
    """Open a sketch, or continue one, and publish its estimate if it is at or above a threshold."""
    run = stated.run()
    found = run.ask(above=above, request=stated.request)
    more = {"sketch": run.call, "paid": run.state.paid}
    yield Shown(stated.told(found) | more | stated.charged(None, run.spent))


def _resume(
    stated: Stated, *, run: Number, above: Above = None, at: At = None, learn: Learn = None, questions: Lines = None
) -> Found:
    """Ask an open run, such as a sparse vector that `chary ask FILE sparse-vector` opened.

    Example: chary resume visits.parquet 1 --unit patient --count --where "age >= 65"
    """
    query = stated.query
    if learn == PUBLISHED and not query.named and questions is None and above is None and at is None:
        stated.words = QueryOptions(count=True)
        taught = _histogram(stated.session.resume(run)).learn_published()
        yield Shown({"lessons": taught} | stated.charged(None))
        return
    said = _said(above, at, learn)
    asked: Iterable[tuple[QueryOptions, dict[str, str], str | None]]
    if questions is None:
        asked = [(query, said, stated.request)]
    elif query.named or said:
        raise InvalidParameter(
            "each line of --questions says what is asked: leave --count, --above, --at and --learn out"
        )
    else:
        asked = _asked(stated, questions)
    if not query.named:
        stated.words = QueryOptions(count=True)
    opened = stated.session.resume(run)
    for words, options, request in asked:
        named = words.named or stated.source.series is not None
        _check(opened, named, options)
        question = [session.question(stated.session, stated.source, words)] if named else []
        if ends := options.pop("learn", None):
            where: Any = question[0]
            answer: Any = _histogram(opened).learn(where, _ends(ends), request=request)
        else:
            answer = opened.ask(*question, **options, request=request)
        yield Shown(stated.told(answer, opened.kind) | stated.charged(None, answer.charged))


def _findings(
    stated: Stated,
    *,
    run: OfRun = None,
    confidence: Sure = "0.95",
    tests: Most = None,
    fdr: Rate = None,
    procedure: How = None,
    dataset: Dataset = None,
) -> Found:
    """List published counts, sums and means with intervals that hold together, and which alarms to act on. Free.

    Quantiles, histograms of weights and synthetic data are not among them: `chary report` has all answers.

    FILE is the ledger, or the data file next to it.

    Example: chary findings visits.csv.ledger --fdr 0.1
    """
    found, labels = _published(stated, run, dataset)
    rows = list(found.rows_together(confidence, tests))
    if labels is not None:
        rows = [row | {"label": labels[row["key"]]} if isinstance(row["key"], int) else row for row in rows]
    hits = sum(p_value is not None for p_value in found.p_values)
    known: dict[str, Any] = {"tests": found.made, "values": len(found), "hits": hits}
    if fdr is not None:
        alarms = found.list(fdr=fdr, procedure=cast("Procedure | None", procedure))
        acts = [None if finding.p_value is None else finding in alarms for finding in found]
        rows = [row | {"act_on": act} for row, act in zip(rows, acts, strict=True)]
        known |= {"alarms": len(alarms), "procedure": alarms.procedure, "guarantee": alarms.guarantee}
    yield Shown({"findings": rows} | known)


def _published(stated: Stated, run: int | None, dataset: str | None) -> tuple[Findings, tuple[Any, ...] | None]:
    """What was published, and the labels of a series, which only its rows have."""
    if config.is_ledger(stated.source.file):
        with closing(open_ledger(place_of(stated.source.file))) as ledger:
            return findings_in(ledger, config.one_dataset(ledger, dataset), run), None
    if dataset is not None:
        raise InvalidParameter("--dataset is for ledgers: leave it out, or name the ledger instead of the rows")
    return findings(stated.session, run=run), stated.asked.labels


def _said(above: str | None, at: str | None, learn: str | None) -> dict[str, str]:
    """What is said next to the question."""
    return {name: value for name, value in (("above", above), ("at", at), ("learn", learn)) if value is not None}


def _histogram(run: Run[Any, Any]) -> HistogramRun:
    """The run, which is to be taught."""
    if not isinstance(run, HistogramRun):
        raise InvalidParameter(f"{named(run.kind)} is not taught, public histograms are: leave --learn out")
    return run


def _ends(said: str) -> tuple[str, str]:
    """The ends of a fraction."""
    ends = said.split(",")
    if len(ends) != 2:
        raise InvalidParameter(
            f"--learn takes the ends of the proportion that is asked, such as --learn 0.2,0.3, or is {PUBLISHED} alone"
        )
    return ends[0].strip(), ends[1].strip()


def _check(opened: Run[Any, Any], asks: bool, said: dict[str, str]) -> None:
    """Refuse what the run does not ask for, and what it needs and was not given."""
    word = next((opened.words[name] for name in ASKED if name in opened.words), None)
    if asks and word is None:
        raise InvalidParameter(f"{named(opened.kind)} has a fixed query: leave --count, --sum and --mean out")
    if not asks and word is not None and word.default is word.empty:
        raise InvalidParameter(f"say what to ask the {named(opened.kind)}, such as --count")
    bar = opened.words.get("above")
    if "at" in said and "at" not in opened.words:
        raise InvalidParameter(f"{named(opened.kind)} has no window of time: leave --at out")
    if "above" in said and bar is None:
        raise InvalidParameter(f"{named(opened.kind)} has no threshold for each query: leave --above out")
    if "above" not in said and bar is not None and bar.default is bar.empty:
        raise InvalidParameter(f"a question to the {named(opened.kind)} needs a threshold, such as --above 500")


def _asked(stated: Stated, place: str) -> Iterator[tuple[QueryOptions, dict[str, str], str | None]]:
    """The questions of the lines, each with a key of its own."""
    for number, line in enumerate(session.lines_of(place), 1):
        try:
            words = shlex.split(line)
        except ValueError:
            raise InvalidParameter(f"question {number} has a quote that does not end") from None
        said = _line().main(args=words, prog_name=f"question {number}", standalone_mode=False)
        options = _said(said.pop("above"), said.pop("at"), said.pop("learn"))
        yield QueryOptions(**stated.settings.keyed(said)), options, stated.part(str(number))


@cache
def _line() -> Any:
    """What reads one line: a command of the options of a question, that has them."""
    beside = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in (("above", Above), ("at", At), ("learn", Learn))
    ]
    app = typer.Typer(add_completion=False)
    app.command()(signed(lambda **said: said, [*parameters_of(QueryOptions), *beside], "question", ""))
    return typer.main.get_command(app)


SPARSE: Final = {
    "hits": FieldOption("hits", (stating("hits", int, "It ends at this many."),), lambda said, _: said["hits"]),
    "mechanism": FieldOption(
        "mechanism",
        (inspect.Parameter("published", KEYWORD, default=False, annotation=Published),),
        lambda said, _: "published" if said["published"] else None,
    ),
    "tests": FieldOption("tests", (), lambda said, asked: None if said["published"] else _planned(asked)),
    "sensitivity": FieldOption("sensitivity", (), lambda _, asked: _moved(asked)[0]),
    "grid": FieldOption("grid", (), lambda _, asked: _moved(asked)[1]),
}
sparse = on_rows(
    _sparse,
    ROWS | {"blocks": BlockOptions, "size": SizeOptions, "query": QueryOptions},
    "sparse-vector",
    "Find groups above a noisy threshold, up to --hits of them. --epsilon pays for the whole pass.",
    Form(SparseVector, SPARSE, earlier="call"),
)
reporting = on_rows(
    _reporting,
    ROWS | {"blocks": BlockOptions, "size": SizeOptions, "query": QueryOptions},
    "self-reporting",
    "Find the groups, or days of a series, above a threshold by Gaussian noise, until --epsilon is spent. With "
    "--run, the runs of that call continue with the days that are new.",
    Form(SelfReporting, {"sensitivity": SPARSE["sensitivity"]}, earlier="run"),
)
distinct = of_form(
    Form(DistinctSketch, earlier="sketch", keyed="sketch"),
    _distinct,
    "Estimate the number of distinct units or values. All answers of one sketch are charged once.",
    "distinct-sketch",
)
published = on_rows(_findings, ROWS, "findings", of_ledgers=True)
resume = on_rows(_resume, ROWS | {"blocks": BlockOptions, "query": QueryOptions}, "resume")

# `chary pmw`: shares of rows from a public histogram that is corrected where it is off.

Where = Annotated[
    list[str], typer.Option(help="Predicate, such as \"sex = 'f'\", or @FILE, one a line; may be given several times.")
]
Verify = Annotated[bool, typer.Option("--must-verify", help="Refuse queries that could only be answered unverified.")]
# Fields that came after the first ledgers: they are part of the key of an opening only where they say something else.
LATER: Final = {"follow_size": True, "update": "projected", "mixing": "0.1", "rows": None, "warm_start": None}

# Ledgers hold keys of openings from when hits that were not said were so many.
_USUAL_THEN: Final = 10
# What only sharp tests are asked with.
SHARP: Final = ("price", "tests", "confidence", "value")


def _weights(stated: Stated, *, where: Where, must_verify: Verify = False, plot: Picture = None) -> Found:
    """Answer proportions of rows from a public histogram (PMW), charged only where it was wrong.

    The same options continue the same histogram. Calls are of --epsilon, or as large as pays for --hits when the
    histogram is opened. With --cost, --tests or --value-share, optimal tests find the hard queries, and the budget pays
    for --hits of them.

    Example: chary pmw visits.csv --columns age=BIGINT --row-level --neighbors replace --budget-epsilon 1
    --budget-delta 1e-6 --hits 20 --alpha 0.1 --bins age=0,18,65,120 --values sex=f,m --where "sex = 'f'"
    """
    if stated.said["rows"] is None:
        session.check_public_size(stated.source)
    if plot is not None:
        check_picture(plot)
    conditions = session.listed_lines(where)
    run = _opened(stated)
    for condition in conditions:
        run.state.estimate(condition)  # one that is refused later would take paid answers along
    answers, refused = _answers(run, conditions, must_verify)
    if refused is not None and not answers:
        raise refused
    paid = stated.charged(None, *(answer.charged for _, answer in answers))
    rows = [{"where": condition} | answer.figures() for condition, answer in answers]
    yield Shown({"answers": rows} | _figures(run) | paid, _show_weights)
    if plot is not None:
        plotter("chary.growth.plots").draw_answers(run.state, answers, plot)
    if refused is not None:
        raise refused


def _answers(
    run: Run[WeightedAnswer, HistogramState], where: list[str], must_verify: bool
) -> tuple[list[tuple[str, WeightedAnswer]], BudgetExceeded | None]:
    """The answers up to the first that is refused, since they are paid; and why it is."""
    answers: list[tuple[str, WeightedAnswer]] = []
    for condition in where:
        try:
            answers.append((condition, run.ask(condition, must_verify=must_verify)))
        except BudgetExceeded as refused:
            return answers, refused
    return answers, None


def _figures(run: Run[WeightedAnswer, HistogramState]) -> dict[str, Any]:
    stands = run.state.standing()
    return {"call": run.call, "hard_left": stands.hard_left, "epsilon": stands.epsilon}


def _show_weights(figures: dict[str, Any]) -> None:
    rows, told = figures["answers"], output.narrow(figures["answers"])
    columns = [column.replace("_", " ") for column in told[0]] if told else ["where"]
    output.show_table(columns, [tuple(row.values()) for row in told])
    if not all(row["verified"] for row in rows):
        output.console.print(
            "unverified: no hit fits into what is left, so the histogram answered alone", soft_wrap=True
        )
    output.show_answer({name: value for name, value in figures.items() if name != "answers"})


def _opened(stated: Stated) -> Run[WeightedAnswer, HistogramState]:
    """The histogram that was opened with the same options, or a new one."""
    asked, size, said = stated.asked, session.sized(stated.size), FORM.read(stated.asked, stated.said)
    told = [said["universe"].body(), str(exact(said["alpha"], "alpha")), _size(asked.hits, size)]
    other = {name: str(said[name]) for name, usual in LATER.items() if said[name] != usual}
    if other | (sharp := {name: str(exact(said[name], name)) for name in SHARP if said[name] is not None}):
        told.append(other | sharp)
    # Ledgers hold the name that the command had when their histograms were opened.
    key = f"chary ask {hashlib.sha256(json.dumps(told).encode()).hexdigest()}"
    return stated.session.start(_call(stated, key, sharply=bool(sharp)), request=key)


def _call(stated: Stated, key: str, *, sharply: bool) -> PMW:
    """The opening; one by Laplace noise is of the size that it was opened with."""
    if sharply:
        call: PMW = stated.call(epsilon=stated.given.epsilon, hits=stated.given.hits)
        return call
    call = stated.call(epsilon=_earlier(stated, key) or stated.asked.epsilon)
    return call


def _size(hits: int | None, size: Fraction | None) -> Any:
    return {"hits": _USUAL_THEN if hits is None else hits} if size is None else str(size)


def _earlier(stated: Stated, key: str) -> Fraction | None:
    """The size of the opening under this key, also of one that was interrupted: what is left is another by now."""
    spine = stated.session.spine
    for call in spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=key):
        if call.request == key and call.state != State.VOIDED:
            return Fraction(json.loads(call.body)["epsilon_per_call"])
    return None


# --hits is a size here, as everywhere: the field of that name would follow what is left whenever it is repeated.
# One that is prepaid is opened by `chary ask FILE pmw`.
_UNASKED: Final = ("hits", "prepaid", "rho", "delta", "exponent", "constants", "rounds")
_USUAL: Final = {field.name: field.default for field in declared(PMW) if field.name in _UNASKED}
FORM: Final = Form(
    PMW,
    {name: FieldOption(name, (), lambda *_, usual=usual: usual) for name, usual in _USUAL.items()},
    sized_by_hits=True,
)
weights = of_form(FORM, _weights, _weights.__doc__)
