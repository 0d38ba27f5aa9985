"""The public report as it was published last; for custodians also how it is published."""

import json
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from chary.errors import CharyError
from chary.service.api.custodian_routes import Form as Format
from chary.service.api.custodian_routes import publish, published
from chary.service.api.places import Asking
from chary.service.api.service_state import Service, Shared
from chary.service.page.frame.posted_forms import Form
from chary.service.page.frame.shown_pages import Page, place_of, shown
from chary.service.page.frame.visiting import Looker, Publisher
from chary.service.wire.problems import Refusal, problem, status_of
from chary.service.wire.typed_values import of_typed
from chary.session import PublicReport

router = APIRouter(prefix="/datasets/{dataset}/report")
PAGE: Final = Page("report", "Report", "look", router)


@router.get("")
def report(request: Request, on: Looker, service: Shared) -> Response:
    """The report in the layout."""
    return _shown(request, on, service)


@router.post("")
def publish_now(request: Request, on: Publisher, form: Form, service: Shared) -> Response:
    """Publish the report of now."""
    try:
        publish(on, service)
    except CharyError as error:
        return _shown(request, on, service, error)
    return RedirectResponse(place_of(on.served.name, "report"), 303)


@router.get("/published")
def alone(on: Looker, service: Shared, form: Format = "html") -> Response:
    """The published report by itself, in one of its forms."""
    return published(on, service, form)


def _shown(request: Request, on: Asking, service: Service, error: CharyError | None = None) -> Response:
    found = _published(on, service)
    told: dict[str, Any] = {"report": found, "found": None if found is None else found.datasets[0]}
    told |= {"statement": on.served.session.statement(), "problem": None if error is None else problem(error)}
    return shown(request, "report", 200 if error is None else status_of(error), **told)


def _published(on: Asking, service: Service) -> PublicReport | None:
    """The report that was published last; None where none was."""
    try:
        made: PublicReport = of_typed(json.loads(bytes(published(on, service, "typed").body)))
    except Refusal:
        return None
    return made
