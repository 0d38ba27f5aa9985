"""`chary sparse`: one pass over the keys against one hidden threshold, charged once, whole."""

from typing import Annotated, Any

import typer

from chary.cli.asking import DEFAULT_HITS, Asked
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs, show_table
from chary.cli.waiting import asking, charged
from chary.data import Query
from chary.errors import InvalidParameter
from chary.session import SparseVector, SparseWatch
from chary.session.sparse import AskSparseKeys, OpenSparse

Values = Annotated[bool, typer.Option("--values", help="Publish a noisy value with each hit.")]
Published = Annotated[bool, typer.Option("--published", help="The published noise instead of the tuned one.")]
Delta = Annotated[str, typer.Option("--delta-per-call", help="With --published: the delta of this pass.")]
Monotone = Annotated[bool | None, typer.Option(help="Whether no unit moves a value down (default: if neighbours add).")]
Size = Annotated[str | None, typer.Option("--epsilon-per-call", help="Epsilon of the whole pass.")]
Hits = Annotated[int, typer.Option(help="It ends at this many.")]
Earlier = Annotated[int | None, typer.Option("--call", help="Go on with the sparse vector of that call.")]
OptionalAbove = Annotated[str | None, typer.Option(help="The threshold: at or above it is a hit.")]


@with_options
def sparse(
    source: SourceOptions,
    budget: BudgetOptions,
    query: QueryOptions,
    above: OptionalAbove = None,
    epsilon_per_call: Size = None,
    hits: Hits = DEFAULT_HITS,
    values: Values = False,
    published: Published = False,
    delta_per_call: Delta = "0",
    monotone: Monotone = None,
    call: Earlier = None,
    as_json: AsJson = False,
) -> None:
    """Which keys are above a hidden threshold, until --hits were; --epsilon-per-call covers the whole pass."""
    terms: dict[str, Any] = {"above": above, "hits": hits, "delta": delta_per_call}
    terms |= {"values": values, "monotone": monotone, "form": "published" if published else "tuned"}
    if call is not None and (above, epsilon_per_call) != (None, None):
        raise InvalidParameter("an earlier sparse vector has its size: leave --above and --epsilon-per-call out")
    if call is None and (above is None or epsilon_per_call is None):
        raise InvalidParameter("say how large and where, such as --above 500 --hits 10 --epsilon-per-call 0.5")
    size = CallOptions(epsilon_per_call=epsilon_per_call or "1")
    with asking(source, budget, size, query, targets=False) as asked:
        opened = _opened(asked, terms, call, budget.request)
        question: Any = asked.question
        found = opened.watch(question, request=budget.request)
        figures = _figures(found, opened, asked.labels) | charged(asked)
    if call is not None:
        del figures["epsilon_per_call"]
    if as_json:
        show_json(figures)
        return
    rows = [(hit.get("label", ", ".join(map(str, hit["key"]))), hit["value"]) for hit in figures.pop("above")]
    show_table(["key", "noisy value"], rows, "Above the threshold")
    show_pairs(figures)


def _opened(asked: Asked, terms: dict[str, Any], call: int | None, request: str | None) -> SparseVector:
    """Opens one only for a question that can be asked, since opening is what is charged."""
    if call is not None:
        return asked.session.sparse_vector(call=call)
    question: Any = asked.question
    sizes = terms | {"epsilon": asked.epsilon} | _moved(asked)
    made = OpenSparse(asked.session.spine.rows.neighbouring, **sizes)
    AskSparseKeys(0, made, question, made.above).prepare(asked.session.spine.rows)
    return asked.session.sparse_vector(**sizes, request=None if request is None else f"{request} (opening)")


def _moved(asked: Asked) -> dict[str, Any]:
    """The sensitivity and the grid of the question, as the opening declares them."""
    if not isinstance(asked.question, Query):
        return {}
    step = asked.question.grid
    return {"sensitivity": asked.question.sensitivity(asked.session.spine.rows.neighbouring) * step, "grid": step}


def _figures(found: SparseWatch, opened: SparseVector, labels: tuple[Any, ...] | None) -> dict[str, Any]:
    above: list[dict[str, Any]] = [{"key": list(key), "value": value} for key, value in found.above.items()]
    if labels is not None:
        above = [hit | {"label": labels[hit["key"][0]]} for hit in above]
    accuracy = opened.accuracy(tests=len(found.keys))
    counts = {"tested": found.tested, "hits": found.hits, "untested": len(found.untested), "left": found.left}
    return {"above": above, **counts, "error": accuracy.error, "error_bar": found.error_bar, "call": opened.call}
