"""Calculators of accounting at a shell, each made from a function: its parameters are the options."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import typer

from chary import accounting
from chary.accounting import accuracy, charging_curve, composition, gaussian_runs, schedules, sharp_widths, weights
from chary.accounting.numerics import float_down, float_up, most_kept
from chary.cli.commands import Found, Shown, described, made
from chary.cli.output import show_answer, show_pairs, spinning
from chary.errors import InvalidParameter
from chary.filters import Budget, largest_call
from chary.mechanisms import Laplace
from chary.numbers import exact, failing, positive, probability, whole

# How a function becomes a command.

Figures = Mapping[str, Any]
app = typer.Typer(no_args_is_help=True, help="Calculate privacy costs and accuracy. No data are read.")
# What the options say that mean the same in every calculator; a calculator states what is its own.
WORDS: Final = {
    "accuracy": "The error that is wanted, staleness included.",
    "alpha": "Wanted error of all answers, as a fraction of the rows.",
    "beta": "Probability that the error is exceeded.",
    "budget_delta": "Total delta.",
    "budget_epsilon": "Total epsilon.",
    "cells": "Cells of the universe.",
    "choices": "Over how many things at once.",
    "confidence": "Probability that the statement holds for all answers.",
    "epsilon": "Epsilon of each call.",
    "exponent": "p of the noise function.",
    "factor": "c of the accuracy bound.",
    "growth": "Growth between epochs (default: the best).",
    "high": "No query is above this.",
    "hits": "Hits to pay for.",
    "log_power": "Power of ln(choices/beta) inside the accuracy bound; 1/2 for Gaussian noise.",
    "low": "No query is below this.",
    "misses_share": 'Part of the budget for a fixed number of misses, from 0 to below 1, or "best".',
    "order": "Renyi order of the cost of a hit, greater than 1.",
    "power": "p of the accuracy bound c (ln(choices/beta)/(epsilon n))^p.",
    "q": "The q of a q-target (default: NotPrior).",
    "queries": "Queries that are asked in all.",
    "query_noise": "Standard deviation of each query's Gaussian noise.",
    "sensitivity": "Most that one unit moves any query.",
    "size_log": "Power of ln(n) inside the accuracy bound.",
    "size_power": "Power of n, if it is not that of epsilon.",
    "tests": "Tests in all.",
    "threshold": "The public threshold.",
    "threshold_noise": "Standard deviation of the threshold's Gaussian noise.",
}


def calculator(
    *lending: Callable[..., Any], people: Callable[[Any], None] = show_pairs, such_as: str = ""
) -> Callable[[Callable[..., Figures]], Callable[..., Figures]]:
    """A command of `chary account` that shows the figures a function finds.

    Its options are `described` by the function, those it is `lending` parameters from, and `WORDS`. Refusals end in the
    call `such_as`.
    """

    def command(found: Callable[..., Figures]) -> Callable[..., Figures]:
        def act(_: typer.Context, values: dict[str, Any]) -> Found:
            try:
                with spinning("working it out"):
                    figures = found(**values)
            except InvalidParameter as error:
                raise InvalidParameter(f"{error}; such as: chary account {such_as}") if such_as else error from None
            told = {name: float(value) if isinstance(value, Fraction) else value for name, value in figures.items()}
            yield Shown(told, people)

        app.command()(made(act, *described(found, *lending, words=WORDS)))
        return found

    return command


def _order(order: str) -> Fraction:
    number = exact(order, "order")
    if number <= 1:
        raise InvalidParameter("order must be greater than 1, such as --order 20")
    return number


# What a value says that was published because it was high.


def _told(figures: Figures) -> None:
    """For people: what an end that is missing means."""
    words = {"low": "none: it may be a false alarm", "high": "none"}
    show_pairs({name: words.get(name) if value is None else value for name, value in figures.items()})


@calculator(people=_told, such_as="interval --epsilon 0.05 --above 100 --value 175")
def interval(epsilon: str, above: int, value: int, below: int | None = None, confidence: str = "0.95") -> Figures:
    """Interval and p-value of a count given that it was published; no lower end means it may be a false alarm.

    epsilon: Epsilon of the test, by discrete Laplace noise.
    above: The threshold: values from here on were published.
    value: The value that was published.
    below: The threshold it had failed before, if this one was lowered.
    confidence: Confidence of the interval.
    """
    if below is not None and below <= above:
        raise InvalidParameter("below must be larger than above: the threshold was lowered from there")
    region = accounting.Support
    support = region.at_least(above) if below is None else region.between(above, below)
    published = accounting.Publication(Laplace.for_epsilon(epsilon, sensitivity=1).law(), support)
    return {**published.interval(value, confidence)._asdict(), "p_value": published.p_value(value)}


# What the price of a hit buys, and how near to a bar tests are right.

# More tests than anybody asks; a half-width hardly grows any more.
MOST_TESTS: Final = 10**12


@calculator()
def sharp(order: str, price: str, p: str, miss_price: str = "0") -> Figures:
    """The least probability of a miss next to a probability p of a hit that the cost of a hit allows, and the growth
    near 0.

    `next_miss` is rounded up. `tail` is the largest growth factor of small probabilities, rounded down. It does not
    exist where misses have a cost.

    order: Renyi order, greater than 1.
    price: Log-moment cost of one hit at this order.
    p: Probability of a hit where a value is one sensitivity lower.
    miss_price: Log-moment cost of one miss.
    """
    miss = accounting.next_miss_up(p, order=order, price=price, miss_price=miss_price)
    tail = None if exact(miss_price, "miss_price") else float_down(accounting.tail_down(order=order, price=price))
    return {"next_miss": float_up(miss), "tail": tail}


@calculator(people=show_answer)
def within(
    budget_epsilon: str, budget_delta: str, tests: int, hits: int, misses_share: str = "0", confidence: str = "0.95"
) -> Figures:
    """How near to the threshold all tests are right, in sensitivities: the optimal test, Laplace noise, a sparse
    vector.

    The sparse vector, for counts that all move one way, has the same epsilon and no delta.
    """
    asked: dict[str, Any] = {"tests": tests, "hits": hits, "confidence": confidence}
    found = accounting.sharp_width(epsilon=budget_epsilon, delta=budget_delta, misses_share=misses_share, **asked)
    # What pays for the hits at a Renyi order, so that both are charged alike.
    size = largest_call(Budget(budget_epsilon, budget_delta), hits, "renyi")
    figures = {
        "within": found.within,
        "order": found.test.order,
        "laplace": sharp_widths.laplace_width(size, tests=tests, confidence=confidence),
        "sparse": float(accounting.sparse_half_width_up(epsilon=budget_epsilon, **asked)),
    }
    return figures | ({"misses_share": found.share} if found.share else {})


@calculator()
def tests(
    budget_epsilon: str, budget_delta: str, hits: int, within: str, misses_share: str = "0", confidence: str = "0.95"
) -> Figures:
    """Tests that a budget affords for an accuracy: sharp, by Laplace noise or a sparse vector (`within` turned round).

    To a part in a thousand, rounded down; at most a million million. Nothing where not even the hits alone are so near.

    within: How near to the threshold all tests are to be right, in sensitivities.
    """
    near, size = float(positive(within, "within")), largest_call(Budget(budget_epsilon, budget_delta), hits, "renyi")
    asked: dict[str, Any] = {"epsilon": budget_epsilon, "hits": hits, "confidence": confidence}
    widths: dict[str, Callable[[int], float]] = {
        "sharp": lambda n: (
            accounting.sharp_width(tests=n, delta=budget_delta, misses_share=misses_share, **asked).within
        ),
        "laplace": lambda n: sharp_widths.laplace_width(size, tests=n, confidence=confidence),
        "sparse": lambda n: accounting.sparse_half_width_up(tests=n, **asked),
    }
    return {name: most_kept(width, near, hits, MOST_TESTS) for name, width in widths.items()}


# How many hits charging takes, what they cost, and what nobody can do better.


@calculator()
def hits(overhead: str, delta: str, epsilon: str = "0.01", q: str | None = None) -> Figures:
    """The fewest hits for which charging pays (1 + overhead) hits/q calls: exact tail, two Chernoff bounds.

    overhead: Calls paid for beyond the mean number, as a part of it: alpha.
    delta: Probability that more are needed.
    """
    rate = accounting.not_prior_q(composition.moderate_up(epsilon)) if q is None else q
    return charging_curve.hits_needed(overhead=overhead, delta=delta, q=rate)._asdict()


@calculator()
def top_one(epsilon: str, candidates: int, budget_delta: str) -> Figures:
    """What the best of many private candidates costs: at least, as one hit of epsilon or of twice that, without delta.

    `at_least` is a lower bound for every accountant. One hit of 2 epsilon is what the exact filter charges, as
    Cohen and Lyu do; at a Renyi order one hit of epsilon is enough.

    epsilon: Epsilon of each candidate.
    candidates: How many candidates there are.
    """
    once = positive(epsilon, "epsilon")
    return {
        "at_least": charging_curve.one_shot_floor_down(
            epsilon_per_call=epsilon, candidates=candidates, delta=budget_delta
        ),
        "one_hit": accounting.exact_total(epsilon_per_call=epsilon, hits=1, delta=budget_delta),
        "one_hit_of_twice": accounting.exact_total(epsilon_per_call=2 * once, hits=1, delta=budget_delta),
        "without_delta": once * whole(candidates, "candidates"),
    }


@calculator()
def unbiased(epsilon: str, change: str = "1", units: int = 1000) -> Figures:
    """The least variance and squared error of an unbiased epsilon-DP answer, and the published bound.

    epsilon: Epsilon of the answer.
    change: How far one unit moves the true answer; k units move it k times as far.
    units: This many units at most move it.
    """
    step = exact(change, "change")
    known: dict[str, Any] = {"epsilon": epsilon, "changes": [k * step for k in range(1, whole(units, "units") + 1)]}
    return {
        "variance": accounting.variance_down(**known),
        "squared_error": accounting.loss_down(**known),
        "published": accounting.published_loss_down(**known),
    }


@calculator()
def charging(epsilon: str, budget_delta: str, hits: int, q: str | None = None, targets: int = 1) -> Figures:
    """Total epsilon of target charging: exact curve, exact tail, published bound.

    targets: Targets counted side by side; hits are those of the best one.
    """
    each = probability(budget_delta, "budget_delta") / whole(targets, "targets")
    asked: dict[str, Any] = {"epsilon_per_call": epsilon, "hits": hits, "delta": each}
    return {
        "exact": accounting.exact_total(**asked) if q is None else accounting.target_total(**asked, q=q),
        "exact_tail": accounting.exact_tail_total(**asked, q=q),
        "published": accounting.published_total(**asked, q=q),
    }


@calculator()
def price(order: str, epsilon: str, q: str | None = None) -> Figures:
    """Log-moment cost of one hit at a Renyi order; null where none exists."""
    return {"price": accounting.hit_price_up(accounting.Targeted(epsilon, q), _order(order))}


@calculator(accounting.between_q_down)
def between(sensitivity: int = 1, **known: Any) -> Figures:
    """The q of the target "between two thresholds", for discrete Laplace noise.

    width: Steps between the two thresholds.
    sensitivity: Steps that one unit moves the value.
    """
    return {"q": accounting.between_q_down(sensitivity=sensitivity, **known)}


@calculator()
def boundary(epsilon: str, outcomes: int | None = None, order: str | None = None) -> Figures:
    """The boundary wrapper around an epsilon-DP mechanism: its epsilon, the q of the boundary, the cost of a hit.

    outcomes: Outcomes of the wrapped mechanism (default: any).
    """
    call = accounting.BoundaryCall(epsilon, outcomes)
    figures: dict[str, Any] = {"epsilon": call.epsilon, "q": call.listed[1]}
    return figures if order is None else figures | {"price": call.hit_price_up(_order(order))}


@calculator()
def unanimous(epsilon: str, order: str, unclear: str, most: int = 12) -> Figures:
    """How often to run a black box (`Boundary` with `runs`) so that its boundary costs least on average.

    `price` is that of a boundary, `chance` how often one comes, `paid` their product; `paid_twice` is that of two runs.

    epsilon: Epsilon of one run.
    unclear: How likely one run is of another outcome than the usual one.
    most: At most this many runs.
    """
    at = _order(order)

    def paid(runs: int) -> tuple[float | None, float, float | None]:
        found, chance = accounting.unanimous_price_up(epsilon, runs, at), accounting.boundary_chance(unclear, runs)
        return (None, chance, None) if found is None else (float(found), chance, float(found) * chance)

    count = accounting.best_runs(epsilon, at, unclear, most=most)
    return {"runs": count, **dict(zip(("price", "chance", "paid"), paid(count), strict=True)), "paid_twice": paid(2)[2]}


@calculator()
def compose(epsilon: str, times: int, budget_delta: str) -> Figures:
    """Total epsilon of pure computations by every composition theorem.

    epsilon: Epsilon of each computation; several, as in 0.1,0.2, of unequal ones.
    times: How many computations, of each epsilon.
    """
    several = epsilon.split(",")
    if len(several) == 1:
        return accounting.compose(epsilon=epsilon, times=times, delta=budget_delta).as_dict()
    return accounting.compose_unequal(epsilons=several * max(0, min(times, 10_000)), delta=budget_delta).as_dict()


# What a promise is worth for several units, and for noise that is not exact.


@calculator()
def group(units: int, epsilon: str = "1", delta: str = "0") -> Figures:
    """Epsilon and delta of neighbours that differ in this many units; delta is rounded up.

    units: How many units change together, such as the people of a household.
    epsilon: Epsilon for one unit.
    delta: Delta for one unit.
    """
    found = accounting.group_privacy_up(epsilon=epsilon, delta=delta, units=units)
    return dict(zip(("epsilon", "delta"), found, strict=True))


@calculator()
def sampler(distance: str, epsilon: str = "1", delta: str = "0") -> Figures:
    """Delta of a mechanism that is drawn so far from its distribution; rounded up. The distance of chary's noise is 0.

    distance: Total variation distance of what is drawn from its distribution, at most.
    epsilon: Epsilon for one unit.
    delta: Delta for one unit.
    """
    return {"delta": accounting.sampler_delta_up(epsilon=epsilon, delta=delta, distance=distance)}


# How much data an accuracy takes.


@calculator()
def people(values: int, epsilon: str, within: str, confidence: str = "0.95", share: str = "1") -> Figures:
    """People that local reports of every form take for intervals about the population, sampling error included.

    values: How many values people can hold.
    epsilon: Epsilon of each report.
    within: How far the interval of each proportion may reach to either side.
    confidence: Probability that the intervals of all values hold.
    share: The largest expected proportion of a value.
    """
    known: dict[str, Any] = {"values": values, "within": within, "beta": 1 - probability(confidence, "confidence")}
    channels = accuracy.local_channels(values, epsilon)
    figures = {name: accuracy.people_needed(each, share=share, **known) for name, each in channels.items()}
    return {**figures, "best": min(figures, key=figures.__getitem__)}


@calculator(schedules.Law)
def rows(
    accuracy: str,
    power: str = "1",
    factor: str = "1",
    epsilon: str | None = None,
    rho: str | None = None,
    growth: str | None = None,
    start: int | None = None,
    exponent: str = "0.1",
    beta: str = "0.05",
    **known: Any,
) -> Figures:
    """Rows that an accuracy takes: in one run, at the start of a schedule in epochs, of one at every size.

    base: An error that no rows improve.
    epsilon: Total epsilon of one run, and of a schedule in epochs.
    rho: Total rho of schedules, in place of epsilon.
    start: With --rho: rows at which runs at every size begin.
    exponent: With --start: c of runs at every size.
    """
    law, asked = schedules.Law(power, factor, **known), {"accuracy": accuracy, "beta": beta}
    if (epsilon is None) == (rho is None):
        raise InvalidParameter("give one of --epsilon and --rho, as in: chary account rows --accuracy 0.05 --epsilon 1")
    figures = {} if epsilon is None else {"once": schedules.static_rows(law, epsilon=epsilon, **asked)}
    figures["epochs"] = schedules.epochs_rows(law, growth=growth, epsilon=epsilon, rho=rho, **asked)
    if rho is not None and start is not None:
        figures["every_size"] = schedules.every_rows(law, start=start, exponent=exponent, rho=rho, **asked)
    return figures


@calculator()
def budget(
    accuracy: str,
    size: int,
    power: str = "1",
    factor: str = "1",
    choices: str = "1",
    base: str = "0",
    delta: str | None = None,
    growth: str | None = None,
    beta: str = "0.05",
) -> Figures:
    """Epsilon that an accuracy takes at this many rows: in one run, and in a schedule in epochs, for ever.

    size: Rows there are, at the start of a schedule.
    base: An error that no budget improves.
    delta: Delta of a schedule by zCDP: cheaper for small epsilons, more expensive for large ones.
    """
    law, asked = schedules.Law(power, factor, choices, base=base), {"accuracy": accuracy, "beta": beta}
    return {
        "once": schedules.static_epsilon(law, size=size, **asked),
        "epochs": schedules.epochs_epsilon(law, start=size, growth=growth, delta=delta, **asked),
    }


@calculator(weights.published_weights_alpha)
def weights_rows(alpha: str, epsilon: str, delta: str = "0", **known: Any) -> Figures:
    """Rows that multiplicative weights in rounds take for an accuracy, as published and by the exact distribution of
    the noise.

    The exact distribution is that of the epsilon-DP form, or of the zCDP form that fits into (epsilon, delta).

    epsilon: Total epsilon.
    delta: Total delta, if any.
    """
    total: dict[str, Any] = {"epsilon": epsilon}
    if failing(delta):
        within = {"epsilon": positive(epsilon, "epsilon"), "delta": probability(delta, "delta")}
        total = {"rho": accounting.zero_concentrated_rho_down(**within)}
    return {
        "published": weights.published_weights_rows(alpha=alpha, epsilon=epsilon, delta=delta, **known),
        "exact": weights.sparse_weights_rows(alpha=alpha, mixing="0.1", **total, **known),
    }


@calculator(weights.queries_allowed)
def queries(start: int, size: int, **known: Any) -> Figures:
    """Queries that the published constants of multiplicative weights allow at the start, and until the size.

    start: Rows at the opening.
    size: Rows until which the queries are asked.
    epsilon: Total epsilon.
    delta: Total delta, if any.
    """
    allowed = weights.queries_allowed
    return {
        "at_start": allowed(start=start, size=start, **known),
        "at_size": allowed(start=start, size=size, **known),
    }


@calculator(schedules.population_risk_up)
def population(beta: str = "0.05", **known: Any) -> Figures:
    """The excess risk on the population, from that on the rows at hand.

    excess: Excess of the mean loss on the rows, such as an accuracy bound promises.
    size: Rows, drawn independently from the population.
    lam: Strong convexity of the losses, or, with --radius, of the penalty.
    lipschitz: Lipschitz constant of the losses.
    radius: Losses are convex only, weights no longer than this.
    beta: Probability over the rows that the bound is exceeded.
    """
    return {"population": schedules.population_risk_up(beta=beta, **known)}


# Gaussian noise: the place of the largest query, and runs of above threshold.


@calculator(accounting.noisy_max_epsilon_up, such_as="noisy-max --queries 1000 --sensitivity 0.001 --noise 0.05")
def noisy_max(range: str = "1", **known: Any) -> Figures:
    """Pure epsilon of the place of the largest of queries with Gaussian noise.

    queries: How many noisy queries are compared.
    noise: Standard deviation of the Gaussian noise.
    range: Length of the interval in which every query lies.
    """
    return {"epsilon": accounting.noisy_max_epsilon_up(spread=range, **known)}


@calculator(
    accounting.halted_epsilon_up,
    such_as="above-threshold --steps 9 --sensitivity 0.001 --threshold-noise 0.05 --query-noise 0.0867 --threshold 0.5",
)
def above_threshold(running: bool = False, **known: Any) -> Figures:
    """Ex-post epsilon of a run of above threshold with Gaussian noise, from where it halted.

    steps: The query at which the run halted.
    running: The run did not halt at any of the queries.
    """
    return {"epsilon": (accounting.running_epsilon_up if running else accounting.halted_epsilon_up)(**known)}


@calculator(gaussian_runs.run_moments_up)
def runs(
    budget_epsilon: str, budget_delta: str, order: str | None = None, monotone: bool = False, **known: Any
) -> Figures:
    """How many runs of any length are (epsilon, delta)-DP together; the cost of one at an order.

    hits: Hits after which a run ends.
    monotone: One unit moves all queries in one direction.
    order: Renyi order at which to cost one run, greater than 1.
    """
    known["monotone"] = monotone
    figures: dict[str, Any] = {"runs": gaussian_runs.runs_within(budget_epsilon, budget_delta, **known)}
    if order is None:
        return figures
    found = gaussian_runs.run_moments_up(_order(order), **known)
    return figures | (dict.fromkeys(("opening", "hit", "whole")) if found is None else found._asdict())


@calculator(gaussian_runs.run_pdp_epsilon_up)
def run_pdp(stopping: str | None = None, **known: Any) -> Figures:
    """The epsilon that the loss of one run exceeds with probability at most delta: for any number of tests, and by the
    distribution of their number (Zhu and Wang).

    delta: Delta of the run.
    stopping: How likely each number of tests is, for all data: 1:0.5,10:0.49,1000:0.01.
    """
    figures = {"any_length": gaussian_runs.run_pdp_epsilon_up(**known)}
    if stopping is None:
        return figures
    del known["threshold"], known["low"]
    return figures | {"by_law": gaussian_runs.stopping_pdp_epsilon(_law(stopping), **known)}


def _law(text: str) -> dict[int, float]:
    """The distribution that is typed.

    >>> _law("1:0.5,10:1/2")
    {1: 0.5, 10: 0.5}
    """
    parts = [part.partition(":") for part in text.split(",")]
    if not all(count.strip().isdecimal() and chance for count, _, chance in parts):
        raise InvalidParameter(
            "--stopping has numbers of tests and their probabilities, such as --stopping 1:0.5,10:0.5"
        )
    return {whole(int(count), "stopping"): float(positive(chance, "stopping")) for count, _, chance in parts}


@calculator()
def run_filter(budget_epsilon: str, budget_delta: str, epsilon: str, delta: str = "0") -> Figures:
    """How many (epsilon, delta)-DP calls the filter of Whitehouse and others admits; their deltas take half of delta,
    its composition the other half, or all if they have none.

    delta: Delta of each call.
    """
    each, total = exact(delta, "delta"), positive(budget_delta, "budget_delta")
    rule = gaussian_runs.WhitehouseFilter(budget_epsilon, total / 2 if each else total, total / 2 if each else 0)
    return {
        "calls": rule.times(epsilon, each),
        "plain": int(Fraction(rule.epsilon) / positive(epsilon, "epsilon")),
    }
