"""Synthetic histograms of a session."""

from collections.abc import Iterable, Mapping
from typing import Any

from chary.data import Universe
from chary.data.axes import Axis
from chary.numbers import Number
from chary.session.door import Door
from chary.session.mwem import SyntheticHistogram, make_histogram
from chary.session.workload import AskedQueries


class Synthesizing(Door):
    """MWEM: synthetic histograms for lists of queries."""

    def mwem(
        self,
        *,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: AskedQueries,
        rounds: int,
        epsilon: Number | None = None,
        rho: Number | None = None,
        request: str | None = None,
    ) -> SyntheticHistogram:
        """A histogram over a whole universe that answers all these queries, from the few it would get most wrong.

        Each round picks the query that the histogram of that time gets most wrong, measures its count, and fits the
        histogram to all counts measured so far; the last one only tests (Hardt, Ligett, McSherry 2012; docs/mwem.md).
        Queries are conditions, one or a list, or counts, whose keys make a condition each. More rounds learn more
        and measure each count less precisely; `chary.accounting.mwem.best_rounds` is the number that promises most for
        the worst data.

        Guarantee: epsilon-DP, or with `rho`, for sessions with a delta, rho-zCDP, which is more accurate for many
        rounds; always charged. With probability 0.95 all answers to these queries are within `error_bar` of the answer.

        Errors: `InvalidQuery` where the number of rows is secret (open with `privacy_unit=None`, `relation="replace"`),
        for no rows, for no queries, more than 100,000 or one of them twice, and for a condition that the universe
        cannot tell; `InvalidParameter` for a number of rounds that is not from 1 to 1,000, or not one of `epsilon` and
        `rho`; `NoPrice` for rho without a delta.
        """
        neighbouring = self.spine.rows.neighbouring
        made = make_histogram(universe, queries, neighbouring, rounds, epsilon, rho)
        answer: SyntheticHistogram = self.spine.perform(made, request)
        return answer
