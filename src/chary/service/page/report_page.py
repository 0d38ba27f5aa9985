"""The public report, as it was published last; for custodians also what would be published now."""

import json
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from chary.service.api.custodian_routes import Form as Format
from chary.service.api.custodian_routes import published
from chary.service.api.service_state import Shared
from chary.service.page.frame.shown_pages import Page, shown
from chary.service.page.frame.visiting import Looker
from chary.service.wire.problems import Refusal

router = APIRouter(prefix="/datasets/{dataset}/report")
PAGE: Final = Page("report", "Report", "look", router)


@router.get("")
def report(request: Request, on: Looker, service: Shared) -> Response:
    """The report of the dataset in the layout."""
    try:
        found = json.loads(bytes(published(on, service, "json").body))
    except Refusal:
        found = None
    return shown(request, "report", report=found, statement=on.served.session.statement())


@router.get("/published")
def alone(on: Looker, service: Shared, form: Format = "html") -> Response:
    """The published report by itself, in one of its forms."""
    return published(on, service, form)
