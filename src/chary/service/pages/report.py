"""The page of the public report."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from chary.client.problems import Refusal, problem, status_of
from chary.errors import CharyError
from chary.service.api.custodian import Form as Format
from chary.service.api.custodian import last_report, publish, published_text
from chary.service.http.admission import Asking
from chary.service.pages.browser import Form
from chary.service.pages.frame import Looker, Page, Publisher, place_of, shown
from chary.service.state import Service, Shared

router = APIRouter(prefix="/datasets/{dataset}/report")
PageNumber = Annotated[int, Query(ge=1, le=2**53)]
PAGE: Final = Page("report", "Report", "look", router)


@router.get("")
def report(request: Request, on: Looker, service: Shared, page: PageNumber = 1) -> Response:
    """The report in the layout, so many questions a page."""
    return _shown(request, on, service, page=page)


@router.post("")
def publish_now(request: Request, on: Publisher, form: Form, service: Shared) -> Response:
    """Publish the report of now."""
    try:
        publish(on, service)
    except CharyError as error:
        return _shown(request, on, service, error)
    return RedirectResponse(place_of(on.served.name, "report"), 303)


@router.get("/published")
def alone(request: Request, on: Looker, service: Shared, form: Format = "html") -> Response:
    """The published report by itself, in one of its forms."""
    return published_text(request, on, service, form)


def _shown(request: Request, on: Asking, service: Service, error: CharyError | None = None, page: int = 1) -> Response:
    try:
        found = last_report(service, on)
    except Refusal:
        told: dict[str, Any] = {"report": None, "found": None}
    else:
        told = {"report": found.front, "found": found.front.datasets[0], "sums": found.sums}
        told |= {"calls": found.calls(page), "part": page, "parts": len(found.pages)}
    told |= {"statement": on.served.session.statement(), "problem": None if error is None else problem(error)}
    return shown(request, "report", 200 if error is None else status_of(error), **told)
