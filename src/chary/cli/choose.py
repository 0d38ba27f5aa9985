"""`chary choose`: the largest of many keys, and nothing else."""

from typing import Annotated, Any, cast

import typer

from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs
from chary.cli.waiting import asking, charged
from chary.session.choosing import Way

Mechanism = Annotated[
    str | None, typer.Option(help="permute_and_flip, exponential or laplace (default: the best one).")
]


@with_options
def choose(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    mechanism: Mechanism = None,
    as_json: AsJson = False,
) -> None:
    """Which key (or row of a series) has the largest answer? Its name alone is published; always charged."""
    with asking(source, budget, call, query, targets=False) as asked:
        question: Any = asked.question
        by, size = cast(Way | None, mechanism), asked.epsilon
        quoted = asked.session.quotes.choose(question, epsilon=size, by=by)
        key = asked.session.choose(question, epsilon=size, by=by, request=budget.request)
        label = {} if asked.labels is None else {"label": asked.labels[key]}
        figures = {"key": list(key) if isinstance(key, tuple) else key} | label | charged(asked)
    (show_json if as_json else show_pairs)(figures | {"shortfall": quoted.shortfall})
