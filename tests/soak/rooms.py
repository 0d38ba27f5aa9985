"""What sessions of the attacks are opened on: small rows of each sort, with the kinds of calls that they answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

import chary
from chary import Budget, Session
from chary.data import Votes
from chary.session import open_votes
from tests.session.kit import PUBLIC, visits
from tests.session.registry import EVERY, OF_REPLACED, OF_ROWS, OF_VOTES

VISITS = pa.Table.from_pandas(visits(), preserve_index=False)
FILE, BATCH = "visits.duckdb", VISITS.slice(0, 7)
UNITS = tuple(kind for kind in EVERY if kind not in OF_ROWS | OF_REPLACED | OF_VOTES)
# Where each row is a unit, nothing can be asked that needs to know whose a row is.
OF_UNITS = {"quantiles", "quantile", "individual_stream", "individual_ask", "sketch", "sketch_release_if"}
ROWS = tuple(kind for kind in EVERY if kind not in OF_UNITS | OF_VOTES)
APPEND = "append"


@dataclass(frozen=True)
class Room:
    """Rows under a relation: `make` lays out files in a folder, `open` opens a session there."""

    kinds: tuple[str, ...]
    open: Callable[..., Session]
    make: Callable[[Path], object] = lambda folder: None

    def prepare(self, session: Session, kind: str, name: str) -> Callable[[str | None], object]:
        """How to ask a call of this kind under a request key."""
        if kind == APPEND:
            return lambda key: session.append(BATCH, request=key)
        return EVERY[kind](session, name)


def of_frame(rows: pa.Table = VISITS, **neighbors: object) -> Callable[..., Session]:
    return lambda folder, **options: chary.open(rows, dataset="data", **(neighbors | options))


def of_file(folder: Path, **options: object) -> Session:
    return chary.open(folder / FILE, table="visits", dataset="data", **(PUBLIC | options))


def of_votes(folder: Path, **options: object) -> Session:
    votes = Votes(lambda question: [90, 10], ["yes", "no"], voter="teacher")
    return open_votes(votes, dataset="data", **options)


def make_file(folder: Path) -> None:
    with duckdb.connect(str(folder / FILE)) as connection:
        connection.register("given", VISITS)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")


ROOMS = {
    "units": Room(UNITS, of_frame(privacy_unit="patient")),
    "replaced units": Room((*UNITS, *OF_REPLACED), of_frame(privacy_unit="patient", neighbors="replace")),
    "rows": Room(ROWS, of_frame(**PUBLIC)),
    "a file that grows": Room((*ROWS, *[APPEND] * 8), of_file, make_file),
    "votes": Room(tuple(OF_VOTES), of_votes),
}
BUDGETS = (
    {"budget": Budget(epsilon=2, delta=1e-6), "grain": "0.02"},
    {"budget": Budget(epsilon="0.3", delta=1e-6), "grain": "0.02"},
    {"budget": Budget(epsilon=2, delta=1e-6), "approximate_delta": "5e-7"},
    {"budget": Budget(epsilon="0.5", delta=1e-6), "grain": "0.01", "filter": "exact"},
    {"budget": Budget(epsilon="0.5")},
)
