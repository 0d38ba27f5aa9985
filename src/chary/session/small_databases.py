"""Small synthetic databases of a session: choosing how many rows, and making one."""

from collections.abc import Iterable, Mapping
from typing import Any

from chary.accounting import Pure
from chary.accounting.small_database import best_rows, published_rows
from chary.data import Universe
from chary.data.axes import Axis
from chary.data.size import public_size
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms.small_database_classes import Measure
from chary.numbers import Number, whole
from chary.session.door import Door
from chary.session.small_database import RARE, MakeSmallDatabase, SmallDatabase
from chary.session.small_database_workload import Workload
from chary.session.workload import AskedQueries


class SmallDatabases(Door):
    """SmallDB: small synthetic databases for lists of queries."""

    def small_database(
        self,
        *,
        universe: Universe | Mapping[str, Axis | Iterable[Any]],
        queries: AskedQueries,
        epsilon: Number,
        rows: int | None = None,
        alpha: Number | None = None,
        measure: Measure = "classes",
        request: str | None = None,
    ) -> SmallDatabase:
        """A synthetic database of a few rows whose answers to all these queries are near those of the data.

        Queries are conditions, one or a list, or counts, whose keys make a condition each. Give its size as `rows`, or
        `alpha` for `ceil(ln|Q|/alpha^2)` as published; without either it has as many rows as promise the least error at
        the public size, up to 1,000,000 candidates. All candidates are gone through, so there may be 10,000,000 at
        most.

        Guarantee: epsilon-DP, by the exponential mechanism ([BLR08]; docs/small_database.md); always charged, at the
        lower price of the (epsilon^2/8)-zCDP that comes with it. `measure="databases"` is the published law, in which
        every multiset of cells is a candidate; with "classes" those with the same number of rows in each class of cells
        that the queries cannot tell apart are one, so that the error does not depend on the universe.

        Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`,
        `privacy_unit=None`), for a condition that the universe cannot tell, and for too many candidates; it says how
        many there are, and nothing is charged.
        """
        if rows is not None and alpha is not None:
            raise InvalidParameter("give rows= or alpha=, which is another way to say how many rows")
        size, workload = public_size(self.spine.rows), Workload.of(universe, queries, self.spine.rows.schema)
        if size < 1:
            raise InvalidQuery("a database of shares needs rows: append some first")
        asked = rows if alpha is None else published_rows(queries=len(workload.queries), alpha=alpha)
        made = whole(asked, "rows") if asked is not None else _best(workload, measure, size, epsilon)
        asking = MakeSmallDatabase(workload, self.spine.rows.neighbouring, epsilon, asked, measure, made, size=size)
        answer: SmallDatabase = self.spine.perform(asking, request)
        return answer


def _best(workload: Workload, measure: Measure, size: int, epsilon: Number) -> int:
    return best_rows(
        lambda rows: workload.law(rows, measure),
        lambda rows: workload.quick(rows, measure),
        size=size,
        epsilon=Pure(epsilon).epsilon,
        beta=RARE,
    )
