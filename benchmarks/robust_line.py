"""A private line through public data: the median of slopes beside noise on least squares, and without privacy.

Run as `python benchmarks/robust_line.py`. One study year of the built-in data, each row a person, their number public:
the logarithm of 1 + medical dollars by age. Once as they are, and once with 10 % of the rows spoiled: the largest
value at the youngest age. The limit of each way is its own line without privacy.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.calls.algorithm import distance_steps
from chary.demo.panel import of_year, people
from chary.learning.median_slope import drawn_order, excess, height_distances, paired_slopes
from chary.mechanisms import InverseSensitivity, Laplace
from chary.noise import Seeded
from measuring import announce, show

Floats = NDArray[np.float64]
Line = tuple[float, float]
AGES, LOGS, CENTER = (0.0, 64.0), (0.0, 12.0), 32.0
SLOPES, HEIGHTS = np.arange(-200, 201) / 1000, np.arange(0, 1201) / 100
RUNS, SEED, GRID = 100, 7, 1024
COLUMNS = ["rows: way", "epsilon", "own slope", "its error", "of height", "off clean line", "over limit"]


def rows(spoiled: float) -> tuple[Floats, Floats]:
    """Ages and logarithms; the first rows are spoiled."""
    year = of_year(people(), 1)
    x, y = (np.asarray(year[name], dtype=float) for name in ("xage", "meddol"))
    x, y = x.copy(), np.log1p(y)
    bad = int(spoiled * len(x))
    x[:bad], y[:bad] = AGES[0], LOGS[1]
    return x, y


def least_squares(x: Floats, y: Floats) -> Line:
    """Slope and height at the centre, of clipped values."""
    across, up = np.clip(x, *AGES) - CENTER, np.clip(y, *LOGS)
    slope, height = np.polyfit(across, up, 1)
    return float(slope), float(height)


def middle(x: Floats, y: Floats, matchings: int, source: Seeded) -> Line:
    """The medians without privacy, for as many matchings."""
    orders = [drawn_order(len(x), source) for _ in range(matchings)]
    slopes = np.concatenate([paired_slopes(x[order], y[order]) for order in orders])
    slope = float(np.median(slopes))
    return slope, float(np.median(y - slope * (x - CENTER)))


def noisy_least_squares(x: Floats, y: Floats, epsilon: Fraction, source: Seeded) -> Line:
    """Noise on four clipped sums; a row that is replaced moves each by its width: a quarter of epsilon for each."""
    across, up = np.clip(x, *AGES) - CENTER, np.clip(y, *LOGS) - sum(LOGS) / 2
    products = {"x": across, "y": up, "xx": across**2, "xy": across * up}
    half, high = (AGES[1] - AGES[0]) / 2, (LOGS[1] - LOGS[0]) / 2
    widths = {"x": 2 * half, "y": 2 * high, "xx": half**2, "xy": 2 * half * high}
    found = {}
    for name, values in products.items():
        noise = Laplace.for_epsilon(epsilon / 4, sensitivity=int(np.ceil(widths[name] * GRID)))
        found[name] = noise.apply_one(int(np.rint(values * GRID).sum()), source) / GRID / len(x)
    slope = (found["xy"] - found["x"] * found["y"]) / max(1e-3, found["xx"] - found["x"] ** 2)
    return slope, found["y"] - slope * found["x"] + sum(LOGS) / 2


def private_middle(x: Floats, y: Floats, epsilon: Fraction, source: Seeded, matchings: int) -> Line:
    """Half of epsilon for the slope, half for the height."""
    chooser = InverseSensitivity(epsilon / 2)
    orders = [drawn_order(len(x), source) for _ in range(matchings)]
    slopes = np.concatenate([paired_slopes(x[order], y[order]) for order in orders])
    distances = (excess(slopes, SLOPES.tolist()) / (2 * matchings)).tolist()
    slope = float(SLOPES[chooser.pick(distance_steps(distances), source)])
    table = pa.table({"x": x, "y": y})
    told = {"x": "x", "y": "y", "change": 2, "slope": slope, "center": CENTER}
    heights = height_distances(table, HEIGHTS.tolist(), **told).tolist()
    return slope, float(HEIGHTS[chooser.pick(distance_steps(heights), source)])


def errors(draw: Callable[[Seeded], Line], own: Line, clean: Line) -> list[str]:
    """Mean errors of slope and height, and how far the line is from that of clean data at ages 10 to 60."""
    source, ages = Seeded(SEED), np.linspace(10, 60, 51) - CENTER
    lines = [draw(source) for _ in range(RUNS)]
    slope = np.mean([abs(line[0] - own[0]) for line in lines])
    height = np.mean([abs(line[1] - own[1]) for line in lines])
    off = np.mean([np.mean(np.abs((line[0] - clean[0]) * ages + line[1] - clean[1])) for line in lines])
    least = np.mean(np.abs((own[0] - clean[0]) * ages + own[1] - clean[1]))
    return [f"{slope:.4f}", f"{height:.3f}", f"{off:.3f}", f"{off / max(least, 1e-9):.1f}" if least > 1e-6 else "-"]


def compared() -> Iterator[list[str]]:
    """Each way on the rows as they are and spoiled."""
    clean_x, clean_y = rows(0)
    for title, spoiled in (("as they are", 0.0), ("10 % spoiled", 0.1)):
        x, y = rows(spoiled)
        for epsilon in (Fraction(1), Fraction(1, 10)):
            own, clean = least_squares(x, y), least_squares(clean_x, clean_y)
            told = errors(lambda source: noisy_least_squares(x, y, epsilon, source), own, clean)  # noqa: B023
            yield [f"{title}: noise on least squares", str(float(epsilon)), f"{own[0]:.4f}", *told]
            for matchings in (1, 8):
                own, clean = (middle(*each, 64, Seeded(SEED)) for each in ((x, y), (clean_x, clean_y)))
                told = errors(lambda source: private_middle(x, y, epsilon, source, matchings), own, clean)  # noqa: B023
                yield [f"{title}: median of slopes, {matchings}", str(float(epsilon)), f"{own[0]:.4f}", *told]


def main() -> None:
    announce()
    caption = "The number beside medians is that of matchings. The limit is the same way without privacy."
    show(f"Lines of {len(rows(0)[0]):,} rows, means of {RUNS} runs", COLUMNS, compared(), caption)


if __name__ == "__main__":
    main()
