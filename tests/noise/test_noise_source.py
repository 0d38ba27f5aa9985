"""The sources: width, domain, and that words of the operating system are never handed out twice."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chary.errors import InvalidParameter
from chary.noise import OperatingSystem, Seeded, Source, source

SOURCES: list[Callable[[], Source]] = [OperatingSystem, lambda: Seeded(5)]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.urandom` replaced by the numbers 0, 1, 2, ... in eight bytes each."""
    numbers = itertools.count()

    def urandom(size: int) -> bytes:
        return b"".join(next(numbers).to_bytes(8, sys.byteorder) for _ in range(-(-size // 8)))[:size]

    monkeypatch.setattr(os, "urandom", urandom)
    monkeypatch.setattr(source, "_pool", [])


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("count", [0, 1, 3, 64, 65, 5000])
def test_words_have_the_asked_number_and_width(make: Callable[[], Source], bits: int, count: int) -> None:
    words = make().words(count, bits)
    assert words.shape == (count,)
    assert words.dtype == np.dtype(f"uint{bits}")
    assert isinstance(make(), Source)


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize(("count", "bits"), [(-1, 64), (1, 7), (1, 0), (1, 128), (True, 8)])
def test_other_counts_and_widths_are_refused(make: Callable[[], Source], count: int, bits: int) -> None:
    with pytest.raises(InvalidParameter):
        make().words(count, bits)


def test_seeds_are_whole_numbers() -> None:
    with pytest.raises(InvalidParameter):
        Seeded(-1)
    assert Seeded(1).words(4, 64).tolist() != Seeded(2).words(4, 64).tolist()


def test_a_seed_has_one_stream_however_it_is_cut() -> None:
    """What is fetched ahead is handed out as numpy's generator would hand out the bytes, small and large, even none."""
    plain, ours, cuts = np.random.default_rng(3), Seeded(3), np.random.default_rng(4)
    for _ in range(400):
        count, bits = int(cuts.integers(0, 9000 if cuts.random() < 0.1 else 40)), int(cuts.choice([8, 16, 32, 64]))
        assert ours.words(count, bits).tobytes() == plain.bytes(count * bits // 8)


@pytest.mark.usefixtures("counted")
def test_every_word_is_made_of_bytes_of_the_operating_system() -> None:
    large = OperatingSystem().words(100, 64)
    assert large.tolist() == list(range(100))
    small = np.concatenate([OperatingSystem().words(size, 64) for size in range(60)])
    fetched = -(-small.size // 512) * 512
    assert set(small.tolist()) <= set(range(100, 100 + fetched))
    assert len(set(small.tolist())) == small.size


@pytest.mark.usefixtures("counted")
def test_narrow_words_are_the_bytes_of_one_entry() -> None:
    assert OperatingSystem().words(8, 8).tobytes() == (511).to_bytes(8, sys.byteorder)
    assert OperatingSystem().words(3, 16).tobytes() == (510).to_bytes(8, sys.byteorder)[:6]


@pytest.mark.usefixtures("counted")
def test_threads_never_share_a_word() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            drawn = list(threads.map(lambda size: OperatingSystem().words(size % 7 + 1, 64), range(4000)))
    finally:
        sys.setswitchinterval(interval)
    numbers = np.concatenate(drawn)
    assert np.unique(numbers).size == numbers.size


FORK = """
import os, sys
from chary.noise import OperatingSystem, source
system = OperatingSystem()
system.words(1, 64)
kept = list(source._pool)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    if sys.argv[1] == "keep":
        source._pool.extend(kept)
    os.write(writer, system.words(60, 64).tobytes())
    os._exit(0)
os.waitpid(child, 0)
sys.stdout.buffer.write(os.read(reader, 480) + system.words(60, 64).tobytes())
"""


def forked(mode: str) -> tuple[set[int], set[int]]:
    # A process of its own, because forking one that has threads is deprecated.
    command = [sys.executable, "-W", "ignore", "-c", FORK, mode]
    numbers = np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout, dtype=np.uint64)
    return set(numbers[:60].tolist()), set(numbers[60:].tolist())


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    child, parent = forked("drop")
    assert (len(child), len(parent), len(child & parent)) == (60, 60, 0)


def test_the_fork_test_would_notice_a_child_that_kept_the_pool() -> None:
    child, parent = forked("keep")
    assert child == parent
