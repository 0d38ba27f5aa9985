"""Calculators of accounting at a shell."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Annotated, Any, Final

import typer
from typer import Option

from chary import accounting
from chary.accounting import charging_curve, composition, gaussian_runs, local_reports, schedules, sharp_widths, weights
from chary.accounting.numerics import float_down, float_up, most_kept
from chary.cli.commands import AsJson
from chary.cli.output import show_answer, show_json, show_pairs, spinning
from chary.errors import InvalidParameter
from chary.filters import Budget, largest_call
from chary.mechanisms import Laplace
from chary.numbers import exact, failing, positive, probability, whole

# `chary account sharp`, `within`, `tests`: what the price of a hit buys, and how near to a bar tests are right.

# More tests than anybody asks; a half-width hardly grows any more.
MOST_TESTS: Final = 10**12


def sharp(
    order: Annotated[str, Option(help="Renyi order, greater than 1.")],
    price: Annotated[str, Option(help="Log-moment price of one hit at this order.")],
    p: Annotated[str, Option("--p", help="Chance of a hit where a value is one sensitivity lower.")],
    miss_price: Annotated[str, Option(help="Log-moment price of one miss.")] = "0",
    as_json: AsJson = False,
) -> None:
    """The least chance of a miss beside a chance p of a hit that the price of a hit allows, and the growth near 0.

    `next_miss` is rounded up; `tail`, the factor by which small chances may grow, is rounded down. Where misses have a
    price there is no such factor.
    """
    miss = accounting.next_miss_up(p, order=order, price=price, miss_price=miss_price)
    tail = None if exact(miss_price, "miss_price") else float_down(accounting.tail_down(order=order, price=price))
    (show_json if as_json else show_pairs)({"next_miss": float_up(miss), "tail": tail})


def within(
    budget_epsilon: Annotated[str, Option(help="Total epsilon.")],
    budget_delta: Annotated[str, Option(help="Total delta.")],
    tests: Annotated[int, Option(help="Tests in all.")],
    hits: Annotated[int, Option(help="Hits to pay for.")],
    misses_share: Annotated[
        str, Option(help='Part of the budget for an agreed number of misses, from 0 to below 1, or "best".')
    ] = "0",
    sure: Annotated[str, Option(help="Probability that all tests are right.")] = "0.95",
    as_json: AsJson = False,
) -> None:
    """How near to the bar all tests are right, in sensitivities: the sharp test, Laplace noise, a sparse vector.

    The sparse vector, for counts that all move one way, has the same epsilon and no delta.
    """
    asked: dict[str, Any] = {"tests": tests, "hits": hits, "sure": sure}
    with spinning("looking for the best order"):
        found = accounting.sharp_width(epsilon=budget_epsilon, delta=budget_delta, misses_share=misses_share, **asked)
        # What pays for the hits at a Renyi order, so that both are charged alike.
        size = largest_call(Budget(budget_epsilon, budget_delta), hits, "renyi")
        figures = {
            "within": found.within,
            "order": float(found.test.order),
            "laplace": sharp_widths.laplace_width(size, tests=tests, sure=sure),
            "sparse": float(accounting.sparse_half_width_up(epsilon=budget_epsilon, **asked)),
        }
    if found.share:
        figures["misses_share"] = float(found.share)
    (show_json if as_json else show_answer)(figures)


def tests(
    budget_epsilon: Annotated[str, Option(help="Total epsilon.")],
    budget_delta: Annotated[str, Option(help="Total delta.")],
    hits: Annotated[int, Option(help="Hits to pay for.")],
    within: Annotated[str, Option(help="How near to the bar all tests are to be right, in sensitivities.")],
    misses_share: Annotated[str, Option(help="Part of the budget for an agreed number of misses.")] = "0",
    sure: Annotated[str, Option(help="Probability that all tests are right.")] = "0.95",
    as_json: AsJson = False,
) -> None:
    """Tests that a budget affords for an accuracy: sharp, by Laplace noise or a sparse vector (`within` turned round).

    To a part in a thousand, rounded down; at most a million million. Nothing where not even the hits alone are so near.
    """
    near, size = float(positive(within, "within")), largest_call(Budget(budget_epsilon, budget_delta), hits, "renyi")
    budget: dict[str, Any] = {"epsilon": budget_epsilon, "delta": budget_delta, "hits": hits, "sure": sure}

    def sharply(number: int) -> float:
        return accounting.sharp_width(tests=number, misses_share=misses_share, **budget).within

    with spinning("looking for the largest number"):
        figures = {
            "sharp": most_kept(sharply, near, hits, MOST_TESTS),
            "laplace": most_kept(
                lambda n: sharp_widths.laplace_width(size, tests=n, sure=sure), near, hits, MOST_TESTS
            ),
            "sparse": most_kept(
                lambda n: accounting.sparse_half_width_up(epsilon=budget_epsilon, tests=n, hits=hits, sure=sure),
                near,
                hits,
                MOST_TESTS,
            ),
        }
    (show_json if as_json else show_pairs)(figures)


# `chary account unanimous`: how many runs of a black box make its boundary cheapest.


def unanimous(
    epsilon: Annotated[str, Option(help="Epsilon of one run.")],
    order: Annotated[str, Option(help="Renyi order at which to price a hit.")],
    unclear: Annotated[str, Option(help="How likely one run is of another outcome than the usual one.")],
    most: Annotated[int, Option(help="At most so many runs.")] = 12,
    as_json: AsJson = False,
) -> None:
    """How often to run a black box (`Boundary` with `runs`) so that its boundary costs least on average.

    `price` is that of a boundary, `chance` how often one comes, `paid` their product; `paid_twice` is that of two runs.
    """
    at = exact(order, "order")
    if at <= 1:
        raise InvalidParameter("order must be greater than 1")
    count = accounting.best_runs(epsilon, at, unclear, most=most)
    price, chance = _price(epsilon, count, at), accounting.boundary_chance(unclear, count)
    twice = _price(epsilon, 2, at)
    paid_twice = None if twice is None else twice * accounting.boundary_chance(unclear, 2)
    figures = {"runs": count, "price": price, "chance": chance, "paid": (price or 0.0) * chance}
    (show_json if as_json else show_pairs)(figures | {"paid_twice": paid_twice})


def _price(epsilon: str, count: int, order: Fraction) -> float | None:
    found = accounting.unanimous_price_up(epsilon, count, order)
    return None if found is None else float(found)


# `chary account interval`: what a value says that was published because it was high.

EXAMPLE = "account interval --epsilon 0.05 --above 100 --value 175"


def interval(
    epsilon: Annotated[str, typer.Option(help="Epsilon of the test: of its discrete Laplace noise.")],
    above: Annotated[int, typer.Option(help="The bar: values from here on were published.")],
    value: Annotated[int, typer.Option(help="The value that was published.")],
    below: Annotated[int | None, typer.Option(help="The bar it had failed before, if this one was lowered.")] = None,
    confidence: Annotated[str, typer.Option(help="How sure the interval is.")] = "0.95",
    as_json: AsJson = False,
) -> None:
    """Interval and p-value of a count given that it was published; no lower end means it may be a false alarm."""
    try:
        support = _support(above, below)
        published = accounting.Publication(Laplace.for_epsilon(epsilon, sensitivity=1).law(), support)
        ends, p_value = published.interval(value, confidence), published.p_value(value)
    except InvalidParameter as error:
        raise InvalidParameter(f"{error}; such as: chary {EXAMPLE}") from None
    if as_json:
        show_json({**ends._asdict(), "p_value": p_value})
    else:
        show_pairs({**_told(ends), "p_value": p_value})


def _support(above: int, below: int | None) -> accounting.Support:
    if below is None:
        return accounting.Support.at_least(above)
    if below <= above:
        raise InvalidParameter("below must be larger than above: the bar was lowered from there")
    return accounting.Support.between(above, below)


def _told(ends: accounting.Interval) -> dict[str, int | float | str]:
    """For people: what an end that is missing means."""
    low = "none: it may be a false alarm" if ends.low is None else ends.low
    return {"low": low, "high": "none" if ends.high is None else ends.high}


# `chary account hits`, `top-one`, `unbiased`: how many hits charging takes, and what nobody can do better.


def hits(
    overhead: Annotated[str, Option(help="Calls paid for beyond the mean number, as a part of it: alpha.")],
    delta: Annotated[str, Option(help="Chance that more are needed.")],
    epsilon: Annotated[str, Option(help="Epsilon of each call.")] = "0.01",
    q: Annotated[str | None, Option("--q", help="The q of a q-target (default: NotPrior).")] = None,
    as_json: AsJson = False,
) -> None:
    """The fewest hits for which charging pays (1 + overhead) hits/q calls: exact tail, two Chernoff bounds."""
    rate = accounting.not_prior_q(composition.moderate_up(epsilon)) if q is None else q
    _show(charging_curve.hits_needed(overhead=overhead, delta=delta, q=rate)._asdict(), as_json)


def top_one(
    epsilon: Annotated[str, Option(help="Epsilon of each candidate.")],
    candidates: Annotated[int, Option(help="How many candidates there are.")],
    budget_delta: Annotated[str, Option(help="Total delta.")],
    as_json: AsJson = False,
) -> None:
    """What the best of many private candidates costs: at least, as one hit of epsilon or of twice that, without delta.

    `at_least` is a lower bound for every accountant. One hit of 2 epsilon is what the exact filter charges, as
    Cohen and Lyu do; at a Renyi order one hit of epsilon is enough.
    """
    twice = 2 * positive(epsilon, "epsilon")
    figures = {
        "at_least": charging_curve.one_shot_floor_down(
            epsilon_per_call=epsilon, candidates=candidates, delta=budget_delta
        ),
        "one_hit": accounting.exact_total(epsilon_per_call=epsilon, hits=1, delta=budget_delta),
        "one_hit_of_twice": accounting.exact_total(epsilon_per_call=twice, hits=1, delta=budget_delta),
        "without_delta": float(twice / 2 * whole(candidates, "candidates")),
    }
    _show(figures, as_json)


def unbiased(
    epsilon: Annotated[str, Option(help="Epsilon of the answer.")],
    change: Annotated[
        str, Option(help="How far one unit moves the true answer; k units move it k times as far.")
    ] = "1",
    units: Annotated[int, Option(help="So many units at most move it.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """The least variance and squared error of an unbiased epsilon-DP answer, and the published bound."""
    step = exact(change, "change")
    changes = [k * step for k in range(1, whole(units, "units") + 1)]
    figures = {
        "variance": accounting.variance_down(epsilon=epsilon, changes=changes),
        "squared_error": accounting.loss_down(epsilon=epsilon, changes=changes),
        "published": accounting.published_loss_down(epsilon=epsilon, changes=changes),
    }
    _show(figures, as_json)


# `chary account group`, `sampler`: what a promise is worth for several units, and for noise that is not exact.

UnitEpsilon = Annotated[str, Option(help="Epsilon for one unit.")]
UnitDelta = Annotated[str, Option(help="Delta for one unit.")]


def group(
    units: Annotated[int, Option(help="How many units change together, such as the people of a household.")],
    epsilon: UnitEpsilon = "1",
    delta: UnitDelta = "0",
    as_json: AsJson = False,
) -> None:
    """Epsilon and delta of neighbours that differ in so many units; delta is rounded up."""
    total, failure = accounting.group_privacy_up(epsilon=epsilon, delta=delta, units=units)
    (show_json if as_json else show_pairs)({"epsilon": float(total), "delta": float(failure)})


def sampler(
    distance: Annotated[str, Option(help="Total variation distance of what is drawn from its law, at most.")],
    epsilon: UnitEpsilon = "1",
    delta: UnitDelta = "0",
    as_json: AsJson = False,
) -> None:
    """Delta of a mechanism that is drawn so far from its law; rounded up. The distance of chary's noise is 0."""
    failure = accounting.sampler_delta_up(epsilon=epsilon, delta=delta, distance=distance)
    (show_json if as_json else show_pairs)({"delta": float(failure)})


# `chary account people`: how many people an accuracy takes when each randomizes the own report.


def people(
    values: Annotated[int, Option(help="How many values people can hold.")],
    epsilon: Annotated[str, Option(help="Epsilon of each report.")],
    within: Annotated[str, Option(help="How far the interval of each share may reach to either side.")],
    confidence: Annotated[str, Option(help="Probability that the intervals of all values hold.")] = "0.95",
    share: Annotated[str, Option(help="The largest share that is expected of a value.")] = "1",
    as_json: AsJson = False,
) -> None:
    """People that local reports of every form take for intervals about the population, sampling error included."""
    beta = 1 - probability(confidence, "confidence")
    known: dict[str, Any] = {"values": values, "within": within, "beta": beta, "share": share}
    figures = {
        name: local_reports.people_needed(channel, **known)
        for name, channel in local_reports.local_channels(values, epsilon).items()
    }
    best = min(figures, key=lambda name: figures[name])
    (show_json if as_json else show_pairs)({**figures, "best": best})


# `chary account rows`, `weights-rows`, `queries`, `population`: how much data an accuracy takes.

Alpha = Annotated[str, Option(help="How near all answers are to be, as a share of rows.")]
Cells = Annotated[int, Option(help="Cells of the universe.")]
TotalEpsilon = Annotated[str, Option(help="Total epsilon.")]
TotalDelta = Annotated[str, Option(help="Total delta, if any.")]
Confidence = Annotated[str, Option(help="Probability that all answers are so near.")]
Exponent = Annotated[str, Option(help="p of the noise function.")]


def rows(
    accuracy: Annotated[str, Option(help="The error that is wanted, staleness included.")],
    power: Annotated[str, Option(help="p of the law c (ln(choices/beta)/(epsilon n))^p.")] = "1",
    factor: Annotated[str, Option(help="c of the law.")] = "1",
    choices: Annotated[str, Option(help="Over how many things at once.")] = "1",
    base: Annotated[str, Option(help="An error that no rows improve.")] = "0",
    log_power: Annotated[
        str, Option(help="Power of ln(choices/beta) inside of the law; 1/2 for Gaussian noise.")
    ] = "1",
    size_power: Annotated[str | None, Option(help="Power of n, if it is not that of epsilon.")] = None,
    size_log: Annotated[str, Option(help="Power of ln(n) inside of the law.")] = "0",
    epsilon: Annotated[str | None, Option(help="Total epsilon of one run, and of a schedule in epochs.")] = None,
    rho: Annotated[str | None, Option(help="Total rho of schedules, in place of epsilon.")] = None,
    growth: Annotated[str | None, Option(help="Growth between epochs (default: the best).")] = None,
    start: Annotated[int | None, Option(help="With --rho: rows at which runs at every size begin.")] = None,
    exponent: Annotated[str, Option(help="With --start: c of runs at every size.")] = "0.1",
    beta: Annotated[str, Option(help="Chance that the error is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """Rows that an accuracy takes: in one run, at the start of a schedule in epochs, of one at every size."""
    law = schedules.Law(power, factor, choices, log_power, base, size_power, size_log)
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of --epsilon and --rho, as in: chary account rows --accuracy 0.05 --epsilon 1")
    known: dict[str, Any] = {"accuracy": accuracy, "beta": beta}
    figures: dict[str, int] = {}
    with spinning("looking for the sizes"):
        if epsilon is not None:
            figures["once"] = schedules.static_rows(law, epsilon=epsilon, **known)
        figures["epochs"] = schedules.epochs_rows(law, growth=growth, epsilon=epsilon, rho=rho, **known)
        if rho is not None and start is not None:
            figures["every_size"] = schedules.every_rows(law, start=start, exponent=exponent, rho=rho, **known)
    _show(figures, as_json)


def budget(
    accuracy: Annotated[str, Option(help="The error that is wanted, staleness included.")],
    size: Annotated[int, Option(help="Rows there are, at the start of a schedule.")],
    power: Annotated[str, Option(help="p of the law c (ln(choices/beta)/(epsilon n))^p.")] = "1",
    factor: Annotated[str, Option(help="c of the law.")] = "1",
    choices: Annotated[str, Option(help="Over how many things at once.")] = "1",
    base: Annotated[str, Option(help="An error that no budget improves.")] = "0",
    delta: Annotated[
        str | None, Option(help="Delta of a schedule by zCDP: cheaper for small epsilons, dearer for large ones.")
    ] = None,
    growth: Annotated[str | None, Option(help="Growth between epochs (default: the best).")] = None,
    beta: Annotated[str, Option(help="Chance that the error is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """Epsilon that an accuracy takes at so many rows: in one run, and in a schedule in epochs, for ever."""
    law = schedules.Law(power, factor, choices, base=base)
    with spinning("looking for the sizes"):
        once = schedules.static_epsilon(law, accuracy=accuracy, size=size, beta=beta)
        epochs = schedules.epochs_epsilon(law, accuracy=accuracy, start=size, beta=beta, growth=growth, delta=delta)
    _show({"once": once, "epochs": epochs}, as_json)


def weights_rows(
    alpha: Alpha,
    cells: Cells,
    queries: Annotated[int, Option(help="Queries that are asked in all.")],
    epsilon: TotalEpsilon,
    delta: TotalDelta = "0",
    exponent: Exponent = "1/2",
    confidence: Confidence = "0.95",
    as_json: AsJson = False,
) -> None:
    """Rows that multiplicative weights in rounds take for an accuracy, as published and by the exact law of the noise.

    The exact law is that of the epsilon-DP form, or of the zCDP form that fits into (epsilon, delta).
    """
    known: dict[str, Any] = {"cells": cells, "queries": queries, "alpha": alpha, "confidence": confidence}
    known["exponent"] = exponent
    with spinning("looking for the sizes"):
        figures = {
            "published": weights.published_weights_rows(epsilon=epsilon, delta=delta, **known),
            "exact": weights.sparse_weights_rows(mixing="0.1", **_total(epsilon, delta), **known),
        }
    _show(figures, as_json)


def queries(
    alpha: Alpha,
    cells: Cells,
    start: Annotated[int, Option(help="Rows at the opening.")],
    size: Annotated[int, Option(help="Rows by which the queries are asked.")],
    epsilon: TotalEpsilon,
    delta: TotalDelta = "0",
    exponent: Exponent = "1/2",
    confidence: Confidence = "0.95",
    as_json: AsJson = False,
) -> None:
    """Queries that the published constants of multiplicative weights allow at the start, and until the size."""
    known: dict[str, Any] = {"alpha": alpha, "cells": cells, "start": start, "epsilon": epsilon, "delta": delta}
    known |= {"exponent": exponent, "confidence": confidence}
    _show(
        {
            "at_start": weights.queries_allowed(size=start, **known),
            "at_size": weights.queries_allowed(size=size, **known),
        },
        as_json,
    )


def population(
    excess: Annotated[str, Option(help="Excess of the mean loss on the rows, such as a law promises.")],
    size: Annotated[int, Option(help="Rows, drawn independently from the population.")],
    lam: Annotated[str, Option(help="Strong convexity of the losses, or, with --radius, of the penalty.")],
    lipschitz: Annotated[str, Option(help="Lipschitz constant of the losses.")] = "1",
    radius: Annotated[str | None, Option(help="Losses are convex only, weights no longer than this.")] = None,
    beta: Annotated[str, Option(help="Chance over the rows that the bound is exceeded.")] = "0.05",
    as_json: AsJson = False,
) -> None:
    """The excess risk on the population, from that on the rows at hand."""
    figures = {
        "population": schedules.population_risk_up(
            excess=excess, size=size, lam=lam, lipschitz=lipschitz, radius=radius, beta=beta
        )
    }
    _show(figures, as_json)


def _total(epsilon: str, delta: str) -> dict[str, Any]:
    """The exact form's budget: pure, or the largest rho."""
    if not failing(delta):
        return {"epsilon": epsilon}
    share = accounting.zero_concentrated_rho_down(
        epsilon=positive(epsilon, "epsilon"), delta=probability(delta, "delta")
    )
    return {"rho": share}


# `chary account runs`, `run-pdp`, `run-filter`: runs of above threshold with Gaussian noise under a delta.

Moved = Annotated[str, Option("--sensitivity", help="Most that one unit moves any query.")]
OwnNoise = Annotated[str, Option("--threshold-noise", help="Standard deviation of the threshold's Gaussian noise.")]
QueryNoise = Annotated[str, Option("--query-noise", help="Standard deviation of each query's Gaussian noise.")]
Bar = Annotated[str, Option("--threshold", help="The public threshold.")]
Low = Annotated[str, Option("--low", help="No query is below this.")]
Failure = Annotated[str, Option("--delta", help="Delta of the run.")]
Whole = Annotated[str, Option(help="Total delta.")]
Total = Annotated[str, Option(help="Total epsilon.")]


def runs(
    budget_epsilon: Total,
    budget_delta: Whole,
    sensitivity: Moved,
    threshold_noise: OwnNoise,
    query_noise: QueryNoise,
    threshold: Bar,
    low: Low = "0",
    order: Annotated[str | None, Option(help="Renyi order at which to price one run.")] = None,
    as_json: AsJson = False,
) -> None:
    """How many runs of any length, each up to a hit, are (epsilon, delta)-DP together; the price of one at an order."""
    noise = {"sensitivity": sensitivity, "threshold_noise": threshold_noise, "query_noise": query_noise}
    placed = {"threshold": threshold, "low": low}
    figures: dict[str, float | None] = {
        "runs": gaussian_runs.runs_within(budget_epsilon, budget_delta, **noise, **placed)
    }
    if order is not None:
        if exact(order, "order") <= 1:
            raise InvalidParameter("order must be greater than 1, such as --order 20")
        found = gaussian_runs.run_moments_up(order, **noise, **placed)
        figures |= dict.fromkeys(("opening", "hit", "whole")) if found is None else found._asdict()
    (show_json if as_json else show_pairs)(figures)


def run_pdp(
    delta: Failure,
    sensitivity: Moved,
    threshold_noise: OwnNoise,
    query_noise: QueryNoise,
    threshold: Bar,
    low: Low = "0",
    stopping: Annotated[
        str | None, Option(help="How likely each number of tests is, for all data: 1:0.5,10:0.49,1000:0.01.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The epsilon that the loss of one run exceeds with probability at most delta: for any number of tests, and by the
    law of their number (Zhu and Wang)."""
    noise = {"sensitivity": sensitivity, "threshold_noise": threshold_noise, "query_noise": query_noise}
    figures = {"any_length": gaussian_runs.run_pdp_epsilon_up(**noise, threshold=threshold, low=low, delta=delta)}
    if stopping is not None:
        figures["by_law"] = gaussian_runs.stopping_pdp_epsilon(_law(stopping), **noise, delta=delta)
    (show_json if as_json else show_pairs)(figures)


def run_filter(
    budget_epsilon: Total,
    budget_delta: Whole,
    epsilon: Annotated[str, Option(help="Epsilon of each call.")],
    delta: Annotated[str, Option(help="Delta of each call.")] = "0",
    as_json: AsJson = False,
) -> None:
    """How many (epsilon, delta)-DP calls the filter of Whitehouse and others admits; their deltas take half of delta,
    its composition the other half, or all if they have none."""
    each, total = exact(delta, "delta"), positive(budget_delta, "budget_delta")
    rule = gaussian_runs.WhitehouseFilter(budget_epsilon, total / 2 if each else total, total / 2 if each else 0)
    calls = rule.times(epsilon, each)
    figures = {"calls": calls, "plain": int(Fraction(rule.epsilon) / positive(epsilon, "epsilon"))}
    (show_json if as_json else show_pairs)(figures)


def _law(text: str) -> dict[int, float]:
    """The law that is typed.

    >>> _law("1:0.5,10:1/2")
    {1: 0.5, 10: 0.5}
    """
    parts = [part.partition(":") for part in text.split(",")]
    if not all(count.strip().isdecimal() and chance for count, _, chance in parts):
        raise InvalidParameter("--stopping has numbers of tests and their chances, such as --stopping 1:0.5,10:0.5")
    return {whole(int(count), "stopping"): float(positive(chance, "stopping")) for count, _, chance in parts}


# `chary account`: the calculators, whose JSON keys other programs rely on.

app = typer.Typer(no_args_is_help=True, help="Calculators of privacy accounting; they touch no data.")
ELSEWHERE: Final[tuple[Callable[..., None], ...]] = (
    *(interval, sharp, within, tests, hits, top_one, unbiased, rows, budget, weights_rows, queries, population),
    *(people, runs, run_pdp, run_filter, unanimous, group, sampler),
)
for command in ELSEWHERE:
    app.command()(command)
PerCall = Annotated[str, typer.Option(help="Epsilon of each call.")]
Target = Annotated[str | None, typer.Option("--q", help="The q of a q-target (default: NotPrior).")]
Delta = Annotated[str, typer.Option(help="Total delta.")]
Sensitivity = Annotated[str, typer.Option("--sensitivity", help="Most that one unit moves any query.")]


@app.command()
def charging(
    epsilon: PerCall,
    budget_delta: Delta,
    hits: Annotated[int, typer.Option(help="Hits to pay for.")],
    q: Target = None,
    targets: Annotated[int, typer.Option(help="Targets counted side by side; hits are those of the best one.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of target charging: exact curve, exact tail, published bound."""
    each = probability(budget_delta, "budget_delta") / whole(targets, "targets")
    asked: dict[str, Any] = {"epsilon_per_call": epsilon, "hits": hits, "delta": each}
    with spinning("adding up"):
        best = accounting.exact_total(**asked) if q is None else accounting.target_total(**asked, q=q)
        tail = accounting.exact_tail_total(**asked, q=q)
        bound = accounting.published_total(**asked, q=q)
    _show({"exact": best, "exact_tail": tail, "published": bound}, as_json)


@app.command()
def price(
    order: Annotated[str, typer.Option(help="Renyi order, greater than 1.")],
    epsilon: PerCall,
    q: Target = None,
    as_json: AsJson = False,
) -> None:
    """Log-moment price of one hit at a Renyi order; null where none exists."""
    found = accounting.hit_price_up(accounting.Targeted(epsilon, q), _order(order))
    _show({"price": None if found is None else float(found)}, as_json)


@app.command()
def between(
    epsilon: PerCall,
    width: Annotated[int, typer.Option(help="Steps between the two bars.")],
    sensitivity: Annotated[int, typer.Option(help="Steps by which one unit moves the value.")] = 1,
    as_json: AsJson = False,
) -> None:
    """The q of the target "between two bars", for discrete Laplace noise."""
    q = accounting.between_q_down(epsilon, width=width, sensitivity=sensitivity)
    _show({"q": float(q)}, as_json)


@app.command()
def boundary(
    epsilon: PerCall,
    outcomes: Annotated[int | None, typer.Option(help="Outcomes of the wrapped mechanism (default: any).")] = None,
    order: Annotated[str | None, typer.Option(help="Renyi order at which to price a hit.")] = None,
    as_json: AsJson = False,
) -> None:
    """The boundary wrapper around an epsilon-DP mechanism: its epsilon, the q of the boundary, the price of a hit."""
    call = accounting.BoundaryCall(epsilon, outcomes)
    figures: dict[str, float | None] = {"epsilon": float(call.epsilon), "q": float(call.listed[1])}
    if order is not None:
        found = call.hit_price_up(_order(order))
        figures["price"] = None if found is None else float(found)
    _show(figures, as_json)


@app.command()
def compose(
    epsilon: Annotated[str, typer.Option(help="Epsilon of each computation; several, as in 0.1,0.2, of unequal ones.")],
    times: Annotated[int, typer.Option(help="How many computations, of each epsilon.")],
    budget_delta: Delta,
    as_json: AsJson = False,
) -> None:
    """Total epsilon of pure computations by every composition theorem."""
    several = epsilon.split(",")
    if len(several) == 1:
        found = accounting.compose(epsilon=epsilon, times=times, delta=budget_delta)
    else:
        found = accounting.compose_unequal(epsilons=several * max(0, min(times, 10_000)), delta=budget_delta)
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
