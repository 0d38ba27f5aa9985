"""What a service tells of a dataset, as a session tells it."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote as in_path

from chary.answers import Spending
from chary.data.queries.bodies import query_of
from chary.errors import InvalidQuery
from chary.report.public_report import PublicReport
from chary.service.client.transport import Transport
from chary.service.wire.typed_values import of_typed
from chary.session import Entry, Version


@dataclass(frozen=True)
class RemoteFigures:
    """What is public of one dataset of a service: everything that is read and nothing that is asked."""

    _transport: Transport = field(repr=False)
    dataset: str

    def series(self) -> Any:
        """The question for all values of a series; only datasets that are series have one."""
        body = self._transport.read(self._at())["series"]
        if body is None:
            raise InvalidQuery("this session asks a table: use count, total or mean")
        return query_of(body)

    @property
    def size(self) -> int:
        """How many rows there are; `InvalidQuery` where that is secret."""
        size = self._transport.read(self._at())["size"]
        if size is None:
            raise InvalidQuery("the number of rows of this dataset is secret")
        return int(size)

    @property
    def versions(self) -> list[Version]:
        """Every batch in order of arrival."""
        return [Version(**each) for each in self._transport.pages(self._at("versions"))]

    @property
    def schema(self) -> dict[str, str]:
        """Column names and types."""
        found: dict[str, str] = self._transport.read(self._at("schema"))["schema"]
        return found

    @property
    def spent(self) -> Spending:
        """What is spent by all analysts together."""
        return self._budget("spent")

    @property
    def remaining(self) -> Spending:
        """What the token's analyst could still spend."""
        return self._budget("left")

    @property
    def free_misses_ended(self) -> bool:
        """Whether every call is charged its epsilon by now, hit or miss; False from a service that does not say so."""
        return bool(self._transport.read(self._at("budget")).get("free_misses_ended"))

    @property
    def history(self) -> list[Entry]:
        """The calls that are shown to this token, oldest first."""
        return [Entry(**each) for each in self._transport.pages(self._at("calls"))]

    def statement(self) -> str:
        """One paragraph that says what was guaranteed so far."""
        return str(self._transport.read(self._at("statement"))["statement"])

    def report(self, *, draft: bool = False) -> PublicReport:
        """The report that was published last; for custodians, the `draft` of now."""
        place = "report/draft" if draft else "report"
        found: PublicReport = of_typed(self._transport.read(self._at(place), form="typed"))
        return found

    @property
    def standing(self) -> list[dict[str, Any]]:
        """The standing questions that are shown to this token, oldest first, with what they cost so far."""
        return self._transport.pages(self._at("standing"))

    @property
    def news(self) -> list[dict[str, Any]]:
        """What standing questions found, oldest first: of each hit the call, whose answer is in `history`."""
        return self._transport.pages(self._at("feed"))

    def _at(self, path: str = "") -> str:
        place = f"/v1/datasets/{in_path(self.dataset, safe='')}"
        return f"{place}/{path}" if path else place

    def _budget(self, name: str) -> Spending:
        found: Spending = of_typed(self._transport.read(self._at("budget"), typed="true")["typed"][name])
        return found
