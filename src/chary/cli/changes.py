"""`chary track`: the same question as often as you like, paid when its answer changes."""

from typing import Annotated, Any

import typer

from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs
from chary.cli.waiting import asking, charged
from chary.session import Tracked

Step = Annotated[str, typer.Option(help="The answer is rounded to a multiple of this; take several error bars.")]


@with_options
def track(
    source: SourceOptions,
    budget: BudgetOptions,
    call: CallOptions,
    query: QueryOptions,
    step: Step,
    as_json: AsJson = False,
) -> None:
    """One number, asked again whenever this is run; the first answer and each change are charged, the same is free."""
    with asking(source, budget, call, query, targets=True) as asked:
        question: Any = asked.question
        found = asked.session.track(question, step=step, epsilon=asked.epsilon).ask(request=budget.request)
        figures = charged(asked)
    if isinstance(found, Tracked):
        figures = {"value": found.value, "changed": found.changed, "error_bar": found.error_bar} | figures
    (show_json if as_json else show_pairs)(figures)
