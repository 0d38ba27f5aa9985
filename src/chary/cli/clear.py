"""`chary between|decide|classify`: answers that are free while they are clear."""

from typing import Annotated, Any

import typer

from chary.cli.options import Above, AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs
from chary.cli.waiting import asking, charged

Low = Annotated[str, typer.Option(help="Below it the answer is low.")]
High = Annotated[str, typer.Option(help="At or above it the answer is high.")]


@with_options
def between(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    low: Low,
    high: High,
    as_json: AsJson = False,
) -> None:
    """Is one number below a bar, above another, or between? Only between is charged."""
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        zone = asked.session.between(question, low=low, high=high, epsilon=asked.epsilon, request=budget.request)
        figures = {"zone": zone} | charged(asked)
    (show_json if as_json else show_pairs)(figures)


@with_options
def decide(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    above: Above,
    as_json: AsJson = False,
) -> None:
    """Is one number at or above a bar? A clear yes or no is free; "boundary" is charged."""
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        answer = asked.session.decide(question, above=above, epsilon=asked.epsilon, request=budget.request)
        figures = {"above": answer} | charged(asked)
    (show_json if as_json else show_pairs)(figures)


@with_options
def classify(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    as_json: AsJson = False,
) -> None:
    """Which key has the largest answer? A clear winner is free; "boundary" is charged."""
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        key = asked.session.classify(question, epsilon=asked.epsilon, request=budget.request)
        figures = {"key": list(key) if isinstance(key, tuple) else key} | charged(asked)
    (show_json if as_json else show_pairs)(figures)
