"""What standing questions found, in order: told once each, with the call that has the answer, never the answer."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select

from chary.ledger.entries import now
from chary.service.keeping.service_store import ServiceStore
from chary.service.keeping.service_tables import TOLD
from chary.service.standing.standing_book import StandingQuestion


@dataclass(frozen=True)
class News:
    """What is told: "hit", "answer", "unverified", "failing", "running out" or "ended", of which version, and
    which call has the answer."""

    kind: str
    version: int
    call: int | None
    detail: str


class Feed:
    """The news of all standing questions, numbered."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store

    def add(self, standing: StandingQuestion, news: News) -> None:
        """Tell it, unless it was told before: the same kind of news of one version is told once."""
        row: dict[str, Any] = {"standing": standing.standing, "analyst": standing.analyst, "time": now(), "tries": 0}
        row |= {"dataset": standing.dataset, "webhook": standing.webhook, "due": 0.0 if standing.webhook else None}
        here = (TOLD.c.standing == standing.standing, TOLD.c.kind == news.kind, TOLD.c.version == news.version)
        if not self._store.rows(select(TOLD.c.number).where(*here)):  # numbers are not used up in vain
            self._store.add_once(insert(TOLD).values(**row, **vars(news)))

    def since(
        self, dataset: str, after: int = 0, limit: int = 100, *, analyst: str | None = None
    ) -> list[dict[str, Any]]:
        """So many news of a dataset from that number on, oldest first; only those of one analyst, if one is named."""
        statement = select(TOLD).where(TOLD.c.dataset == dataset, TOLD.c.number > after).order_by(TOLD.c.number)
        if analyst is not None:
            statement = statement.where(TOLD.c.analyst == analyst)
        return [told(row) for row in self._store.rows(statement.limit(limit))]


def told(row: Any) -> dict[str, Any]:
    """What is told of one piece of news."""
    names = ("number", "standing", "analyst", "dataset", "time", "kind", "version", "call", "detail")
    return {name: row._mapping[name] for name in names}
