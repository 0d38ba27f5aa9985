"""`chary account sharp`, `within`, `tests`: what the price of a hit buys, and how near to a bar tests are right."""

from typing import Annotated, Any, Final

from typer import Option

from chary.accounting.numerics import float_down, float_up, most_kept
from chary.accounting.sharp_tests import next_miss_up, tail_down
from chary.accounting.sharp_widths import laplace_width, sharp_width
from chary.accounting.sparse_vector import sparse_half_width_up
from chary.cli.asking.options import AsJson
from chary.cli.output import show_answer, show_json, show_pairs
from chary.cli.spinner import spinning
from chary.filters import Budget, largest_call
from chary.numbers import exact, positive

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
    miss = next_miss_up(p, order=order, price=price, miss_price=miss_price)
    tail = None if exact(miss_price, "miss_price") else float_down(tail_down(order=order, price=price))
    (show_json if as_json else show_pairs)({"next_miss": float_up(miss), "tail": tail})


def within(
    epsilon: Annotated[str, Option(help="Total epsilon.")],
    delta: Annotated[str, Option(help="Total delta.")],
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
        found = sharp_width(epsilon=epsilon, delta=delta, misses_share=misses_share, **asked)
        # What pays for the hits at a Renyi order, so that both are charged alike.
        size = largest_call(Budget(epsilon, delta), hits, "renyi")
        figures = {
            "within": found.within,
            "order": float(found.test.order),
            "laplace": laplace_width(size, tests=tests, sure=sure),
            "sparse": float(sparse_half_width_up(epsilon=epsilon, **asked)),
        }
    if found.share:
        figures["misses_share"] = float(found.share)
    (show_json if as_json else show_answer)(figures)


def tests(
    epsilon: Annotated[str, Option(help="Total epsilon.")],
    delta: Annotated[str, Option(help="Total delta.")],
    hits: Annotated[int, Option(help="Hits to pay for.")],
    within: Annotated[str, Option(help="How near to the bar all tests are to be right, in sensitivities.")],
    misses_share: Annotated[str, Option(help="Part of the budget for an agreed number of misses.")] = "0",
    sure: Annotated[str, Option(help="Probability that all tests are right.")] = "0.95",
    as_json: AsJson = False,
) -> None:
    """Tests that a budget affords for an accuracy: sharp, by Laplace noise or a sparse vector (`within` turned round).

    To a part in a thousand, rounded down; at most a million million. Nothing where not even the hits alone are so near.
    """
    near, size = float(positive(within, "within")), largest_call(Budget(epsilon, delta), hits, "renyi")
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "hits": hits, "sure": sure}

    def sharply(number: int) -> float:
        return sharp_width(tests=number, misses_share=misses_share, **budget).within

    with spinning("looking for the largest number"):
        figures = {
            "sharp": most_kept(sharply, near, hits, MOST_TESTS),
            "laplace": most_kept(lambda n: laplace_width(size, tests=n, sure=sure), near, hits, MOST_TESTS),
            "sparse": most_kept(
                lambda n: sparse_half_width_up(epsilon=epsilon, tests=n, hits=hits, sure=sure), near, hits, MOST_TESTS
            ),
        }
    (show_json if as_json else show_pairs)(figures)
