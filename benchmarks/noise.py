"""Exact noise against OpenDP's exact noise, NumPy's inexact noise, and the speed of the operating system's generator.

Run as `python benchmarks/noise.py`; OpenDP is optional. Every figure is the best of several rounds of this run.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from chary.noise import OperatingSystem, discrete_gaussian, discrete_laplace
from chary.noise.source import Words
from measuring import announce, show
from recording import Against

opendp: Any = import_module("opendp.prelude") if find_spec("opendp") else None

SIZE = 1_000_000
PEER_SIZE = 20_000
SINGLES = 2_000
ROUNDS = 5
HEADINGS = [
    "law, scale",
    "chary ns",
    "OpenDP ns",
    "OpenDP / ours",
    "NumPy float ns",
    "random bytes",
    "their time ns",
    "ours / bytes",
    "single us",
]
VERSUS = [
    Against("a sample over its random bytes", "chary ns", "their time ns", "ours / bytes"),
    Against("a sample beside OpenDP", "chary ns", "OpenDP ns", kind="peer"),
]
SCALES = [Fraction(1, 3), Fraction(1), Fraction(10), Fraction(50), Fraction(1000), Fraction(2**20), Fraction(2**40)]


@dataclass(frozen=True)
class Law:
    """One law, as drawn by each library; each function takes a scale and a size."""

    name: str
    ours: Callable[[OperatingSystem, Fraction, int], object]
    peer: Callable[[float], Callable[[list[int]], object]]
    inexact: Callable[[float, int], object]


class Counting(OperatingSystem):
    """The operating system's words, counted in bytes."""

    def __init__(self) -> None:
        self.drawn = 0

    def words(self, count: int, bits: int) -> Words:
        self.drawn += count * bits // 8
        return super().words(count, bits)


def nanoseconds(call: Callable[[], object], size: int, rounds: int = ROUNDS) -> float:
    """The best time per item of several rounds, after one to warm up."""
    call()
    return min(_timed(call) for _ in range(rounds)) / size * 1e9


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peer_laplace(scale: float) -> Callable[[list[int]], object]:
    space: Any = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
    measurement: Callable[[list[int]], object] = opendp.m.make_laplace(*space, scale=scale)
    return measurement


def peer_gaussian(scale: float) -> Callable[[list[int]], object]:
    space: Any = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="i64")
    measurement: Callable[[list[int]], object] = opendp.m.make_gaussian(*space, scale=scale)
    return measurement


LAWS = [
    Law(
        "Laplace",
        discrete_laplace,
        peer_laplace,
        lambda scale, size: np.random.default_rng(0).laplace(0, scale, size),
    ),
    Law(
        "Gaussian",
        lambda source, sigma, size: discrete_gaussian(source, sigma**2, size),
        peer_gaussian,
        lambda scale, size: np.random.default_rng(0).normal(0, scale, size),
    ),
]


def row(law: Law, scale: Fraction, byte: float) -> list[str]:
    """One line of the table; `byte` is the time of a random byte."""
    source = Counting()
    law.ours(source, scale, SIZE)
    bound = source.drawn / SIZE * byte
    ours = nanoseconds(lambda: law.ours(OperatingSystem(), scale, SIZE), SIZE)
    single = nanoseconds(lambda: [law.ours(OperatingSystem(), scale, 1) for _ in range(SINGLES)], SINGLES) / 1000
    inexact = nanoseconds(lambda: law.inexact(float(scale), SIZE), SIZE)
    peer, ratio = peer_figures(law, scale, ours)
    figures = [f"{ours:.1f}", peer, ratio, f"{inexact:.1f}", f"{source.drawn / SIZE:.1f}", f"{bound:.1f}"]
    return [f"{law.name}, {float(scale):g}", *figures, f"{ours / bound:.1f}", f"{single:.0f}"]


def peer_figures(law: Law, scale: Fraction, ours: float) -> tuple[str, str]:
    if opendp is None:
        return "-", "-"
    measurement, zeros = law.peer(float(scale)), [0] * PEER_SIZE
    peer = nanoseconds(lambda: measurement(zeros), PEER_SIZE, rounds=3)
    return f"{peer:.0f}", f"{peer / ours:.0f}x"


def main() -> None:
    if opendp is not None:
        opendp.enable_features("contrib")
    announce()
    byte = nanoseconds(lambda: os.urandom(1 << 20), 1 << 20, rounds=20)
    title = f"Exact noise, ns a sample; os.urandom gives {1000 / byte:.0f} MB/s"
    caption = "OpenDP is not installed: its columns are empty." if opendp is None else None
    show(title, HEADINGS, (row(law, scale, byte) for law in LAWS for scale in SCALES), caption, VERSUS)


if __name__ == "__main__":
    main()
