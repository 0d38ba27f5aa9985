"""Private multiplicative weights: the speed of the public histogram, beside the least work there is.

Run as `python benchmarks/multiplicative_weights.py`. How good the answers are is measured by `growing_queries.py`.
"""

import numpy as np

from chary import Universe
from chary.data import Predicate
from chary.data.universe.regions import located, matrix
from chary.mechanisms.weights import PublicHistogram
from measuring import announce, duration, show, side_by_side
from recording import Against


def speed(shape: tuple[int, ...], condition: str, told: str = "") -> list[str]:
    """One change and one look-up in a million cells, against multiplying a million floats in place; and how long it
    takes to find the cells."""
    schema = {f"c{place}": "int64" for place in range(len(shape))}
    universe = Universe({name: range(size - 1) for name, size in zip(schema, shape, strict=True)})
    asked = Predicate.parse(condition)
    region, _ = located(universe, schema, asked)
    histogram, floats = PublicHistogram(*matrix(universe)), np.ones(universe.cells, np.float32)
    factors = np.where(region.flags(), np.float32(1.0001), np.float32(1))

    def floor() -> None:
        np.multiply(floats, factors, out=floats)

    ours, least, look, find = side_by_side(
        [
            lambda: histogram.multiply(region, 1.0001),
            floor,
            lambda: histogram.share(region),
            lambda: located(universe, schema, asked),
        ],
        30,
        10,
    )
    cells = f"{shape[0]}^{len(shape)}, {told or condition}"
    return [cells, duration(ours), duration(least), f"{ours / least:.2f}", duration(look), duration(find)]


def some(column: str, step: int | None = None) -> str:
    """Every so many of a thousand values, or half of them at random."""
    values = range(0, 999, step) if step else np.flatnonzero(np.random.default_rng(int(column[1:])).random(999) < 0.5)
    return f"{column} IN ({', '.join(map(str, values))})"


def main() -> None:
    announce()
    shapes = [
        ((100, 100, 100), "c0 < 50"),
        ((100, 100, 100), "c1 < 50 AND c2 < 50"),
        ((10,) * 6, "c0 < 5 AND c3 IN (1, 3, 7) AND c5 = 2"),
        ((1000, 1000), "c0 IN (1, 3, 5, 7) OR c1 < 500"),
        ((1000, 1000), some("c1", 2), "c1 IN every second"),
        ((1000, 1000), f"{some('c0', 2)} OR {some('c1', 3)}", "c0 IN every second OR c1 IN every third"),
        ((1000, 1000), f"{some('c0')} AND c1 < 500", "c0 IN any half AND c1 < 500"),
        ((1000, 1000), f"{some('c0')} AND {some('c1')}", "c0 IN any half AND c1 IN any half"),
        ((10,) * 6, "NOT (c0 = 1 AND c2 = 3)"),
        ((10,) * 6, "c0 = 1 OR c1 = 2 OR c2 = 3 OR c3 = 4 OR c4 = 5 OR c5 = 6"),
        ((10,) * 6, "(c0 = 1 OR c3 = 2) AND (c1 = 1 OR c4 = 2) AND c2 < 5"),
        ((2,) * 20, "(c0 = 0 OR c10 = 0) AND (c1 = 0 OR c11 = 0)"),
        ((10**6,), "c0 < 300000"),
    ]
    headings = ["universe, query", "change", "floor", "ratio", "look up", "find"]
    limit = Against("a change over multiplying floats", "change", "floor", "ratio")
    show("A million cells", headings, [speed(*shape) for shape in shapes], against=[limit])


if __name__ == "__main__":
    main()
