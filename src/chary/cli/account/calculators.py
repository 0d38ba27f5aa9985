"""`chary account`: the calculators, whose JSON keys other programs rely on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Annotated, Any, Final

import typer

from chary import accounting
from chary.accounting import BoundaryCall, Targeted, hit_price_up
from chary.cli.account.group_account import group, sampler
from chary.cli.account.growing_account import budget, population, queries, rows, weights_rows
from chary.cli.account.interval_account import interval
from chary.cli.account.limits_account import hits, top_one, unbiased
from chary.cli.account.people_account import people
from chary.cli.account.runs_account import run_filter, run_pdp, runs
from chary.cli.account.sharp_account import sharp, tests, within
from chary.cli.account.unanimous_account import unanimous
from chary.cli.asking.options import AsJson
from chary.cli.output import show_json, show_pairs
from chary.cli.spinner import spinning
from chary.errors import InvalidParameter
from chary.numbers import exact, probability, whole

app = typer.Typer(no_args_is_help=True, help="Calculators of privacy accounting; they touch no data.")
ELSEWHERE: Final[tuple[Callable[..., None], ...]] = (
    *(interval, sharp, within, tests, hits, top_one, unbiased, rows, budget, weights_rows, queries, population),
    *(people, runs, run_pdp, run_filter, unanimous, group, sampler),
)
for command in ELSEWHERE:
    app.command()(command)
PerCall = Annotated[str, typer.Option("--epsilon-per-call", help="Epsilon of each call.")]
Target = Annotated[str | None, typer.Option("--q", help="The q of a q-target (default: NotPrior).")]
Delta = Annotated[str, typer.Option("--delta", help="Total delta.")]
Sensitivity = Annotated[str, typer.Option("--sensitivity", help="Most that one unit moves any query.")]


@app.command()
def charging(
    epsilon_per_call: PerCall,
    delta: Delta,
    hits: Annotated[int, typer.Option(help="Hits to pay for.")],
    q: Target = None,
    targets: Annotated[int, typer.Option(help="Targets counted side by side; hits are those of the best one.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of target charging: exact curve, exact tail, published bound."""
    each = probability(delta, "delta") / whole(targets, "targets")
    asked: dict[str, Any] = {"epsilon_per_call": epsilon_per_call, "hits": hits, "delta": each}
    with spinning("adding up"):
        best = accounting.exact_total(**asked) if q is None else accounting.target_total(**asked, q=q)
        tail = accounting.exact_tail_total(**asked, q=q)
        bound = accounting.published_total(**asked, q=q)
    _show({"exact": best, "exact_tail": tail, "published": bound}, as_json)


@app.command()
def price(
    order: Annotated[str, typer.Option(help="Renyi order, greater than 1.")],
    epsilon_per_call: PerCall,
    q: Target = None,
    as_json: AsJson = False,
) -> None:
    """Log-moment price of one hit at a Renyi order; null where none exists."""
    found = hit_price_up(Targeted(epsilon_per_call, q), _order(order))
    _show({"price": None if found is None else float(found)}, as_json)


@app.command()
def between(
    epsilon_per_call: PerCall,
    width: Annotated[int, typer.Option(help="Steps between the two bars.")],
    sensitivity: Annotated[int, typer.Option(help="Steps by which one unit moves the value.")] = 1,
    as_json: AsJson = False,
) -> None:
    """The q of the target "between two bars", for discrete Laplace noise."""
    q = accounting.between_q_down(epsilon_per_call, width=width, sensitivity=sensitivity)
    _show({"q": float(q)}, as_json)


@app.command()
def boundary(
    epsilon_per_call: PerCall,
    outcomes: Annotated[int | None, typer.Option(help="Outcomes of the wrapped mechanism (default: any).")] = None,
    order: Annotated[str | None, typer.Option(help="Renyi order at which to price a hit.")] = None,
    as_json: AsJson = False,
) -> None:
    """The boundary wrapper around an epsilon-DP mechanism: its epsilon, the q of the boundary, the price of a hit."""
    call = BoundaryCall(epsilon_per_call, outcomes)
    figures: dict[str, float | None] = {"epsilon": float(call.epsilon), "q": float(call.listed[1])}
    if order is not None:
        found = call.hit_price_up(_order(order))
        figures["price"] = None if found is None else float(found)
    _show(figures, as_json)


@app.command()
def compose(
    epsilon: Annotated[str, typer.Option(help="Epsilon of each computation; several, as in 0.1,0.2, of unequal ones.")],
    times: Annotated[int, typer.Option(help="How many computations, of each epsilon.")],
    delta: Delta,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of pure computations by every composition theorem."""
    several = epsilon.split(",")
    if len(several) == 1:
        found = accounting.compose(epsilon=epsilon, times=times, delta=delta)
    else:
        found = accounting.compose_unequal(epsilons=several * max(0, min(times, 10_000)), delta=delta)
    _show(found.as_dict(), as_json)


@app.command()
def noisy_max(
    queries: Annotated[int, typer.Option(help="How many noisy queries are compared.")],
    sensitivity: Sensitivity,
    noise: Annotated[str, typer.Option(help="Standard deviation of the Gaussian noise.")],
    spread: Annotated[str, typer.Option("--range", help="Length of the interval in which every query lies.")] = "1",
    as_json: AsJson = False,
) -> None:
    """Pure epsilon of the place of the largest of queries with Gaussian noise."""
    with _such_as("noisy-max --queries 1000 --sensitivity 0.001 --noise 0.05"):
        epsilon = accounting.noisy_max_epsilon_up(queries, sensitivity=sensitivity, noise=noise, spread=spread)
    _show({"epsilon": epsilon}, as_json)


@app.command()
def above_threshold(
    steps: Annotated[int, typer.Option(help="The query at which the run halted.")],
    sensitivity: Sensitivity,
    threshold_noise: Annotated[str, typer.Option(help="Standard deviation of the threshold's Gaussian noise.")],
    query_noise: Annotated[str, typer.Option(help="Standard deviation of each query's Gaussian noise.")],
    threshold: Annotated[str, typer.Option(help="The public threshold.")],
    low: Annotated[str, typer.Option(help="No query is below this.")] = "0",
    high: Annotated[str, typer.Option(help="No query is above this.")] = "1",
    running: Annotated[bool, typer.Option("--running", help="The run did not halt at any of the queries.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ex-post epsilon of a run of above threshold with Gaussian noise, from where it halted."""
    loss = accounting.running_epsilon_up if running else accounting.halted_epsilon_up
    with _such_as(
        "above-threshold --steps 100 --sensitivity 0.001 --threshold-noise 0.05 --query-noise 0.0867 --threshold 0.5"
    ):
        epsilon = loss(
            steps,
            sensitivity=sensitivity,
            threshold_noise=threshold_noise,
            query_noise=query_noise,
            threshold=threshold,
            low=low,
            high=high,
        )
    _show({"epsilon": epsilon}, as_json)


def _order(order: str) -> Fraction:
    number = exact(order, "order")
    if number <= 1:
        raise InvalidParameter("order must be greater than 1, such as --order 20")
    return number


@contextmanager
def _such_as(call: str) -> Iterator[None]:
    """Errors about numbers end in a call that works."""
    try:
        yield
    except InvalidParameter as error:
        raise InvalidParameter(f"{error}; such as: chary account {call}") from None


def _show(figures: Mapping[str, float | None], as_json: bool) -> None:
    (show_json if as_json else show_pairs)(dict(figures))
