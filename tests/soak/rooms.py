"""What sessions of the attacks are opened on: small rows of each sort, with the kinds of calls that they answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

import chary
from chary import Budget, Session
from tests.conformance.sample import PATIENTS, REPLACED, ROWS, VOTES
from tests.conformance.samples import EVERY, names_of
from tests.session.kit import PUBLIC, open_teachers, visits

VISITS = pa.Table.from_pandas(visits(), preserve_index=False)
FILE, BATCH = "visits.duckdb", VISITS.slice(0, 7)
# Where each row is a unit, nothing can be asked that needs to know whose a row is.
OF_UNITS = {"quantiles", "quantile", "individual_stream", "individual_ask", "sketch", "sketch_release_if"}
OF_ANY_ROWS = tuple(kind for kind in names_of(PATIENTS, REPLACED, ROWS) if kind not in OF_UNITS)
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
    return open_teachers(**options)


def make_file(folder: Path) -> None:
    with duckdb.connect(str(folder / FILE)) as connection:
        connection.register("given", VISITS)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")


ROOMS = {
    "units": Room(names_of(PATIENTS), of_frame(privacy_unit="patient")),
    "replaced units": Room(names_of(PATIENTS, REPLACED), of_frame(privacy_unit="patient", neighbors="replace")),
    "rows": Room(OF_ANY_ROWS, of_frame(**PUBLIC)),
    "a file that grows": Room((*OF_ANY_ROWS, *[APPEND] * 8), of_file, make_file),
    "votes": Room(names_of(VOTES), of_votes),
}
BUDGETS = (
    {"budget": Budget(epsilon=2, delta=1e-6), "grain": "0.02"},
    {"budget": Budget(epsilon="0.3", delta=1e-6), "grain": "0.02"},
    {"budget": Budget(epsilon=2, delta=1e-6), "delta_reserve": "5e-7"},
    {"budget": Budget(epsilon="0.5", delta=1e-6), "grain": "0.01", "filter": "exact"},
    {"budget": Budget(epsilon="0.5")},
)
