"""A tree of public histograms over blocks: proportions of the rows of any range of blocks, from a few of its nodes."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.answers import NoisyNumber
from chary.calls.fields import AskedShare
from chary.calls.public_histograms import HistogramMemory
from chary.calls.releases import Release
from chary.calls.weights import PMW, HistogramRun, WeightedAnswer
from chary.core.plan import ENCODER
from chary.data import Count
from chary.data.blocks import Blocks, Day
from chary.errors import InvalidParameter, InvalidQuery, RequestConflict
from chary.ledger import State
from chary.session import Session

# What a question is checked with before any size is known: no condition depends on it.
_SOME_ROWS: Final = 10**6

# From the first to the last of some blocks that follow one another, by their numbers from 0.
Span = tuple[int, int]


def spans(first: int, last: int) -> Iterator[Span]:
    """The fewest nodes that make up the blocks from one to another. The length of a node is a power of two, and its
    first number a multiple of that. For n blocks there are `2 log2(n + 1)` nodes at most.

    >>> list(spans(3, 9)), list(spans(0, 7)), list(spans(5, 5))
    ([(3, 3), (4, 7), (8, 9)], [(0, 7)], [(5, 5)])
    """
    while first <= last:
        length = first & -first or 1 << last.bit_length()
        while first + length - 1 > last:
            length //= 2
        yield first, first + length - 1
        first += length


def at_size(call: PMW, rows: int) -> PMW:
    """The call of a node of this many rows, where `hits`, `price` or `epsilon` are those at `call.rows` rows.

    At m times the rows, noise may be m times as large for the same accuracy of proportions. So a hard answer has a
    privacy cost that is m squared times smaller. Hits are rounded down, which keeps the accuracy.

    >>> call = PMW(universe={"ill": [True, False]}, alpha="0.1", hits=50, rows=1000)
    >>> at_size(call, 4000).hits, at_size(call, 700).hits
    (800, 24)
    """
    if call.rows is None:
        return replace(call, rows=rows)
    times = Fraction(rows, call.rows)
    price, epsilon = (None if each is None else Fraction(each) for each in (call.price, call.epsilon))
    return replace(
        call,
        rows=rows,
        hits=call.hits and max(1, math.floor(call.hits * times**2)),
        price=price and price / times**2,
        epsilon=epsilon and epsilon / times,
    )


def nearest(node: Span, learned: Mapping[Span, int]) -> Span | None:
    """The node whose middle is nearest, among equally near ones the one that has learned most; None without nodes.

    >>> nearest((4, 5), {(0, 3): 9, (6, 6): 1, (3, 3): 2})
    (3, 3)
    """
    return min(learned, key=lambda each: (abs(sum(each) - sum(node)), -learned[each]), default=None)


def _places(node: Span) -> range:
    """The numbers of its blocks."""
    return range(node[0], node[1] + 1)


@dataclass(frozen=True)
class NodeAnswer:
    """The answer of one node about its blocks, from `since` until `until`; `rows` is the size that was stated."""

    since: str
    until: str
    rows: int
    answer: WeightedAnswer


@dataclass(frozen=True)
class RangeAnswer:
    """The proportion of the rows of a range of blocks: the mean of its nodes, weighted by their public sizes.

    `error_bar` is the mean of theirs: while each node is within its own, the answer is within that. It is None where a
    node was not verified, or has an interval instead. An answer is `verified` if every node was compared with its rows.
    """

    nodes: tuple[NodeAnswer, ...]

    @property
    def rows(self) -> int:
        """The number of rows, by the sizes that were released."""
        return sum(node.rows for node in self.nodes)

    @property
    def count(self) -> float:
        """The number of rows that satisfy the condition, or the sum of their weights."""
        return sum(node.rows * node.answer.share for node in self.nodes)

    @property
    def share(self) -> float:
        """The proportion of the rows."""
        return self.count / self.rows

    @property
    def error_bar(self) -> float | None:
        """How far the proportion may be off, as a part of the rows that were released."""
        bars = [(node.rows, node.answer.error_bar) for node in self.nodes]
        found = [rows * bar for rows, bar in bars if bar is not None]
        return sum(found) / self.rows if len(found) == len(bars) else None

    @property
    def verified(self) -> bool:
        """Whether every node was compared with its rows."""
        return all(node.answer.verified for node in self.nodes)

    @property
    def hard(self) -> int:
        """The number of nodes in which it was hard, each of which was charged in its blocks."""
        return sum(node.answer.hard for node in self.nodes)

    def __float__(self) -> float:
        return self.share


class HistogramTree:
    """Proportions of the rows of ranges of blocks, by private multiplicative weights over a binary tree of blocks.

    A question about a range asks the fewest nodes that make it up. Each is a run of `PMW` over its blocks, opened when
    it is first needed. `call` says its universe, alpha and accuracy. `hits=`, `price=` or `epsilon=` are those of a
    node of `rows=` rows, and a node of m times the rows has `m**2` times the hits. With `tests=` and `confidence=`
    alone each node has the least privacy cost at its size. `size` is the release of `count()` that each block pays
    once: the sizes of nodes are sums of these. With `warm`, a new node starts from the nearest one that has learned
    anything.

    Guarantee: that of the session. Each node is charged in its own blocks alone: a block pays for the nodes that
    contain it, one for each power of two. Each node is accurate as `PMW` says, and so is their mean. Blocks that are
    not over are refused, since their sizes change. After a restart, a tree of the same calls has the same nodes: the
    ledger keeps them under the idempotency keys of their openings.

    Errors: `InvalidQuery` where rows are in no blocks, and for what `PMW` refuses; `InvalidParameter` for calls of
    which no tree can be made. Source: K. Kostopoulou et al., Turbo: Effective Caching in Differentially-Private
    Databases, SOSP 2023, section 4.4, where nodes share a sparse vector for each range instead.

    >>> import chary, pyarrow as pa
    >>> from datetime import date, timedelta
    >>> days = [date(2024, 1, 1) + timedelta(days=row % 56) for row in range(80_000)]
    >>> tests = pa.table({"day": days, "ill": [row % 9 == 0 for row in range(80_000)]})
    >>> rule = chary.Blocks("day", every="week", since="2024-W01")
    >>> session = chary.open(
    ...     tests, privacy_unit=None, budget=chary.Budget(epsilon=1, delta=1e-6), ledger=":memory:", blocks=rule
    ... )
    >>> call = chary.calls.PMW(universe={"ill": [True, False]}, alpha="0.1", hits=100, rows=10_000)
    >>> tree = HistogramTree(session, call, size=chary.calls.Release(chary.count(), rho="0.00002"))
    >>> found = tree.ask("ill", since="2024-W02", until="2024-W07")
    >>> [node.until for node in found.nodes], found.verified, abs(found.share - 1 / 9) < 0.1
    (['2024-W02', '2024-W04', '2024-W06', '2024-W07'], True, True)
    >>> max(session.spent_by_block.values()) < 0.03
    True
    """

    def __init__(self, session: Session, call: PMW, *, size: Release[Any], warm: bool = True) -> None:
        """Nothing is charged or read."""
        if session.spine.blocks is None:
            raise InvalidQuery('a tree is over blocks: chary.open(..., blocks=chary.Blocks("day", since="2024-W01"))')
        if not isinstance(call, PMW) or call.prepaid or call.warm_start is not None:
            raise InvalidParameter("give a PMW that is not prepaid; the tree says warm_start= for each node")
        if call.rows is None and not (call.hits is call.price is call.epsilon is None):
            raise InvalidParameter("state the number of rows for which hits=, price= or epsilon= is meant: rows=10_000")
        if not isinstance(size, Release) or size.query != Count():
            raise InvalidParameter('size is a release of all rows, such as Release(count(), rho="0.00001")')
        self.call, self.size, self.warm = call, size, warm
        self._session = session
        replace(call, rows=_SOME_ROWS).plan(session.spine).reads(session.spine.rows)  # refuses what no size makes right
        said = ENCODER.encode([call.body(), size.body(), warm])
        self._key = f"tree {hashlib.sha256(said.encode()).hexdigest()[:32]}"
        self._runs, self._sizes = dict[Span, HistogramRun](), dict[int, float]()

    def ask(
        self,
        where: AskedShare,
        since: Day | None = None,
        until: Day | None = None,
        *,
        must_verify: bool = False,
        request: str | None = None,
    ) -> RangeAnswer:
        """The proportion of the rows of these blocks that satisfy a condition, or the mean weight of a linear query.

        Both ends are included; the default is all blocks that may be read and are over. As in `PMW`, an easy answer is
        free, and a hard one is charged in the blocks of its node. Under `request` each node returns its earlier answer.
        Errors: those of a question to `PMW`. `InvalidQuery` for a block that is not over. `BudgetExceeded`, before any
        block is charged, where one cannot pay for its size, or for a hard answer with `must_verify`.
        """
        names = self._names(since, until)
        self._checked.asked(where, _SOME_ROWS)
        first = self._blocks.all().index(names[0])
        # All are opened before the first is asked, so that none is charged for a range that another one refuses.
        runs = self._opened(list(spans(first, first + len(names) - 1)))

        def fits(node: Span) -> bool:
            return not must_verify or runs[node].quote(where).fits

        def answer(node: Span) -> WeightedAnswer:
            run = runs[node]
            return run.ask(where, must_verify=must_verify, request=request and f"{request} ({run.call})")

        # What cannot be paid for is refused before another node is charged.
        found = {node: answer(node) for node in sorted(runs, key=fits)}
        return RangeAnswer(tuple(NodeAnswer(*self._ends(node), runs[node].law.size, found[node]) for node in runs))

    @property
    def nodes(self) -> dict[tuple[str, str], HistogramRun]:
        """The nodes that were opened, by their first and last block."""
        self._look()
        return {self._ends(node): run for node, run in sorted(self._runs.items(), key=lambda known: known[0])}

    @property
    def _blocks(self) -> Blocks:
        blocks = self._session.spine.blocks
        assert blocks is not None
        return blocks

    @cached_property
    def _checked(self) -> HistogramMemory:
        """A histogram that checks what may be asked."""
        spine = self._session.spine
        law = replace(self.call, rows=_SOME_ROWS).law(spine.filter, spine.rows.neighbor_relation, _SOME_ROWS)
        return HistogramMemory(law, spine.rows.schema)

    def _names(self, since: Day | None, until: Day | None) -> Sequence[str]:
        """The blocks of a range, all of them over."""
        names, today = self._blocks.between(since, until), self._blocks.all()[-1]
        if names[-1] != today:
            return names
        if until is None and len(names) > 1:
            return names[:-1]
        over = f": ask until {names[-2]!r}" if len(names) > 1 else ""
        raise InvalidQuery(f"block {today} is not over, and its size still changes{over}")

    def _ends(self, node: Span) -> tuple[str, str]:
        known = self._blocks.all()
        return known[node[0]], known[node[1]]

    def _opened(self, nodes: Sequence[Span]) -> dict[Span, HistogramRun]:
        """The histograms of nodes, opened where they were not open yet."""
        if self._runs.keys() >= set(nodes):
            return {node: self._runs[node] for node in nodes}
        self._look()
        self._release([place for node in nodes if node not in self._runs for place in _places(node)])
        return {node: self._runs.get(node) or self._open(node) for node in nodes}

    def _release(self, places: Sequence[int]) -> None:
        """Release the sizes of these blocks, once. The block with least left is first: where it can pay all others can,
        and where it cannot none is charged."""
        known = self._blocks.all()
        within = {place: self._session.blocks(known[place], known[place]) for place in places}
        for place in sorted(within.keys() - self._sizes.keys(), key=lambda place: within[place].remaining.share):
            released = within[place].ask(self.size, request=f"{self._key} size of {known[place]}")
            assert isinstance(released, NoisyNumber)
            self._sizes[place] = float(released.value)

    def _open(self, node: Span) -> HistogramRun:
        """Open the histogram of a node."""
        rows = max(1, round(sum(self._sizes[place] for place in _places(node))))
        source, key = self._nearest(node) if self.warm else None, self._named(node)
        began = None if source is None else source.call
        call = replace(at_size(self.call, rows), warm_start=began)
        within = self._session.blocks(*self._ends(node))
        try:
            run = within.start(call, request=key)
        except RequestConflict:
            # Another process began it, or one that died, from another histogram: it is opened from that.
            run = within.start(replace(call, warm_start=self._begun_from(key)), request=key)
        self._runs[node] = run
        return run

    def _begun_from(self, key: str) -> int | None:
        """From which histogram the opening under this key was first asked to start."""
        spine = self._session.spine
        asked = spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=key)
        found = (call.question.get("warm_start") for call in asked if call.state != State.VOIDED)
        return next(found, None)

    def _nearest(self, node: Span) -> HistogramRun | None:
        """The histogram from which a new node starts."""
        learned = {each: changes for each, run in list(self._runs.items()) if (changes := len(run.state.changes))}
        found = nearest(node, learned)
        return None if found is None else self._runs[found]

    def _look(self) -> None:
        """Find the nodes that were opened elsewhere or before, by their keys."""
        spine, known = self._session.spine, self._blocks.all()
        for stored in spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=f"{self._key} node "):
            names = () if stored.parts is None else stored.parts.names
            if stored.state != State.SETTLED or not names or names[0] not in known or names[-1] not in known:
                continue
            node = known.index(names[0]), known.index(names[-1])
            if node not in self._runs:
                # Blocks that are closed are asked no more.
                with suppress(InvalidQuery):
                    resumed: Any = self._session.blocks(names[0], names[-1]).resume(stored.number)
                    self._runs[node] = resumed

    def _named(self, node: Span) -> str:
        return f"{self._key} node {' '.join(self._ends(node))}"

    def __repr__(self) -> str:
        return f"HistogramTree({self.call!r}, {len(self._runs)} nodes)"
