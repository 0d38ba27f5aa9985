"""`chary watch|test|release|quote`: ask a file, under the budget of its ledger."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from chary.cli.asking import Asked
from chary.cli.options import Above, AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import console, show_json, show_pairs, show_table
from chary.cli.waiting import asking, charged
from chary.errors import InvalidParameter
from chary.session import Answers, Conditional, WatchResult

Value = Annotated[bool, typer.Option("--value", help="Also publish the noisy value of a hit, at no further price.")]
OptionalAbove = Annotated[str | None, typer.Option(help="Price a test, a conditional release or a watch of this bar.")]
Individual = Annotated[
    int | None, typer.Option(help="Charge each unit by itself: so many hits of each, paid once, whatever is asked.")
]
Distance = Annotated[str | None, typer.Option(help="How far from the bar a value might be (default: the error bar).")]


@with_options
def watch(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    above: Above,
    individual: Individual = None,
    as_json: AsJson = False,
) -> None:
    """Test every key (or every row of a series) against a threshold; only hits are charged.

    With --individual the analyst's stream of that size goes on, or is opened and charged; then nothing more is.
    """
    if individual is not None and call.epsilon_per_call is None:
        raise InvalidParameter("a stream keeps its size for ever: give --epsilon-per-call with --individual")
    with asking(source, budget, call, query, targets=True) as asked:
        found = _watch(asked, above, individual, budget.request)
        figures = _watched(found, asked.labels) | charged(asked)
    if as_json:
        show_json(figures)
        return
    rows = [(_label(hit.get("label", hit["key"])), hit["value"]) for hit in figures["above"]]
    show_table(["key", "noisy value"], rows, f"At or above {above}")
    show_pairs({name: value for name, value in figures.items() if name != "above"})


@with_options
def test(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    above: Above,
    value: Value = False,
    as_json: AsJson = False,
) -> None:
    """Is one number at or above a threshold? Yes is charged, no is free."""
    with asking(source, budget, call, query, targets=True) as asked:
        common: dict[str, Any] = {"above": above, "epsilon": asked.epsilon, "request": budget.request}
        if value:
            held: Conditional = asked.session.release_if(asked.question, **common)
            figures = {"above": held.published, "value": held.value, "error_bar": held.error_bar, "call": held.call}
        else:
            figures = {"above": asked.session.test(asked.question, **common)}
        figures |= charged(asked)
    (show_json if as_json else show_pairs)(figures)


@with_options
def release(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    as_json: AsJson = False,
) -> None:
    """An ordinary noisy answer, always charged."""
    with asking(source, budget, call, query, targets=False) as asked:
        answer = asked.session.release(asked.question, epsilon=asked.epsilon, request=budget.request)
        figures = charged(asked) | {"error_bar": answer.error_bar}
    if isinstance(answer, Answers):
        rows = [{"key": list(key), "value": value} for key, value in answer.as_dict().items()]
        figures = {"values": rows} | figures
    else:
        figures = {"value": answer.value} | figures
    if as_json:
        show_json(figures)
        return
    if isinstance(answer, Answers):
        show_table(["key", "noisy value"], [(_label(row["key"]), row["value"]) for row in figures.pop("values")])
    show_pairs(figures)


@with_options
def quote(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    above: OptionalAbove = None,
    distance: Distance = None,
    as_json: AsJson = False,
) -> None:
    """What a question would cost and how accurate it would be; free, nothing is read."""
    with asking(source, budget, call, query, targets=above is not None) as asked:
        found = asked.session.quote(asked.question, above=above, epsilon=asked.epsilon, distance=distance)
    if as_json:
        show_json(found.as_dict())
    else:
        show_pairs(found.as_dict())
        console.print(str(found))


def _watch(asked: Asked, above: str, individual: int | None, request: str | None) -> WatchResult:
    if individual is None:
        return asked.session.watch(asked.question, above=above, epsilon=asked.epsilon, request=request)
    key = f"watch --individual {individual} --epsilon-per-call {asked.epsilon}"
    stream = asked.session.individual(epsilon=asked.epsilon, hits=individual, request=key)
    return stream.watch(asked.question, above=above, request=request)


def _watched(found: WatchResult, labels: Sequence[Any] | None) -> dict[str, Any]:
    above: list[dict[str, Any]] = [{"key": list(key), "value": value} for key, value in found.above.items()]
    if labels is not None:
        above = [hit | {"label": labels[hit["key"][0]]} for hit in above]
    counts = {"tested": found.tested, "hits": found.hits, "untested": len(found.untested)}
    return {"above": above, **counts, "error_bar": found.error_bar}


def _label(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, list) else str(key)
